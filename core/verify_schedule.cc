// Walks the tasks in issue order and keeps, per residency, which version of its storage it holds, who wrote it and who
// has used it since. Issue order is one of the orders the lanes may run in; that every other one gives the same data is
// what the vector clocks are asked at each touch.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/verify_parts.h"

namespace tidemark {
namespace verify {
namespace {

using Rule = Violation::Rule;

constexpr std::int32_t kEmpty = -1;    // nothing restored yet
constexpr std::int32_t kPartial = -2;  // a recipe has written it but not for the last time
constexpr std::int32_t kAny = -3;      // as a need: whatever is there

// The op of the graph that a recipe step runs again: the one of that template at that site, where there is exactly one.
class Originals {
 public:
  explicit Originals(const Graph& graph) : column_of_(graph.op_templates.size(), -1) {
    for (const Recipe& recipe : graph.recipes) {
      for (const Recipe::Step& step : recipe.steps) {
        std::int32_t& column = column_of_[row(step.op)];
        if (column < 0) column = columns_++;
      }
    }
    ops_.assign(graph.sites.size() * static_cast<std::size_t>(columns_), kNone<OpId>);
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      const Op& op = graph.ops[i];
      if (column_of_[row(op.op_template)] < 0) continue;
      OpId& original = ops_[slot(op.site, op.op_template)];
      original = original == kNone<OpId> ? id_of<OpId>(i) : kSeveral;
    }
  }

  [[nodiscard]] OpId find(SiteId site, OpTemplateId op) const {
    if (column_of_[row(op)] < 0) return kNone<OpId>;
    const OpId original = ops_[slot(site, op)];
    return original == kSeveral ? kNone<OpId> : original;
  }

 private:
  static constexpr OpId kSeveral = static_cast<OpId>(-2);
  [[nodiscard]] std::size_t slot(SiteId site, OpTemplateId op) const {
    return row(site) * static_cast<std::size_t>(columns_) + static_cast<std::size_t>(column_of_[row(op)]);
  }
  std::vector<std::int32_t> column_of_;
  std::int32_t columns_ = 0;
  std::vector<OpId> ops_;
};

// The steps of recipes that run an op template again, recipes in order.
class StepIndex {
 public:
  struct Entry {
    const Recipe* recipe = nullptr;
    std::size_t step = 0;
  };
  explicit StepIndex(const Graph& graph) {
    for (std::size_t b = 0; b < graph.blocks.size(); ++b)
      for (const Recipe& recipe : graph.recipes_of(id_of<BlockId>(b)))
        for (std::size_t s = 0; s < recipe.steps.size(); ++s)
          entries_[{id_of<BlockId>(b), recipe.steps[s].op}].push_back({&recipe, s});
  }
  [[nodiscard]] std::span<const Entry> running(BlockId block, OpTemplateId op) const {
    const auto found = entries_.find({block, op});
    return found == entries_.end() ? std::span<const Entry>{} : std::span<const Entry>(found->second);
  }

 private:
  std::map<std::pair<BlockId, OpTemplateId>, std::vector<Entry>> entries_;
};

struct Content {
  std::int32_t version = kEmpty;
  TaskId writer = kNone<TaskId>;
  LaneClock used{};  // per lane: 1 + position of the last access since (and of) the last write
};

// One touch with what the graph or a recipe says about it.
struct Use {
  ResidencyId residency = kNone<ResidencyId>;
  AccessKind kind = AccessKind::read;
  std::int32_t version = 0;  // needed, or made
};

class DataCheck {
 public:
  DataCheck(const Graph& graph, const Schedule& schedule, const TaskOrder& order)
      : graph_(graph), schedule_(schedule), order_(order), originals_(graph), steps_(graph) {}

  Found run() {
    if (Found found = start_residencies()) return found;
    last_op_.fill(-1);
    for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
      if (Found found = check_task(id_of<TaskId>(t))) return found;
    }
    if (ops_run_ != graph_.ops.size()) return missing_op();
    if (Found found = check_extents()) return found;
    return check_lasting();
  }

 private:
  Found start_residencies();
  Found check_task(TaskId task);
  Found check_op(TaskId task);
  Found check_recompute(TaskId task);
  Found check_copy(TaskId task);
  Found match_step(TaskId task, const Recipe*& recipe, std::size_t& step) const;
  [[nodiscard]] bool step_matches(TaskId task, const Recipe::Step& step) const;
  void uses_of_step(TaskId task, const Recipe& recipe, std::size_t step);
  Found apply(TaskId task, Rule stale);
  Found check_read(TaskId task, const Use& use, Rule stale) const;
  Found check_write(TaskId task, const Use& use) const;
  [[nodiscard]] Found missing_op() const;
  [[nodiscard]] Found check_extents() const;
  [[nodiscard]] Found check_lasting() const;

  [[nodiscard]] const Residency& residency(ResidencyId id) const { return schedule_.residencies[row(id)]; }
  [[nodiscard]] std::string name(TaskId task) const { return name_of(&graph_, schedule_, task); }
  [[nodiscard]] std::string name(StorageId storage) const { return name_of(&graph_, storage); }

  const Graph& graph_;
  const Schedule& schedule_;
  const TaskOrder& order_;
  Originals originals_;
  StepIndex steps_;
  std::vector<Content> contents_;      // per residency
  std::vector<std::int32_t> latest_;   // per storage: the last version an op has made
  std::vector<ResidencyId> first_of_;  // per storage: the first residency listed
  std::array<std::int32_t, kLaneCount> last_op_{};
  std::size_t ops_run_ = 0;
  std::vector<Use> uses_;              // of the task under way
  TaskId recomputed_ = kNone<TaskId>;  // the last recompute since an op
};

Violation broken(Rule rule, std::string detail) {
  return {.rule = rule, .detail = std::move(detail)};
}

// What holds content before the step has it in the first residency listed of it; everything else starts empty.
Found DataCheck::start_residencies() {
  if (schedule_.rank != graph_.rank) {
    return broken(Rule::schedule_shape,
                  fmt::format("the schedule is of rank {}, the graph of rank {}", schedule_.rank, graph_.rank));
  }
  contents_.resize(schedule_.residencies.size());
  latest_.assign(graph_.storages.size(), 0);
  first_of_.assign(graph_.storages.size(), kNone<ResidencyId>);
  for (std::size_t r = 0; r < schedule_.residencies.size(); ++r) {
    const Residency& residency = schedule_.residencies[r];
    const auto storage = static_cast<std::int32_t>(residency.storage);
    if (storage < 0 || row(residency.storage) >= graph_.storages.size()) {
      return broken(Rule::schedule_shape,
                    fmt::format("residency {} is of storage {}, which does not exist", r, storage));
    }
    const Bytes needed = graph_.storages[row(residency.storage)].bytes;
    if (residency.bytes < needed) {
      return broken(Rule::schedule_shape, fmt::format("residency {} holds {} bytes but {} needs {}", r, residency.bytes,
                                                      name(residency.storage), needed));
    }
    ResidencyId& first = first_of_[row(residency.storage)];
    const StorageTemplate& of = graph_.template_of(residency.storage);
    const bool is_first = first == kNone<ResidencyId>;
    if (is_first) first = id_of<ResidencyId>(r);
    const bool full = is_first && of.initial && !schedule_.tasks.empty();
    if (residency.full_before != full) {
      return broken(Rule::schedule_shape,
                    fmt::format("residency {} of {} {} before the step; the first of a storage with content then does, "
                                "no other",
                                r, name(residency.storage), full ? "holds nothing" : "holds content"));
    }
    if (!full) continue;
    // What persists may rest in host memory between steps.
    if ((residency.space != MemorySpace::device && !of.persists()) || residency.first_task != id_of<TaskId>(0)) {
      return broken(Rule::not_resident, name(residency.storage) + " holds content before the step: it must be in " +
                                            (of.persists() ? "memory" : "device memory") + " from the first task on");
    }
    contents_[r].version = 0;
  }
  for (std::size_t s = 0; s < graph_.storages.size(); ++s) {
    if (first_of_[s] == kNone<ResidencyId> && graph_.template_of(id_of<StorageId>(s)).persists() &&
        !schedule_.tasks.empty()) {
      return broken(Rule::not_resident, name(id_of<StorageId>(s)) + " has no place in memory");
    }
  }
  return {};
}

Found DataCheck::check_task(TaskId task) {
  uses_.clear();
  switch (schedule_.tasks[row(task)].kind) {
    case TaskKind::op:
      return check_op(task);
    case TaskKind::recompute:
      return check_recompute(task);
    case TaskKind::swap_out:
    case TaskKind::swap_in:
      return check_copy(task);
  }
  return {};
}

Found DataCheck::check_op(TaskId task) {
  const Task& t = schedule_.tasks[row(task)];
  const auto op = static_cast<std::int32_t>(t.op);
  if (op < 0 || row(t.op) >= graph_.ops.size()) {
    return broken(Rule::missing_op, fmt::format("task {} runs op {}, which does not exist", row(task), op));
  }
  const Op& o = graph_.ops[row(t.op)];
  if (t.op_template != o.op_template || t.site != o.site || t.lane != graph_.template_of(t.op).lane) {
    return broken(Rule::missing_op, fmt::format("{} is not op {} as the graph has it", name(task), op));
  }
  std::int32_t& last = last_op_[static_cast<std::size_t>(t.lane)];
  if (op <= last) {
    return broken(Rule::missing_op, fmt::format("{} runs op {} after op {} on its lane", name(task), op, last));
  }
  last = op;
  ++ops_run_;
  if (const TaskId again = std::exchange(recomputed_, kNone<TaskId>);
      again != kNone<TaskId> && !graph_.template_of(t.op).told) {
    return broken(Rule::recipe_unsafe,
                  fmt::format("{} stands right before op {}, which the graph says is not told", name(again), op));
  }

  const auto accesses = graph_.accesses_of(t.op);
  const auto touches = schedule_.touches_of(task);
  const auto same = [&](const Access& access, const Schedule::Touch& touch) {
    return access.kind == touch.kind && residency(touch.residency).storage == access.storage;
  };
  for (const Access& access : accesses) {
    if (std::ranges::none_of(touches, [&](const auto& touch) { return same(access, touch); })) {
      return broken(Rule::not_resident,
                    fmt::format("{} needs {}, which has no place in memory there", name(task), name(access.storage)));
    }
  }
  for (const Schedule::Touch& touch : touches) {
    const auto access = std::ranges::find_if(accesses, [&](const Access& a) { return same(a, touch); });
    const StorageId storage = residency(touch.residency).storage;
    if (access == accesses.end() || residency(touch.residency).space != MemorySpace::device) {
      return broken(Rule::not_resident,
                    fmt::format("{} touches {}{}", name(task), name(storage),
                                access == accesses.end() ? ", which its op does not" : " in host memory"));
    }
    uses_.push_back({touch.residency, touch.kind, access->version});
  }
  for (const Access& access : accesses) {
    if (access.kind != AccessKind::write) continue;
    if (access.version != latest_[row(access.storage)] + 1) {
      return broken(Rule::data_order, fmt::format("{} makes version {} of {}, but version {} was made last", name(task),
                                                  access.version, name(access.storage), latest_[row(access.storage)]));
    }
    latest_[row(access.storage)] = access.version;
  }
  return apply(task, Rule::data_order);
}

bool DataCheck::step_matches(TaskId task, const Recipe::Step& step) const {
  const Task& t = schedule_.tasks[row(task)];
  const auto touches = schedule_.touches_of(task);
  if (step.op != t.op_template || touches.size() != step.reads.size() + step.writes.size()) return false;
  const auto is_of_site = [&](const Schedule::Touch& touch) {
    const Residency& stay = residency(touch.residency);
    return stay.space == MemorySpace::device && graph_.storages[row(stay.storage)].site == t.site;
  };
  const auto is_touched = [&](std::int32_t local, AccessKind kind) {
    return std::ranges::any_of(touches, [&](const Schedule::Touch& touch) {
      return touch.kind == kind && graph_.local_of(residency(touch.residency).storage) == local;
    });
  };
  return std::ranges::all_of(touches, is_of_site) &&
         std::ranges::all_of(step.reads, [&](std::int32_t l) { return is_touched(l, AccessKind::read); }) &&
         std::ranges::all_of(step.writes, [&](std::int32_t l) { return is_touched(l, AccessKind::write); });
}

// Finds the recipe and step a recompute task carries out, a pure recipe before an impure one.
Found DataCheck::match_step(TaskId task, const Recipe*& recipe, std::size_t& step) const {
  const Task& t = schedule_.tasks[row(task)];
  const auto site = static_cast<std::int32_t>(t.site);
  const auto op = static_cast<std::int32_t>(t.op_template);
  if (site < 0 || row(t.site) >= graph_.sites.size() || op < 0 || row(t.op_template) >= graph_.op_templates.size()) {
    return broken(Rule::schedule_shape,
                  fmt::format("task {} recomputes op template {} at site {}, which do not exist", row(task), op, site));
  }
  const Recipe* impure = nullptr;
  for (const auto& [candidate, s] : steps_.running(graph_.sites[row(t.site)].block, t.op_template)) {
    if (!step_matches(task, candidate->steps[s])) continue;
    if (!candidate->pure) {
      impure = candidate;
      continue;
    }
    recipe = candidate;
    step = s;
    return {};
  }
  if (impure != nullptr) {
    return broken(Rule::recipe_unsafe,
                  fmt::format("{} belongs to recipe {}, which is not pure", name(task), impure->name));
  }
  return broken(Rule::recipe_unsafe, fmt::format("{} with these storages is a step of no recipe", name(task)));
}

// Versions a step needs and makes: those of the op it runs again. Where the graph has no single such op, sources may be
// anything and an output counts as restored after the last step that writes it.
void DataCheck::uses_of_step(TaskId task, const Recipe& recipe, std::size_t step) {
  const Task& t = schedule_.tasks[row(task)];
  const OpId original = originals_.find(t.site, t.op_template);
  const auto accesses = original == kNone<OpId> ? std::span<const Access>{} : graph_.accesses_of(original);
  for (const Schedule::Touch& touch : schedule_.touches_of(task)) {
    const StorageId storage = residency(touch.residency).storage;
    const auto access =
        std::ranges::find_if(accesses, [&](const Access& a) { return a.storage == storage && a.kind == touch.kind; });
    std::int32_t version = kAny;
    if (access != accesses.end()) {
      version = access->version;
    } else if (touch.kind == AccessKind::write) {
      const bool again =
          std::any_of(recipe.steps.begin() + static_cast<std::ptrdiff_t>(step) + 1, recipe.steps.end(),
                      [&](const Recipe::Step& later) {
                        return std::ranges::find(later.writes, graph_.local_of(storage)) != later.writes.end();
                      });
      version = again ? kPartial : latest_[row(storage)];
    }
    uses_.push_back({touch.residency, touch.kind, version});
  }
}

Found DataCheck::check_recompute(TaskId task) {
  const Recipe* recipe = nullptr;
  std::size_t step = 0;
  if (Found found = match_step(task, recipe, step)) return found;
  const Task& t = schedule_.tasks[row(task)];
  if (t.lane != graph_.op_templates[row(t.op_template)].lane) {
    return broken(Rule::schedule_shape, name(task) + " is not on the lane of its op");
  }
  recomputed_ = task;
  uses_of_step(task, *recipe, step);
  for (const Use& use : uses_) {
    const StorageId storage = residency(use.residency).storage;
    if (use.kind == AccessKind::write && use.version > latest_[row(storage)]) {
      return broken(Rule::recipe_unsafe,
                    fmt::format("{} rebuilds {} before it was first made", name(task), name(storage)));
    }
  }
  return apply(task, Rule::recipe_unsafe);
}

Found DataCheck::check_copy(TaskId task) {
  const Task& t = schedule_.tasks[row(task)];
  const bool out = t.kind == TaskKind::swap_out;
  const auto touches = schedule_.touches_of(task);
  const auto is = [&](const Schedule::Touch& touch, MemorySpace space, AccessKind kind) {
    const Residency& stay = residency(touch.residency);
    return stay.space == space && touch.kind == kind && stay.storage == t.storage;
  };
  const MemorySpace from = out ? MemorySpace::device : MemorySpace::host;
  const MemorySpace to = out ? MemorySpace::host : MemorySpace::device;
  if (t.lane != (out ? Lane::d2h : Lane::h2d) || touches.size() != 2 || !is(touches[0], from, AccessKind::read) ||
      !is(touches[1], to, AccessKind::write)) {
    return broken(Rule::schedule_shape,
                  fmt::format("task {} must read storage {} in one memory and write it in the other, on its copy lane",
                              row(task), static_cast<std::int32_t>(t.storage)));
  }
  if (residency(touches[0].residency).bytes != residency(touches[1].residency).bytes) {
    return broken(Rule::schedule_shape,
                  fmt::format("{} copies {} bytes over {}", name(task), residency(touches[0].residency).bytes,
                              residency(touches[1].residency).bytes));
  }
  uses_.push_back({touches[0].residency, AccessKind::read, kAny});
  uses_.push_back({touches[1].residency, AccessKind::write, contents_[row(touches[0].residency)].version});
  return apply(task, Rule::lost_data);
}

// Checks the uses of a task, then enters them in the books. `stale`: the rule broken where a content is not the one
// needed.
Found DataCheck::apply(TaskId task, Rule stale) {
  for (const Use& use : uses_) {
    Found found = use.kind == AccessKind::read ? check_read(task, use, stale) : check_write(task, use);
    if (found) return found;
  }
  const std::size_t lane = order_.lane(task);
  const std::int32_t done = order_.position(task) + 1;
  for (const Use& use : uses_) {
    if (use.kind == AccessKind::write) contents_[row(use.residency)] = {.version = use.version, .writer = task};
  }
  for (const Use& use : uses_) contents_[row(use.residency)].used[lane] = done;
  return {};
}

Found DataCheck::check_read(TaskId task, const Use& use, Rule stale) const {
  const Content& content = contents_[row(use.residency)];
  const StorageId storage = residency(use.residency).storage;
  if (content.version == kEmpty) {
    if (stale == Rule::recipe_unsafe) {
      return broken(stale, fmt::format("{} runs without its source {}", name(task), name(storage)));
    }
    const bool made = latest_[row(storage)] > 0;
    return broken(made ? Rule::lost_data : Rule::not_resident,
                  fmt::format("{} reads {}, {}", name(task), name(storage),
                              made ? "which came back without a copy or a recipe" : "which nothing has written"));
  }
  if (use.version != kAny && use.version != content.version) {
    return broken(stale,
                  fmt::format("{} needs version {} of {}, but {}", name(task), use.version, name(storage),
                              content.version == kPartial ? std::string("its recipe is not finished")
                                                          : fmt::format("version {} is there", content.version)));
  }
  if (content.writer != kNone<TaskId> && !order_.before(content.writer, task)) {
    return broken(Rule::data_order, fmt::format("{} reads {} without waiting for {}, which writes it", name(task),
                                                name(storage), name(content.writer)));
  }
  return {};
}

Found DataCheck::check_write(TaskId task, const Use& use) const {
  const Content& content = contents_[row(use.residency)];
  const LaneClock& known = order_.at_start(task);
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
    if (content.used[lane] <= known[lane]) continue;
    return broken(Rule::data_order, fmt::format("{} writes {} without waiting for its last use on lane {}", name(task),
                                                name(residency(use.residency).storage), lane));
  }
  return {};
}

Found DataCheck::missing_op() const {
  std::vector<bool> run(graph_.ops.size(), false);
  for (const Task& task : schedule_.tasks) {
    if (task.kind == TaskKind::op) run[row(task.op)] = true;
  }
  const auto op = id_of<OpId>(static_cast<std::size_t>(std::ranges::find(run, false) - run.begin()));
  return broken(Rule::missing_op, fmt::format("op {} ({}) is never run", row(op), graph_.template_of(op).name));
}

// Where the residencies of a storage must begin and end beyond their touches: content from before the step, a hold,
// what must be there when the step is over.
class Extents {
 public:
  Extents(const Graph& graph, const Schedule& schedule) : graph_(graph), schedule_(schedule) {
    for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
      for (const Schedule::Touch& touch : schedule.touches_of(id_of<TaskId>(t))) {
        Touched& of = touched(touch.residency);
        if (of.first == kNone<TaskId>) of.first = id_of<TaskId>(t);
        of.last = id_of<TaskId>(t);
      }
      if (schedule.tasks[t].kind == TaskKind::op) task_of_op(schedule.tasks[t].op) = id_of<TaskId>(t);
    }
  }

  struct Touched {
    TaskId first = kNone<TaskId>, last = kNone<TaskId>;
  };
  /// First and last task of a residency as they must be. `begins`: it is the first of its storage; `ends`: it is full
  /// behind the step.
  [[nodiscard]] Touched expected(ResidencyId id, bool begins, bool ends) {
    Touched range = touched(id);
    const Storage& storage = graph_.storages[row(schedule_.residencies[row(id)].storage)];
    const StorageTemplate& of = graph_.storage_templates[row(storage.storage_template)];
    if (begins && of.initial) range.first = id_of<TaskId>(0);
    if (begins && of.initial && range.last == kNone<TaskId>) range.last = id_of<TaskId>(0);
    if (begins && storage.held_until != kNone<OpId>) {
      const TaskId held = task_of_op(storage.held_until);
      if (range.first <= held) range.last = std::max(range.last, held);
    }
    if (ends && of.lasting) range.last = id_of<TaskId>(schedule_.tasks.size() - 1);
    return range;
  }

 private:
  Touched& touched(ResidencyId id) {
    if (touched_.empty()) touched_.resize(schedule_.residencies.size());
    return touched_[row(id)];
  }
  TaskId& task_of_op(OpId op) {
    if (task_of_op_.empty()) task_of_op_.assign(graph_.ops.size(), kNone<TaskId>);
    return task_of_op_[row(op)];
  }

  const Graph& graph_;
  const Schedule& schedule_;
  std::vector<Touched> touched_;    // per residency
  std::vector<TaskId> task_of_op_;  // per op
};

// A residency's first and last task are the first and last that touch it, but for what Extents says.
Found DataCheck::check_extents() const {
  if (schedule_.tasks.empty()) return {};
  Extents extents(graph_, schedule_);
  for (std::size_t r = 0; r < schedule_.residencies.size(); ++r) {
    const auto id = id_of<ResidencyId>(r);
    const Residency& found = residency(id);
    const auto expected = extents.expected(id, first_of_[row(found.storage)] == id, found.full_behind);
    if (found.first_task == expected.first && found.last_task == expected.last) continue;
    return broken(Rule::schedule_shape,
                  fmt::format("residency {} of {} lasts from task {} to task {}, but is needed from {} to {}", r,
                              name(found.storage), static_cast<std::int32_t>(found.first_task),
                              static_cast<std::int32_t>(found.last_task), static_cast<std::int32_t>(expected.first),
                              static_cast<std::int32_t>(expected.last)));
  }
  return {};
}

// What must be in memory when the step is over is there, in its last version, and in the memory where it was before.
Found DataCheck::check_lasting() const {
  if (schedule_.tasks.empty()) return {};
  std::vector<ResidencyId> last_of(graph_.storages.size(), kNone<ResidencyId>);
  for (std::size_t r = 0; r < schedule_.residencies.size(); ++r) {
    const Residency& found = schedule_.residencies[r];
    if (!found.full_behind) continue;
    const auto id = id_of<ResidencyId>(r);
    const StorageTemplate& of = graph_.template_of(found.storage);
    const ResidencyId first = first_of_[row(found.storage)];
    const bool rests = of.persists() && residency(first).space == MemorySpace::host;
    const bool at_home = rests ? first == id : found.space == MemorySpace::device;
    ResidencyId& last = last_of[row(found.storage)];
    if (!of.lasting || !at_home || last != kNone<ResidencyId>) {
      return broken(
          Rule::schedule_shape,
          fmt::format("residency {} is not where the content of {} is when the step is over", r, name(found.storage)));
    }
    last = id;
  }
  for (std::size_t s = 0; s < graph_.storages.size(); ++s) {
    const auto storage = id_of<StorageId>(s);
    const StorageTemplate& of = graph_.template_of(storage);
    if (!of.lasting || (!of.initial && latest_[s] == 0)) continue;
    if (last_of[s] != kNone<ResidencyId> && contents_[row(last_of[s])].version == latest_[s]) continue;
    return broken(Rule::lost_data,
                  fmt::format("{} must be in memory when the step is over, in version {}", name(storage), latest_[s]));
  }
  return {};
}

}  // namespace

Found check_data(const Graph& graph, const Schedule& schedule, const TaskOrder& order) {
  return DataCheck(graph, schedule, order).run();
}

}  // namespace verify

std::optional<Violation> verify_schedule(const Graph& graph, const Schedule& schedule) {
  if (verify::Found found = verify::check_shape(schedule)) return found;
  return verify::check_data(graph, schedule, TaskOrder(schedule));
}

}  // namespace tidemark
