// The contingency list and what it promises.
//
// Applying a contingency splits one residency in two and adds waits; no other residency moves and no wait goes away. So
// an order that holds in the Program as planned holds with any contingencies applied, and each contingency can be
// checked alone, relying on the planned order and its own waits only: if every one holds, every subset does. What is
// left are windows of one residency, which must not meet, sources of recomputes, which must not be out, and the pinned
// memory that copies share.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/dynamic_region.h"
#include "core/spare_host.h"
#include "core/verify_parts.h"

namespace tidemark::verify {
namespace {

bool within(std::int32_t value, std::size_t size) {
  return value >= 0 && static_cast<std::size_t>(value) < size;
}

// Tasks that touch each residency that the contingencies and their steps name, in issue order.
class TouchingTasks {
 public:
  explicit TouchingTasks(const Program& program) : slot_(program.schedule.residencies.size(), -1) {
    for (const Contingency& c : program.contingencies) name(c.residency);
    for (const ContingencyStep& step : program.contingency_steps)
      for (const Schedule::Touch& touch : step.touches) name(touch.residency);
    if (tasks_.empty()) return;
    for (std::size_t t = 0; t < program.schedule.tasks.size(); ++t) {
      for (const Schedule::Touch& touch : program.schedule.touches_of(id_of<TaskId>(t))) {
        const std::int32_t slot = slot_[row(touch.residency)];
        if (slot >= 0) tasks_[static_cast<std::size_t>(slot)].push_back({id_of<TaskId>(t), touch.kind});
      }
    }
  }

  struct Touching {
    TaskId task = kNone<TaskId>;
    AccessKind kind = AccessKind::read;
  };
  [[nodiscard]] const std::vector<Touching>& of(ResidencyId residency) const {
    return tasks_[static_cast<std::size_t>(slot_[row(residency)])];
  }

 private:
  void name(ResidencyId residency) {
    if (!within(static_cast<std::int32_t>(residency), slot_.size()) || slot_[row(residency)] >= 0) return;
    slot_[row(residency)] = static_cast<std::int32_t>(tasks_.size());
    tasks_.emplace_back();
  }

  std::vector<std::int32_t> slot_;
  std::vector<std::vector<Touching>> tasks_;
};

class ContingencyCheck {
 public:
  ContingencyCheck(const Graph& graph, const Program& program, const TaskOrder& order)
      : graph_(graph), program_(program), schedule_(program.schedule), order_(order), touching_(program) {
    written_.assign(graph.storages.size(), kNone<TaskId>);
    if (program.contingency_steps.empty()) return;
    for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
      if (schedule_.tasks[t].kind != TaskKind::op) continue;
      for (const Schedule::Touch& touch : schedule_.touches_of(id_of<TaskId>(t)))
        if (touch.kind == AccessKind::write)
          written_[row(schedule_.residencies[row(touch.residency)].storage)] = id_of<TaskId>(t);
    }
  }

  Found run() {
    for (std::size_t i = 0; i < program_.contingencies.size(); ++i) {
      const Contingency& c = program_.contingencies[i];
      for (const auto rule :
           {&ContingencyCheck::check_ids, &ContingencyCheck::check_points, &ContingencyCheck::check_before,
            &ContingencyCheck::check_after, &ContingencyCheck::check_means}) {
        if (std::string why = (this->*rule)(c); !why.empty()) return broken(i, c, why);
      }
    }
    if (Found found = check_windows()) return found;
    if (Found found = check_sources()) return found;
    if (Found found = check_host()) return found;
    return check_limit();
  }

 private:
  [[nodiscard]] std::string check_ids(const Contingency& c) const;
  [[nodiscard]] std::string check_points(const Contingency& c) const;
  [[nodiscard]] std::string check_before(const Contingency& c) const;
  [[nodiscard]] std::string check_after(const Contingency& c) const;
  [[nodiscard]] std::string check_means(const Contingency& c) const;
  [[nodiscard]] std::string check_copy(const Contingency& c) const;
  [[nodiscard]] std::string check_steps(const Contingency& c) const;
  [[nodiscard]] std::string check_source(const Contingency& c, ResidencyId source) const;
  [[nodiscard]] bool follows(const Contingency& c, const Recipe& recipe) const;
  [[nodiscard]] std::span<const ContingencyStep> steps_of(const Contingency& c) const {
    return {program_.contingency_steps.data() + c.first_step, static_cast<std::size_t>(c.step_count)};
  }
  [[nodiscard]] Found check_windows() const;
  [[nodiscard]] Found check_sources() const;
  [[nodiscard]] Found check_host() const;
  [[nodiscard]] Found check_limit() const;

  [[nodiscard]] Violation broken(std::size_t index, const Contingency& c, const std::string& why) const {
    std::string what = fmt::format("contingency {}", index);
    if (within(static_cast<std::int32_t>(c.residency), schedule_.residencies.size())) {
      what += " on " + name_of(&graph_, schedule_.residencies[row(c.residency)].storage);
    }
    return {.rule = Violation::Rule::contingency, .detail = what + ": " + why};
  }
  [[nodiscard]] std::string name(TaskId task) const { return name_of(&graph_, schedule_, task); }
  [[nodiscard]] bool on_compute(TaskId task) const { return schedule_.tasks[row(task)].lane == Lane::compute; }
  /// `task` has completed when something starts that follows both `start`'s start and the completion of `also`.
  [[nodiscard]] bool known(TaskId task, TaskId start, TaskId also) const {
    return order_.before(task, start) || task == also || order_.before(task, also);
  }

  const Graph& graph_;
  const Program& program_;
  const Schedule& schedule_;
  const TaskOrder& order_;
  TouchingTasks touching_;
  std::vector<TaskId> written_;  // per storage: the last op that writes it
};

std::string ContingencyCheck::check_ids(const Contingency& c) const {
  if (!within(static_cast<std::int32_t>(c.residency), schedule_.residencies.size()))
    return "its residency does not exist";
  for (const TaskId task : {c.trigger, c.release_at, c.prefetch_at, c.needed_at}) {
    if (!within(static_cast<std::int32_t>(task), schedule_.tasks.size())) {
      return fmt::format("its task {} does not exist", static_cast<std::int32_t>(task));
    }
  }
  const Residency& residency = schedule_.residencies[row(c.residency)];
  if (residency.space != MemorySpace::device) return "only device memory can be given back";
  if (graph_.template_of(residency.storage).routed_rows == 0) return "the storage does not grow with expert load";
  if (c.trigger_bytes < residency.bytes) {
    return fmt::format("it is applied beyond {} bytes, fewer than the {} planned", c.trigger_bytes, residency.bytes);
  }
  return {};
}

// The four points in issue order, so that the added copies and waits cannot form a circle.
std::string ContingencyCheck::check_points(const Contingency& c) const {
  if (!on_compute(c.release_at) || !on_compute(c.prefetch_at)) return "its bytes change hands off the compute lane";
  if (c.trigger < c.release_at && c.release_at <= c.prefetch_at && c.prefetch_at < c.needed_at) return {};
  return fmt::format("trigger {}, release {}, prefetch {} and need {} are not in order", row(c.trigger),
                     row(c.release_at), row(c.prefetch_at), row(c.needed_at));
}

// The copy out starts when `trigger` has completed; `release_at` waits for it, and the bytes are free from there.
std::string ContingencyCheck::check_before(const Contingency& c) const {
  bool touched = false;
  for (const auto& [task, kind] : touching_.of(c.residency)) {
    if (task > c.trigger) break;
    touched = touched || task == c.trigger;
    if (kind == AccessKind::write && task != c.trigger && !order_.before(task, c.trigger)) {
      return fmt::format("the copy out does not wait for {}, which writes it", name(task));
    }
    if (!known(task, c.release_at, c.trigger)) {
      return fmt::format("its bytes are released at {}, which does not wait for {}", name(c.release_at), name(task));
    }
  }
  return touched ? "" : fmt::format("{} does not touch it", name(c.trigger));
}

// The copy in starts when `prefetch_at` has completed; `needed_at` waits for it and every later touch for `needed_at`.
std::string ContingencyCheck::check_after(const Contingency& c) const {
  bool touched = false;
  for (const auto& [task, kind] : touching_.of(c.residency)) {
    if (task <= c.trigger) continue;
    if (task < c.needed_at) return fmt::format("{} touches it while it is out", name(task));
    touched = touched || task == c.needed_at;
    const bool next_on_lane = order_.lane(task) == order_.lane(c.needed_at);
    if (task != c.needed_at && !next_on_lane && !order_.before(c.needed_at, task)) {
      return fmt::format("{} touches it without waiting for the copy in", name(task));
    }
  }
  return touched ? "" : fmt::format("{} does not touch it", name(c.needed_at));
}

// What is given back at the limit, and how the content comes back.
std::string ContingencyCheck::check_means(const Contingency& c) const {
  const Residency& residency = schedule_.residencies[row(c.residency)];
  const Bytes actual = storage_bytes(graph_.template_of(residency.storage), program_.collective_limit_f);
  const Bytes freed =
      kPlanGranule * extra_granules(program_.layout.offset_of[row(c.residency)], residency.bytes, actual, kPlanGranule);
  if (c.freed_bytes != freed) {
    return fmt::format("it says that it frees {} bytes; at the limit it frees {}", c.freed_bytes, freed);
  }
  switch (c.kind) {
    case Contingency::Kind::swap:
      return check_copy(c);
    case Contingency::Kind::recompute:
      return check_steps(c);
  }
  return fmt::format("it is of kind {}, which does not exist", static_cast<int>(c.kind));
}

std::string ContingencyCheck::check_copy(const Contingency& c) const {
  const StorageTemplate& storage = graph_.template_of(schedule_.residencies[row(c.residency)].storage);
  if (!storage.swappable) return "the storage must not be swapped";
  if (c.step_count != 0) return "a swap has no steps";
  const auto& arenas = program_.layout.arenas;
  const auto host = std::ranges::find(arenas, MemorySpace::host, &Arena::space);
  if (host == arenas.end()) return "there is no host memory to swap it to";
  const Bytes bytes = storage_bytes(storage, program_.collective_limit_f);
  const Bytes top = host->height_bytes + host->dynamic_bytes;
  if (c.host_offset < host->height_bytes || c.host_offset > top - bytes || c.host_offset % host->alignment_bytes != 0) {
    return fmt::format("its copy of {} bytes at offset {} is not within the host memory for copies, [{}, {})", bytes,
                       c.host_offset, host->height_bytes, top);
  }
  return {};
}

// The steps are those of a recipe that restores this storage alone, on the compute lane and without memory of its own.
bool ContingencyCheck::follows(const Contingency& c, const Recipe& recipe) const {
  const StorageId storage = schedule_.residencies[row(c.residency)].storage;
  const SiteId site = graph_.storages[row(storage)].site;
  const auto steps = steps_of(c);
  if (!recipe.pure || recipe.needs_random_state || recipe.collective || !recipe.transients.empty()) return false;
  if (recipe.outputs != std::vector<std::int32_t>{graph_.local_of(storage)}) return false;
  if (steps.empty() || recipe.steps.size() != steps.size()) return false;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const Recipe::Step& wanted = recipe.steps[s];
    if (steps[s].op_template != wanted.op || graph_.op_templates[row(wanted.op)].lane != Lane::compute) return false;
    std::vector<std::int32_t> reads, writes;
    for (const Schedule::Touch& touch : steps[s].touches) {
      if (!within(static_cast<std::int32_t>(touch.residency), schedule_.residencies.size())) return false;
      const Residency& stay = schedule_.residencies[row(touch.residency)];
      if (stay.space != MemorySpace::device || graph_.storages[row(stay.storage)].site != site) return false;
      if (stay.storage == storage && touch.residency != c.residency) return false;
      (touch.kind == AccessKind::read ? reads : writes).push_back(graph_.local_of(stay.storage));
    }
    if (reads != wanted.reads || writes != wanted.writes) return false;
  }
  return true;
}

std::string ContingencyCheck::check_steps(const Contingency& c) const {
  if (c.host_offset != -1) return "a recompute needs no host memory";
  if (c.first_step < 0 || c.step_count < 0 ||
      std::int64_t{c.first_step} + c.step_count > static_cast<std::int64_t>(program_.contingency_steps.size())) {
    return fmt::format("its steps {} to {} do not exist", c.first_step, std::int64_t{c.first_step} + c.step_count);
  }
  const StorageId storage = schedule_.residencies[row(c.residency)].storage;
  const auto recipes = graph_.recipes_of(graph_.sites[row(graph_.storages[row(storage)].site)].block);
  if (std::ranges::none_of(recipes, [&](const Recipe& recipe) { return follows(c, recipe); })) {
    return "its steps are not those of a recipe that restores it alone, on the compute lane";
  }
  if (!on_compute(c.needed_at)) return "its steps run on the compute lane, but it is needed on another";
  if (written_[row(storage)] > c.trigger) return "it is written again after it was dropped";
  for (const ContingencyStep& step : steps_of(c)) {
    for (const Schedule::Touch& touch : step.touches) {
      if (touch.residency == c.residency) continue;
      if (std::string why = check_source(c, touch.residency); !why.empty()) return why;
    }
  }
  return {};
}

// A source is in memory, complete and unchanged where the steps run: after every compute task before needed_at.
std::string ContingencyCheck::check_source(const Contingency& c, ResidencyId source) const {
  const StorageId storage = schedule_.residencies[row(source)].storage;
  const std::string what = "its source " + name_of(&graph_, storage);
  TaskId made = kNone<TaskId>;
  for (const auto& [task, kind] : touching_.of(c.residency)) {
    made = task;
    if (kind == AccessKind::write) break;
  }
  if (written_[row(storage)] > made) return what + " is written after it was used";
  TaskId writer = kNone<TaskId>;
  bool complete = false, stays = false;
  for (const auto& [task, kind] : touching_.of(source)) {
    if (task < c.needed_at && kind == AccessKind::write) {
      writer = task;
      complete = on_compute(task);
    } else if (task < c.needed_at && on_compute(task)) {
      complete = complete || (writer != kNone<TaskId> && order_.before(writer, task));
    } else if (task >= c.needed_at && on_compute(task)) {
      stays = true;
    }
  }
  if (!complete) return what + " is not complete where the steps run";
  return stays ? "" : what + " may be gone where the steps run";
}

// Two contingencies may split one residency if one window is over before the other begins.
Found ContingencyCheck::check_windows() const {
  std::vector<std::size_t> order(program_.contingencies.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) {
    const Contingency& c = program_.contingencies[i];
    return std::tuple(c.residency, c.trigger, i);
  });
  for (std::size_t k = 1; k < order.size(); ++k) {
    const Contingency& earlier = program_.contingencies[order[k - 1]];
    const Contingency& later = program_.contingencies[order[k]];
    if (earlier.residency == later.residency && later.trigger < earlier.needed_at) {
      return broken(order[k], later, fmt::format("contingency {} has it out at the same time", order[k - 1]));
    }
  }
  return {};
}

// A source must not be out itself where the steps run.
Found ContingencyCheck::check_sources() const {
  std::multimap<ResidencyId, std::size_t> out;
  for (std::size_t i = 0; i < program_.contingencies.size(); ++i) out.emplace(program_.contingencies[i].residency, i);
  for (std::size_t i = 0; i < program_.contingencies.size(); ++i) {
    const Contingency& c = program_.contingencies[i];
    for (const ContingencyStep& step : steps_of(c)) {
      for (const Schedule::Touch& touch : step.touches) {
        if (touch.residency == c.residency) continue;
        for (auto [it, end] = out.equal_range(touch.residency); it != end; ++it) {
          const Contingency& other = program_.contingencies[it->second];
          const bool back = on_compute(other.needed_at) && other.needed_at < c.needed_at;
          if (!back && other.trigger < c.needed_at) {
            return broken(i, c, fmt::format("contingency {} has its source out where the steps run", it->second));
          }
        }
      }
    }
  }
  return {};
}

// Copies that share host memory follow one another: the earlier is back before the later's trigger has completed.
// Kept per byte range: the last copy that held it, in order of triggers.
Found ContingencyCheck::check_host() const {
  struct Held {
    Bytes end = 0;
    std::size_t by = 0;
  };
  std::map<Bytes, Held> held;
  TaskId last = kNone<TaskId>;
  for (std::size_t i = 0; i < program_.contingencies.size(); ++i) {
    const Contingency& c = program_.contingencies[i];
    if (c.trigger < last) return broken(i, c, "it is triggered before the one listed before it");
    last = c.trigger;
    if (c.kind != Contingency::Kind::swap) continue;
    const StorageId storage = schedule_.residencies[row(c.residency)].storage;
    const Bytes begin = c.host_offset;
    const Bytes end = begin + storage_bytes(graph_.template_of(storage), program_.collective_limit_f);
    auto it = held.lower_bound(begin);
    if (it != held.begin() && std::prev(it)->second.end > begin) --it;
    while (it != held.end() && it->first < end) {
      const auto [from, range] = *it;
      const TaskId back = program_.contingencies[range.by].needed_at;
      if (back != c.trigger && !order_.before(back, c.trigger)) {
        return broken(i, c, fmt::format("its copy shares host memory with that of contingency {}", range.by));
      }
      it = held.erase(it);
      if (from < begin) held[from] = {.end = begin, .by = range.by};
      if (range.end > end) held[end] = range;
    }
    held[begin] = {.end = end, .by = i};
  }
  return {};
}

// At the limit, the most that can be taken of spare host memory and of the dynamic region is there.
Found ContingencyCheck::check_limit() const {
  if (program_.routed.empty()) return {};
  for (const RoutedResidency& routed : program_.routed) {
    if (program_.layout.arena_of[row(routed.residency)] != id_of<ArenaId>(0))
      return Violation{
          .rule = Violation::Rule::contingency,
          .detail = fmt::format("routed residency {} is not in the first arena, which has the dynamic region",
                                row(routed.residency))};
  }
  const std::int64_t spare = spare_host_demand(program_, program_.collective_limit_f);
  if (spare > 0 && spare > spare_host_room(program_.layout)) {
    return Violation{
        .rule = Violation::Rule::contingency,
        .detail = fmt::format("at expert load {} planned copies take {} pieces of spare host memory, there "
                              "is room for {}",
                              program_.collective_limit_f, spare, spare_host_room(program_.layout))};
  }
  return check_holes(program_);
}

}  // namespace

Found check_contingencies(const Graph& graph, const Program& program, const TaskOrder& order) {
  return ContingencyCheck(graph, program, order).run();
}

}  // namespace tidemark::verify
