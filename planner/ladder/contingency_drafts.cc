#include "planner/ladder/contingency_drafts.h"

#include <algorithm>
#include <optional>

#include "core/dynamic_region.h"
#include "planner/schedule/touch_table.h"

namespace tidemark::ladder {
namespace {

/// Copies are given this many times their own duration in each direction, so that a busy link does not stall the step,
/// and a storage larger than planned still makes it.
constexpr std::int64_t kLead = 3;

class Drafter {
 public:
  Drafter(const decide::sites::DecisionProblem& problem, const decide::gaps::Choice& choice, const Program& program)
      : p_(problem),
        graph_(*problem.graph),
        choice_(choice),
        schedule_(program.schedule),
        touches_(program.schedule),
        clock_(compute_clock(program.schedule)) {
    index_tasks();
    index_residencies();
  }

  [[nodiscard]] std::optional<ContingencyClass> draft(const decide::sites::SiteClass& c, std::size_t slot) const;

 private:
  void index_tasks();
  void index_residencies();
  [[nodiscard]] const Task& task(TaskId id) const { return schedule_.tasks[row(id)]; }
  [[nodiscard]] bool on_compute(TaskId id) const { return task(id).lane == Lane::compute; }

  [[nodiscard]] std::optional<ContingencyDraft> around_gap(const decide::sites::GapRow& gap) const;
  [[nodiscard]] std::optional<ContingencyDraft> swap_of(const decide::sites::GapRow& gap, ContingencyDraft draft) const;
  [[nodiscard]] std::optional<ContingencyDraft> recompute_of(const decide::sites::GapRow& gap, const Recipe& recipe,
                                                             ContingencyDraft draft) const;
  [[nodiscard]] ResidencyId source_at(StorageId storage, TaskId needed) const;
  [[nodiscard]] bool finish(ContingencyDraft& draft) const;

  const decide::sites::DecisionProblem& p_;
  const Graph& graph_;
  const decide::gaps::Choice& choice_;
  const Schedule& schedule_;
  schedule::TouchTable touches_;
  std::vector<std::int32_t> clock_;            // per task: compute tasks before it
  std::vector<TaskId> compute_task_;           // k-th task of the compute lane
  std::vector<TaskId> task_of_op_;             // per op of the graph
  std::vector<std::int32_t> first_residency_;  // CSR per storage into residencies_
  std::vector<ResidencyId> residencies_;       // of device memory, by storage
};

void Drafter::index_tasks() {
  task_of_op_.assign(graph_.ops.size(), kNone<TaskId>);
  for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
    const Task& task = schedule_.tasks[t];
    if (task.kind == TaskKind::op) task_of_op_[row(task.op)] = id_of<TaskId>(t);
    if (task.lane == Lane::compute) compute_task_.push_back(id_of<TaskId>(t));
  }
}

void Drafter::index_residencies() {
  first_residency_.assign(graph_.storages.size() + 1, 0);
  for (const Residency& r : schedule_.residencies)
    if (r.space == MemorySpace::device) ++first_residency_[row(r.storage) + 1];
  for (std::size_t s = 1; s < first_residency_.size(); ++s) first_residency_[s] += first_residency_[s - 1];
  residencies_.resize(static_cast<std::size_t>(first_residency_.back()));
  std::vector<std::int32_t> cursor(first_residency_.begin(), first_residency_.end() - 1);
  for (std::size_t i = 0; i < schedule_.residencies.size(); ++i) {
    const Residency& r = schedule_.residencies[i];
    if (r.space == MemorySpace::device)
      residencies_[static_cast<std::size_t>(cursor[row(r.storage)]++)] = id_of<ResidencyId>(i);
  }
}

/// The residency, its last touch before the gap and its first after it. All touches before the gap are on the compute
/// lane, so that the compute task after the last one is after all of them.
std::optional<ContingencyDraft> Drafter::around_gap(const decide::sites::GapRow& gap) const {
  const auto stay = static_cast<std::size_t>(first_residency_[row(gap.gap.storage)]);
  if (static_cast<std::int32_t>(stay) == first_residency_[row(gap.gap.storage) + 1]) return std::nullopt;
  ContingencyDraft draft;
  Contingency& c = draft.contingency;
  c.residency = residencies_[stay];
  c.trigger_bytes = schedule_.residencies[row(c.residency)].bytes;
  c.trigger = task_of_op_[row(gap.gap.before)];
  for (const schedule::TouchTable::Entry& touch : touches_.of(c.residency)) {
    if (touch.task > c.trigger) {
      c.needed_at = touch.task;
      break;
    }
    if (!on_compute(touch.task)) return std::nullopt;
  }
  if (c.needed_at == kNone<TaskId> || !on_compute(c.needed_at)) return std::nullopt;
  return draft;
}

/// Sets the windows. False: the points are out of order.
bool Drafter::finish(ContingencyDraft& draft) const {
  const Contingency& c = draft.contingency;
  if (!(c.trigger < c.release_at && c.release_at <= c.prefetch_at && c.prefetch_at < c.needed_at)) return false;
  draft.from = 2 * clock_[row(c.release_at)];
  draft.until = 2 * clock_[row(c.prefetch_at)] + 1;
  draft.host_from = 2 * clock_[row(c.trigger)] + 1;
  draft.host_until = 2 * clock_[row(c.needed_at)];
  return true;
}

std::optional<ContingencyDraft> Drafter::swap_of(const decide::sites::GapRow& gap, ContingencyDraft draft) const {
  if (!graph_.template_of(gap.gap.storage).swappable) return std::nullopt;
  const auto compute_from = [&](std::int64_t ns) {
    return static_cast<std::size_t>(std::lower_bound(p_.clock_start_ns.begin(), p_.clock_start_ns.end(), ns) -
                                    p_.clock_start_ns.begin());
  };
  Contingency& c = draft.contingency;
  const std::size_t release = compute_from(p_.nominal->end_ns[row(gap.gap.before)] + kLead * gap.copy_out.link_ns);
  // The last op that has started when the copy in should begin; a recompute is needed where the op it precedes is.
  const std::int64_t need_ns = p_.nominal->start_ns[row(task(c.needed_at).op)];
  const std::size_t later = compute_from(need_ns - kLead * gap.copy_in.link_ns + 1);
  if (later < 2 || release >= later - 1) return std::nullopt;
  c.kind = Contingency::Kind::swap;
  draft.link_ns = gap.copy_in.link_ns;
  c.release_at = task_of_op_[row(p_.compute_op[release])];
  c.prefetch_at = task_of_op_[row(p_.compute_op[later - 2])];
  if (!finish(draft)) return std::nullopt;
  return draft;
}

/// The stay of a source that lasts beyond the steps and whose content is there when they start; kNone: none is.
ResidencyId Drafter::source_at(StorageId storage, TaskId needed) const {
  const auto begin = static_cast<std::size_t>(first_residency_[row(storage)]);
  const auto end = static_cast<std::size_t>(first_residency_[row(storage) + 1]);
  for (std::size_t i = begin; i < end; ++i) {
    bool known = false, lasts = false;
    for (const schedule::TouchTable::Entry& touch : touches_.of(residencies_[i])) {
      const bool compute = on_compute(touch.task);
      if (touch.task < needed) {
        known = compute || (known && touch.kind == AccessKind::read);
      } else if (compute) {
        lasts = true;
      }
    }
    if (known && lasts) return residencies_[i];
  }
  return kNone<ResidencyId>;
}

std::optional<ContingencyDraft> Drafter::recompute_of(const decide::sites::GapRow& gap, const Recipe& recipe,
                                                      ContingencyDraft draft) const {
  Contingency& c = draft.contingency;
  const SiteId site = graph_.storages[row(gap.gap.storage)].site;
  const auto stay_of = [&](std::int32_t local) {
    return graph_.storage_at(site, local) == gap.gap.storage ? c.residency
                                                             : source_at(graph_.storage_at(site, local), c.needed_at);
  };
  for (const Recipe::Step& step : recipe.steps) {
    ContingencyStep made{.op_template = step.op, .estimate_ns = p_.template_ns[row(step.op)], .touches = {}};
    for (const std::int32_t local : step.reads) made.touches.push_back({stay_of(local), AccessKind::read});
    for (const std::int32_t local : step.writes) made.touches.push_back({stay_of(local), AccessKind::write});
    for (const Schedule::Touch& touch : made.touches) {
      if (touch.residency == kNone<ResidencyId>) return std::nullopt;
      if (touch.residency != c.residency) draft.sources.push_back(touch.residency);
    }
    draft.steps.push_back(std::move(made));
  }
  c.kind = Contingency::Kind::recompute;
  c.release_at = compute_task_[static_cast<std::size_t>(clock_[row(c.trigger)]) + 1];
  c.prefetch_at = compute_task_[static_cast<std::size_t>(clock_[row(c.needed_at)]) - 1];
  if (!finish(draft)) return std::nullopt;
  return draft;
}

/// Rebuilds the one storage alone, on the compute lane, without memory of its own.
bool is_local(const Graph& graph, const Recipe& recipe) {
  return recipe.pure && !recipe.needs_random_state && !recipe.collective && recipe.transients.empty() &&
         recipe.outputs.size() == 1 && std::all_of(recipe.steps.begin(), recipe.steps.end(), [&](const auto& step) {
           return graph.op_templates[row(step.op)].lane == Lane::compute;
         });
}

std::optional<ContingencyClass> Drafter::draft(const decide::sites::SiteClass& c, std::size_t slot) const {
  const decide::sites::SiteClass::Slot& s = c.slots[slot];
  const decide::sites::SiteClass::Unit& unit = c.units[static_cast<std::size_t>(s.unit)];
  const Recipe* recipe = unit.recipe == kNone<RecipeId> ? nullptr : &graph_.recipes[row(unit.recipe)];
  if (recipe != nullptr && (!is_local(graph_, *recipe) || unit.latest_pos < s.after_pos)) recipe = nullptr;
  ContingencyClass result;
  for (const std::int32_t first : c.first_gap) {
    const auto g = static_cast<std::size_t>(first) + slot;
    if (choice_[g] != Action::keep) continue;
    const decide::sites::GapRow& gap = p_.gaps[g];
    const std::optional<ContingencyDraft> around = around_gap(gap);
    if (!around) continue;
    if (auto swap = swap_of(gap, *around)) {
      result.swap_link_ns += swap->link_ns;
      result.swaps.push_back(std::move(*swap));
    }
    if (recipe == nullptr) continue;
    result.recompute_first = unit.compute_ns < gap.copy_out.compute_ns + gap.copy_in.compute_ns;
    if (auto recompute = recompute_of(gap, *recipe, *around)) result.recomputes.push_back(std::move(*recompute));
  }
  if (result.swaps.empty() && result.recomputes.empty()) return std::nullopt;
  return result;
}

}  // namespace

std::vector<ContingencyClass> draft_contingencies(const decide::sites::DecisionProblem& problem,
                                                  const decide::gaps::Choice& choice, const Program& program) {
  const Drafter drafter(problem, choice, program);
  std::vector<ContingencyClass> classes;
  for (const decide::sites::SiteClass& c : problem.classes)
    for (std::size_t k = 0; k < c.slots.size(); ++k) {
      const decide::sites::GapRow& gap = problem.gaps[static_cast<std::size_t>(c.first_gap.front()) + k];
      if (problem.graph->template_of(gap.gap.storage).routed_rows == 0 || gap.bytes < kPlanGranule) continue;
      if (auto drafted = drafter.draft(c, k)) classes.push_back(std::move(*drafted));
    }
  return classes;
}

}  // namespace tidemark::ladder
