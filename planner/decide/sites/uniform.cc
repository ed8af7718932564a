#include "planner/decide/sites/uniform.h"

#include <algorithm>

namespace tidemark::decide::sites {
namespace {

template <class Rule>
gaps::Choice choose(const DecisionProblem& problem, const Rule& action_of_unit) {
  gaps::Choice choice(problem.gaps.size(), Action::keep);
  for (const SiteClass& c : problem.classes)
    for (const SiteClass::Unit& unit : c.units) {
      const auto actions = action_of_unit(c, unit);
      for (const std::int32_t first : c.first_gap)
        for (std::size_t i = 0; i < unit.slots.size(); ++i)
          choice[static_cast<std::size_t>(first + unit.slots[i])] = actions[i];
    }
  return choice;
}

}  // namespace

gaps::Choice choose_by_name(const DecisionProblem& problem, std::span<const NamedAction> rules) {
  return choose(problem, [&](const SiteClass& c, const SiteClass::Unit& unit) {
    const Block& block = problem.graph->blocks[row(c.block)];
    std::vector<Action> actions;
    for (const std::int32_t slot : unit.slots) {
      const std::size_t local = static_cast<std::size_t>(c.slots[static_cast<std::size_t>(slot)].local);
      const StorageTemplate& storage = problem.graph->storage_templates[row(block.first_storage_template) + local];
      const auto rule =
          std::find_if(rules.begin(), rules.end(), [&](const NamedAction& r) { return r.storage == storage.name; });
      Action action = rule == rules.end() ? Action::keep : rule->action;
      if (action == Action::swap && !storage.swappable) action = Action::keep;
      actions.push_back(action);
    }
    const bool all = unit.recipe != kNone<RecipeId> &&
                     std::all_of(actions.begin(), actions.end(), [](Action a) { return a == Action::recompute; });
    if (!all) std::replace(actions.begin(), actions.end(), Action::recompute, Action::keep);
    return actions;
  });
}

}  // namespace tidemark::decide::sites
