// Walks the tasks in issue order and keeps, per residency, which version of its storage it holds, who wrote it and who
// has used it since. Issue order is one of the orders the lanes may run in; that every other one gives the same data is
// what the vector clocks are asked at each touch.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/verify_parts.h"

namespace tidemark {
namespace verify {
namespace {

using Rule = Violation::Rule;

constexpr std::int32_t kEmpty = -1;    // nothing restored yet
constexpr std::int32_t kPartial = -2;  // a recipe has written it but not for the last time
constexpr std::int32_t kAny = -3;      // as a need: whatever is there

bool is_static(StorageRole role) {
  return role == StorageRole::parameter || role == StorageRole::gradient || role == StorageRole::optimizer_state;
}

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
      : graph_(graph), schedule_(schedule), order_(order), originals_(graph) {}

  Found run() {
    if (Found found = start_residencies()) return found;
    last_op_.fill(-1);
    for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
      if (Found found = check_task(id_of<TaskId>(t))) return found;
    }
    if (ops_run_ != graph_.ops.size()) return missing_op();
    return check_stays();
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
  [[nodiscard]] Found check_stays() const;

  [[nodiscard]] const Residency& residency(ResidencyId id) const { return schedule_.residencies[row(id)]; }
  [[nodiscard]] std::string name(TaskId task) const { return name_of(&graph_, schedule_, task); }
  [[nodiscard]] std::string name(StorageId storage) const { return name_of(&graph_, storage); }
  [[nodiscard]] bool is_static_storage(StorageId s) const { return is_static(graph_.template_of(s).role); }

  const Graph& graph_;
  const Schedule& schedule_;
  const TaskOrder& order_;
  Originals originals_;
  std::vector<Content> contents_;     // per residency
  std::vector<std::int32_t> latest_;  // per storage: the last version an op has made
  std::array<std::int32_t, kLaneCount> last_op_{};
  std::size_t ops_run_ = 0;
  std::vector<Use> uses_;  // of the task under way
};

Violation broken(Rule rule, std::string detail) {
  return {.rule = rule, .detail = std::move(detail)};
}

// Static storages stand in memory all step; everything else starts empty.
Found DataCheck::start_residencies() {
  if (schedule_.rank != graph_.rank) {
    return broken(Rule::schedule_shape,
                  fmt::format("the schedule is of rank {}, the graph of rank {}", schedule_.rank, graph_.rank));
  }
  contents_.resize(schedule_.residencies.size());
  latest_.assign(graph_.storages.size(), 0);
  std::vector<std::int32_t> stays(graph_.storages.size(), 0);
  for (std::size_t r = 0; r < schedule_.residencies.size(); ++r) {
    const Residency& stay = schedule_.residencies[r];
    const auto storage = static_cast<std::int32_t>(stay.storage);
    if (storage < 0 || row(stay.storage) >= graph_.storages.size()) {
      return broken(Rule::schedule_shape,
                    fmt::format("residency {} is of storage {}, which does not exist", r, storage));
    }
    if (stay.bytes < graph_.storages[row(stay.storage)].bytes) {
      return broken(Rule::schedule_shape, fmt::format("residency {} holds {} bytes but {} needs {}", r, stay.bytes,
                                                      name(stay.storage), graph_.storages[row(stay.storage)].bytes));
    }
    if (!is_static_storage(stay.storage)) continue;
    const bool all_step = stay.space == MemorySpace::device && stay.first_task == id_of<TaskId>(0) &&
                          row(stay.last_task) + 1 == schedule_.tasks.size();
    if (!all_step || ++stays[row(stay.storage)] > 1) {
      return broken(Rule::not_resident,
                    name(stay.storage) + " must stay in device memory once, from the first task to the last");
    }
    contents_[r].version = 0;
  }
  for (std::size_t s = 0; s < graph_.storages.size(); ++s) {
    if (stays[s] == 0 && is_static_storage(id_of<StorageId>(s)) && !schedule_.tasks.empty()) {
      return broken(Rule::not_resident, name(id_of<StorageId>(s)) + " has no place in device memory");
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
  if (step.op != t.op_template) return false;
  std::size_t reads = 0;
  std::size_t writes = 0;
  for (const Schedule::Touch& touch : schedule_.touches_of(task)) {
    const Residency& stay = residency(touch.residency);
    if (stay.space != MemorySpace::device || graph_.storages[row(stay.storage)].site != t.site) return false;
    const bool read = touch.kind == AccessKind::read;
    const auto& locals = read ? step.reads : step.writes;
    if (std::ranges::find(locals, graph_.local_of(stay.storage)) == locals.end()) return false;
    ++(read ? reads : writes);
  }
  return reads == step.reads.size() && writes == step.writes.size();
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
  for (const Recipe& candidate : graph_.recipes_of(graph_.sites[row(t.site)].block)) {
    for (std::size_t s = 0; s < candidate.steps.size(); ++s) {
      if (!step_matches(task, candidate.steps[s])) continue;
      if (!candidate.pure) {
        impure = &candidate;
        continue;
      }
      recipe = &candidate;
      step = s;
      return {};
    }
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

// A residency's first and last task are the first and last that touch it (static ones: the whole step, checked above).
Found DataCheck::check_stays() const {
  std::vector<TaskId> first(schedule_.residencies.size(), kNone<TaskId>);
  std::vector<TaskId> last(schedule_.residencies.size(), kNone<TaskId>);
  for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
    for (const Schedule::Touch& touch : schedule_.touches_of(id_of<TaskId>(t))) {
      if (first[row(touch.residency)] == kNone<TaskId>) first[row(touch.residency)] = id_of<TaskId>(t);
      last[row(touch.residency)] = id_of<TaskId>(t);
    }
  }
  for (std::size_t r = 0; r < schedule_.residencies.size(); ++r) {
    const Residency& stay = schedule_.residencies[r];
    if (is_static_storage(stay.storage) || (stay.first_task == first[r] && stay.last_task == last[r])) continue;
    return broken(Rule::schedule_shape,
                  fmt::format("residency {} of {} stays from task {} to task {}, but is touched from {} to {}", r,
                              name(stay.storage), static_cast<std::int32_t>(stay.first_task),
                              static_cast<std::int32_t>(stay.last_task), static_cast<std::int32_t>(first[r]),
                              static_cast<std::int32_t>(last[r])));
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
