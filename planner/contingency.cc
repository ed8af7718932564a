#include "planner/contingency.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace tidemark {
namespace {

/// Mapping granule of virtual memory management on both vendors' devices.
constexpr Bytes kGranule = 2 * kMiB;
constexpr std::size_t kMaxLevels = 3;
/// Copies are given this many times their own duration in each direction, so that a busy link does not stall the step.
constexpr std::int64_t kLead = 3;
/// Share of the nominal step that all copies of one direction may occupy.
constexpr double kLinkShare = 0.8;

/// Bytes of the whole granules inside a slot.
Bytes granules_inside(Bytes offset, Bytes bytes) {
  return std::max<Bytes>(0, (offset + bytes) / kGranule * kGranule - round_up(offset, kGranule));
}

bool is_routed(const Graph& graph, StorageId storage) {
  const StorageTemplate& t = graph.template_of(storage);
  return t.routed_rows > 0 && t.routed_rows * t.routed_row_bytes >= kGranule;
}

/// Room and demand along the compute clock of a program, in differences until `accumulate`.
class Room {
 public:
  Room(const Graph& graph, const Program& program)
      : length_(static_cast<std::size_t>(program.schedule.compute_tasks) * 2 + 2) {
    routed_.assign(length_, 0);
    waste_.assign(length_, 0);
    freed_.assign(length_, 0);
    for (std::size_t i = 0; i < program.schedule.residencies.size(); ++i) {
      const Residency& r = program.schedule.residencies[i];
      if (r.space != MemorySpace::device || !is_routed(graph, r.storage)) continue;
      const StorageTemplate& t = graph.template_of(r.storage);
      const Bytes inside = granules_inside(program.layout.offset_of[i], r.bytes);
      // Demand at load f: f * unit + one granule of rounding; room given back: the granules inside its slot.
      add(routed_, r.acquire, r.release, t.routed_rows * t.routed_row_bytes);
      add(waste_, r.acquire, r.release, t.fixed_bytes + kGranule - inside);
    }
    dynamic_ = program.layout.arenas.front().dynamic_bytes;
  }

  /// A storage of the plan leaves its slot between two half-steps.
  void vacate(const Graph& graph, const Program& program, const Contingency& c, std::int32_t from, std::int32_t until) {
    const Residency& r = program.schedule.residencies[row(c.residency)];
    if (is_routed(graph, r.storage)) {
      // Its slot was counted as given back already; what goes away is its demand.
      const StorageTemplate& t = graph.template_of(r.storage);
      add(routed_, from, until, -t.routed_rows * t.routed_row_bytes);
      add(waste_, from, until, -(t.fixed_bytes + kGranule));
    } else {
      add(freed_, from, until, c.freed_bytes);
    }
  }

  /// Largest uniform load with room everywhere; `load` if there is none beyond it.
  [[nodiscard]] double limit(double load) const {
    Bytes routed = 0, waste = 0, freed = 0;
    double limit = std::numeric_limits<double>::max();
    bool any = false;
    for (std::size_t t = 0; t < length_; ++t) {
      routed += routed_[t];
      waste += waste_[t];
      freed += freed_[t];
      if (routed <= 0) continue;
      any = true;
      limit = std::min(limit, static_cast<double>(dynamic_ + freed - waste) / static_cast<double>(routed));
    }
    return any ? std::max(load, limit) : load;
  }

  /// Bytes that routed storages may take outside their slots, per half-step; at least 0.
  [[nodiscard]] std::vector<Bytes> available() const {
    std::vector<Bytes> result(length_);
    Bytes waste = 0, freed = 0;
    for (std::size_t t = 0; t < length_; ++t) {
      waste += waste_[t];
      freed += freed_[t];
      result[t] = std::max<Bytes>(0, dynamic_ + freed - waste);
    }
    return result;
  }

 private:
  static void add(std::vector<Bytes>& delta, std::int32_t from, std::int32_t until, Bytes bytes) {
    delta[static_cast<std::size_t>(from)] += bytes;
    delta[static_cast<std::size_t>(until)] -= bytes;
  }

  std::size_t length_;
  std::vector<Bytes> routed_, waste_, freed_;
  Bytes dynamic_ = 0;
};

/// Where graph ops and compute tasks stand in a schedule.
class Positions {
 public:
  Positions(const Graph& graph, const Schedule& schedule)
      : task_of_op_(graph.ops.size(), kNone<TaskId>), clock_of_(schedule.tasks.size(), 0) {
    std::int32_t clock = 0;
    for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
      const Task& task = schedule.tasks[t];
      clock_of_[t] = clock;
      if (task.kind == TaskKind::op) task_of_op_[row(task.op)] = id_of<TaskId>(t);
      if (task.lane == Lane::compute) ++clock;
    }
  }
  [[nodiscard]] TaskId task_of(OpId op) const { return task_of_op_[row(op)]; }
  /// Compute tasks before this one.
  [[nodiscard]] std::int32_t clock_of(TaskId task) const { return clock_of_[row(task)]; }

 private:
  std::vector<TaskId> task_of_op_;
  std::vector<std::int32_t> clock_of_;
};

/// The device residency that holds each storage first: the one a kept gap lies in.
std::vector<ResidencyId> first_residencies(const Graph& graph, const Schedule& schedule) {
  std::vector<ResidencyId> first(graph.storages.size(), kNone<ResidencyId>);
  for (std::size_t i = 0; i < schedule.residencies.size(); ++i) {
    const Residency& r = schedule.residencies[i];
    if (r.space == MemorySpace::device && first[row(r.storage)] == kNone<ResidencyId>)
      first[row(r.storage)] = id_of<ResidencyId>(i);
  }
  return first;
}

/// Touched by the compute lane alone before its gap, so a compute task after the last touch is after all of them.
bool handed_over_on_compute(const DecisionProblem& p, const Gap& gap) {
  for (const OpId op : p.liveness->touches_of(gap.storage)) {
    if (op > gap.before) break;
    if (p.graph->template_of(op).lane != Lane::compute) return false;
  }
  return true;
}

/// A kept gap turned into a contingency, if its window is wide enough for both copies.
std::optional<Contingency> swap_of(const DecisionProblem& p, const GapRow& gap, const Program& program,
                                   const Positions& at, ResidencyId residency, TaskId first_back) {
  const auto compute_from = [&](std::int64_t ns) {
    return static_cast<std::size_t>(std::lower_bound(p.clock_start_ns.begin(), p.clock_start_ns.end(), ns) -
                                    p.clock_start_ns.begin());
  };
  const std::size_t release = compute_from(p.nominal->end_ns[row(gap.gap.before)] + kLead * gap.copy_out.link_ns);
  const std::size_t need = static_cast<std::size_t>(p.clock_of[row(gap.gap.after)]);
  const std::int64_t need_ns = p.nominal->start_ns[row(gap.gap.after)];
  // The last op that has started when the copy in should begin.
  const std::size_t later = compute_from(need_ns - kLead * gap.copy_in.link_ns + 1);
  const std::size_t prefetch = later == 0 ? 0 : later - 1;
  if (!handed_over_on_compute(p, gap.gap)) return std::nullopt;
  if (prefetch == 0 || release >= prefetch || prefetch >= need) return std::nullopt;
  Contingency c{.trigger = at.task_of(gap.gap.before),
                .residency = residency,
                .release_at = at.task_of(p.compute_op[release]),
                .prefetch_at = at.task_of(p.compute_op[prefetch - 1]),
                .needed_at = first_back};
  const Bytes offset = program.layout.offset_of[row(residency)];
  c.freed_bytes = granules_inside(offset, gap.bytes);
  if (!(c.trigger < c.release_at && c.release_at <= c.prefetch_at && c.prefetch_at < c.needed_at)) return std::nullopt;
  return c;
}

/// First task that touches a residency after a given one.
class NextTouch {
 public:
  explicit NextTouch(const Schedule& schedule) : first_(schedule.residencies.size() + 1, 0) {
    for (const Schedule::Touch& touch : schedule.touches) ++first_[row(touch.residency) + 1];
    for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    tasks_.resize(schedule.touches.size());
    std::vector<std::int32_t> cursor(first_.begin(), first_.end() - 1);
    for (std::size_t t = 0; t < schedule.tasks.size(); ++t)
      for (const Schedule::Touch& touch : schedule.touches_of(id_of<TaskId>(t)))
        tasks_[static_cast<std::size_t>(cursor[row(touch.residency)]++)] = id_of<TaskId>(t);
  }
  [[nodiscard]] TaskId after(ResidencyId residency, TaskId task) const {
    const auto begin = tasks_.begin() + first_[row(residency)], end = tasks_.begin() + first_[row(residency) + 1];
    const auto it = std::upper_bound(begin, end, task);
    return it == end ? kNone<TaskId> : *it;
  }

 private:
  std::vector<std::int32_t> first_;
  std::vector<TaskId> tasks_;
};

/// Peak of the pinned memory that a set of gaps would hold together.
Bytes host_peak(const DecisionProblem& p, const std::vector<std::int32_t>& gaps) {
  std::vector<Bytes> delta(p.base_bytes.size() + 2, 0);
  for (const std::int32_t g : gaps) {
    const GapRow& gap = p.gaps[static_cast<std::size_t>(g)];
    delta[static_cast<std::size_t>(gap.free_from)] += gap.bytes;
    delta[static_cast<std::size_t>(gap.taken_from) + 1] -= gap.bytes;
  }
  Bytes live = 0, peak = 0;
  for (const Bytes d : delta) {
    live += d;
    peak = std::max(peak, live);
  }
  return peak;
}

struct Level {
  bool routed = false;
  Bytes bytes = 0;  ///< of one storage
  std::vector<std::int32_t> gaps;
};

/// Gap classes that are kept throughout and worth vacating: routed first, then the largest.
std::vector<Level> candidate_levels(const DecisionProblem& p, const Choice& choice) {
  std::vector<Level> levels;
  for (const SiteClass& c : p.classes)
    for (std::size_t k = 0; k < c.slots.size(); ++k) {
      Level level;
      for (const std::int32_t first : c.first_gap) {
        const auto g = static_cast<std::size_t>(first) + k;
        if (choice[g] == Action::keep) level.gaps.push_back(static_cast<std::int32_t>(g));
      }
      if (level.gaps.empty()) continue;
      const GapRow& gap = p.gaps[static_cast<std::size_t>(level.gaps.front())];
      level.routed = is_routed(*p.graph, gap.gap.storage);
      level.bytes = gap.bytes;
      if (p.graph->template_of(gap.gap.storage).swappable && gap.bytes >= 4 * kGranule)
        levels.push_back(std::move(level));
    }
  std::stable_sort(levels.begin(), levels.end(), [](const Level& a, const Level& b) {
    return std::pair(!a.routed, -a.bytes) < std::pair(!b.routed, -b.bytes);
  });
  return levels;
}

void list_routing_slots(const Graph& graph, Program& program) {
  std::vector<char> replayed(graph.storage_templates.size(), 0);
  for (const Block& block : graph.blocks)
    for (std::int32_t r = 0; r < block.recipe_count; ++r) {
      const Recipe& recipe = graph.recipes[row(block.first_recipe) + static_cast<std::size_t>(r)];
      if (!recipe.replays_routing) continue;
      for (const std::int32_t local : recipe.sources) {
        const std::size_t t = row(block.first_storage_template) + static_cast<std::size_t>(local);
        if (graph.storage_templates[t].name == "router") replayed[t] = 1;
      }
    }
  for (std::size_t i = 0; i < program.schedule.residencies.size(); ++i) {
    const Residency& r = program.schedule.residencies[i];
    if (r.space == MemorySpace::device && replayed[row(graph.storages[row(r.storage)].storage_template)] != 0)
      program.routing_slots.push_back(id_of<ResidencyId>(i));
  }
}

}  // namespace

void add_contingencies(const DecisionProblem& problem, const Choice& choice, double load, Bytes host_budget,
                       Bytes host_bytes, Program& program) {
  const Graph& graph = *problem.graph;
  list_routing_slots(graph, program);
  Room room(graph, program);
  program.contingency_limit_f = room.limit(load);
  if (std::none_of(graph.storages.begin(), graph.storages.end(), [&](const Storage& s) {
        return is_routed(graph, id_of<StorageId>(static_cast<std::size_t>(&s - graph.storages.data())));
      }))
    return;

  const Positions at(graph, program.schedule);
  const NextTouch next_touch(program.schedule);
  const std::vector<ResidencyId> residencies = first_residencies(graph, program.schedule);
  const double step_ns = problem.clock_start_ns.empty() ? 0.0 : static_cast<double>(problem.clock_start_ns.back());
  double link_ns = 0;
  for (std::size_t g = 0; g < choice.size(); ++g)
    if (choice[g] == Action::swap) link_ns += static_cast<double>(problem.gaps[g].copy_in.link_ns);

  Bytes host = host_bytes;
  std::size_t levels = 0;
  for (const Level& level : candidate_levels(problem, choice)) {
    if (levels == kMaxLevels) break;
    double level_link_ns = 0;
    for (const std::int32_t g : level.gaps)
      level_link_ns += static_cast<double>(problem.gaps[static_cast<std::size_t>(g)].copy_in.link_ns);
    const Bytes level_host = host_peak(problem, level.gaps);
    if (host + level_host > host_budget || link_ns + level_link_ns > kLinkShare * step_ns) continue;

    // A level is asked for when the demand exceeds the room all levels before it leave.
    const double trigger_load = room.limit(load);
    const std::vector<Bytes> available = room.available();
    Room with_level = room;
    std::vector<Contingency> added;
    for (const std::int32_t g : level.gaps) {
      const GapRow& gap = problem.gaps[static_cast<std::size_t>(g)];
      const ResidencyId residency = residencies[row(gap.gap.storage)];
      const TaskId back = next_touch.after(residency, at.task_of(gap.gap.before));
      if (back == kNone<TaskId>) continue;
      std::optional<Contingency> c = swap_of(problem, gap, program, at, residency, back);
      if (!c) continue;
      c->trigger_bytes = available[static_cast<std::size_t>(2 * at.clock_of(c->release_at))];
      with_level.vacate(graph, program, *c, 2 * at.clock_of(c->release_at), 2 * at.clock_of(c->prefetch_at) + 1);
      added.push_back(*c);
    }
    if (added.empty() || with_level.limit(load) <= trigger_load) continue;
    room = with_level;
    host += level_host;
    link_ns += level_link_ns;
    ++levels;
    program.contingencies.insert(program.contingencies.end(), added.begin(), added.end());
  }
  program.contingency_limit_f = room.limit(load);
}

}  // namespace tidemark
