#include "planner/search/placed_action.h"

#include <algorithm>

namespace tidemark::search {
namespace {

bool is_at(const PlacedAction& rule, std::int32_t layer) {
  return rule.layers.empty() || std::ranges::binary_search(rule.layers, layer);
}

Action action_of(std::span<const PlacedAction> rules, const StorageTemplate& storage, std::int32_t layer,
                 bool has_recipe) {
  for (const PlacedAction& rule : rules) {
    if (!is_at(rule, layer)) continue;
    if (rule.storage.empty() ? !has_recipe : rule.storage != storage.module_path + "." + storage.name) continue;
    return rule.action == Action::swap && !storage.swappable ? Action::keep : rule.action;
  }
  return Action::keep;
}

std::vector<Action> actions_of(const decide::sites::DecisionProblem& problem, std::span<const PlacedAction> rules,
                               const decide::sites::SiteClass& c, const decide::sites::SiteClass::Unit& unit) {
  const Block& block = problem.graph->blocks[row(c.block)];
  const bool has_recipe = unit.recipe != kNone<RecipeId>;
  std::vector<Action> actions;
  for (const std::int32_t slot : unit.slots) {
    const auto local = static_cast<std::size_t>(c.slots[static_cast<std::size_t>(slot)].local);
    const StorageTemplate& storage = problem.graph->storage_templates[row(block.first_storage_template) + local];
    actions.push_back(action_of(rules, storage, c.layer, has_recipe));
  }
  const bool all = has_recipe && std::ranges::all_of(actions, [](Action a) { return a == Action::recompute; });
  if (!all) std::ranges::replace(actions, Action::recompute, Action::keep);
  return actions;
}

}  // namespace

decide::gaps::Choice choose_placed(const decide::sites::DecisionProblem& problem, std::span<const PlacedAction> rules) {
  decide::gaps::Choice choice(problem.gaps.size(), Action::keep);
  for (const decide::sites::SiteClass& c : problem.classes)
    for (const decide::sites::SiteClass::Unit& unit : c.units) {
      const std::vector<Action> actions = actions_of(problem, rules, c, unit);
      for (const std::int32_t first : c.first_gap)
        for (std::size_t i = 0; i < unit.slots.size(); ++i)
          choice[static_cast<std::size_t>(first + unit.slots[i])] = actions[i];
    }
  return choice;
}

plan::Policy policy_of(std::string_view name, const std::vector<PlacedAction>& rules) {
  return {.name = name, .help = "settings of a framework", .decide = [&rules](const plan::PolicyRequest& request) {
            return plan::answer_of(request, choose_placed(request.problem.sites(), rules));
          }};
}

}  // namespace tidemark::search
