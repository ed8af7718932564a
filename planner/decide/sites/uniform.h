#pragma once
// Choices made by name: the same action for every storage of a name, on every layer, chunk and micro-batch, the way
// recipes are written by hand today.

#include <span>
#include <string_view>

#include "planner/decide/sites/problem.h"

namespace tidemark::decide::sites {

struct NamedAction {
  std::string_view storage;  ///< StorageTemplate::name
  Action action = Action::keep;
};

/// Applies each rule where it can be applied: recompute only to units all of whose storages are named for it, swap only
/// to swappable storages. What no rule names is kept.
[[nodiscard]] gaps::Choice choose_by_name(const DecisionProblem& problem, std::span<const NamedAction> rules);

}  // namespace tidemark::decide::sites
