#pragma once
// The seam between the planner and the rules that decide. A policy is a value: a name, help, and one function from a
// problem to a plan. It sees one rank and knows nothing of addresses.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "core/bytes.h"
#include "core/plan.h"
#include "planner/decide/gaps/plan_cost.h"
#include "planner/decide/gaps/prices.h"
#include "planner/decide/gaps/search.h"
#include "planner/decide/rank_problem.h"

namespace tidemark::plan {

struct PolicyRequest {
  decide::RankProblem& problem;
  Bytes device_budget_bytes = 0;  ///< for everything in the graph (static, activations); reserves already subtracted
  Bytes host_budget_bytes = 0;    ///< pinned host memory of this device
  bool is_brief = false;          ///< an answer soon is worth more than a cheap one
  const decide::gaps::SearchStart* start = nullptr;  ///< of the gaps, where one is known
};

struct PolicyAnswer {
  Plan plan;
  decide::gaps::PlanCost cost;
  /// Prices of memory found on the way, if any: they prove a lower bound of `added` at this and any other budget
  /// (planner/decide/gaps/prices.h).
  std::optional<decide::gaps::Prices> prices;
  /// No plan within the device budget asked for adds less, where a search has proven it.
  std::optional<std::int64_t> least_added_ns;
  bool is_infeasible = false;  ///< proven: no plan has a peak within the device budget asked for
};

/// The answer that one action per gap comes to (rows of RankProblem::sites().gaps).
[[nodiscard]] PolicyAnswer answer_of(const PolicyRequest& request, const decide::gaps::Choice& choice);
/// What the flat search knows within the device budget; where nothing fits, the schedule with the lowest peak it knows.
/// REQUIRES: request.problem.is_flat().
[[nodiscard]] PolicyAnswer answer_of_flat(const PolicyRequest& request, decide::flat::StepRule rule);

/// Asked by several threads at once.
using DecideFunction = std::function<PolicyAnswer(const PolicyRequest& request)>;

struct Rule {
  std::string_view name;
  DecideFunction decide;
};

struct Policy {
  std::string_view name;
  std::string_view help;
  DecideFunction decide;
  /// Simpler rules, whose plans pack differently and load a pipeline differently: a rank takes what one of them comes
  /// to where that adds less, and all ranks where their step is shorter (step_choice.h).
  std::span<const Rule> fallbacks = {};
  /// State that persists may be offloaded to host memory where that pays or nothing fits without.
  bool offloads_state = false;
  /// Recomputation may run early, where the compute lane would wait for collectives (decide::sites::RunTime).
  bool hides_recompute = false;
  /// What a rank adds counts by how much longer the step gets for it (step_relaxation.h).
  bool prices_step = false;
  /// `decide` answers the same whatever the budgets: there is one plan, and nothing to search for where it does not
  /// fit. Without fallbacks and offloaded state.
  bool is_fixed = false;
};

}  // namespace tidemark::plan
