#pragma once
// Decisions as frameworks know them: an action for a storage by its name, on some layers or on all, for every
// micro-batch. What settings of a training framework come to, and the rule of the policy that evaluates them.

#include <span>
#include <string>
#include <vector>

#include "planner/decide/sites/problem.h"
#include "planner/policy.h"

namespace tidemark::search {

struct PlacedAction {
  std::string storage;  ///< module path and name, "mlp.experts.act_out"; empty: whatever has a recipe
  Action action = Action::keep;
  std::vector<std::int32_t> layers;  ///< ascending; empty: all, and what stands outside layers
  friend bool operator==(const PlacedAction&, const PlacedAction&) = default;
};

/// The first rule that names a storage decides; what none names is kept. Recompute applies to units all of whose
/// storages are recomputed, swap to swappable storages; elsewhere the storage is kept.
[[nodiscard]] decide::gaps::Choice choose_placed(const decide::sites::DecisionProblem& problem,
                                                 std::span<const PlacedAction> rules);

/// A policy that always answers with `rules`. The result borrows them.
[[nodiscard]] plan::Policy policy_of(std::string_view name, const std::vector<PlacedAction>& rules);

}  // namespace tidemark::search
