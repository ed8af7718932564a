#pragma once
// Plans a flat graph: which storages leave memory, and run or page back, so that the peak is within a budget at the
// least added cost. Deterministic: same input, same answer, whatever the machine; bounded by counted work.
//
// Budgets can be compared: one search answers them all (search.h), so a lower budget's answer has no higher peak and no
// lower cost, whether both are asked of one StepPlanner or each in a call of its own with the same limits. With
// addresses that need not hold: what a schedule loses between its storages is known only once they are packed. Nor with
// PlanLimits::aimed.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "planner/decide/flat/run_order.h"
#include "planner/decide/flat/search.h"

namespace tidemark::decide::flat {

struct PlanLimits {
  StepRule rule = StepRule::optimal;
  double effort = 1;        ///< more looks longer; > 0
  bool prove_small = true;  ///< small lists are solved exactly
  /// But for few ops whose copies take time, each budget is searched by itself (aimed.h), and what is found of a short
  /// step is proven or bettered (exact.h): quicker, but what a lower budget costs may then be less than what a higher
  /// one does. The frontier is always that of a search for all budgets.
  bool aimed = false;
  /// Asked now and then, by several threads; the answer is then made of what was found so far. Asked before anything
  /// was, a search for one budget still makes a pass at it, so that most budgets that can be met are. Bounds that were
  /// under way are weaker then.
  std::function<bool()> should_stop;
  /// Share of the search done, in [0, 1], never less than before; called by several threads, one at a time. 1 is told
  /// where it ends. Proofs, the first look that is enough where no schedule fits, and searches for further budgets
  /// tell nothing.
  std::function<void(double share)> on_progress;
  /// Each schedule within the budget that adds less than all before, of searches for one budget: what it adds and the
  /// least that any does, so far as is proven, in cost quanta. From the calling thread.
  std::function<void(std::int64_t added_cost, std::int64_t lower_bound_cost)> on_better;
};

enum class PlanStatus : std::uint8_t {
  optimal,     ///< proven: no schedule that fits adds less
  within,      ///< at most one percent of the whole step's cost above the proven bound
  best_found,  ///< fits; the bound is further away
  infeasible,  ///< proven, or none was found: see StepPlan::proven
};

struct StepPlan {
  PlanStatus status = PlanStatus::infeasible;
  bool proven = false;  ///< infeasible: no schedule has a peak that low
  Bytes budget_bytes = 0, keep_all_peak_bytes = 0;
  Bytes lower_bound_bytes = 0;        ///< no schedule has a lower peak
  std::int32_t lower_bound_op = 0;    ///< because of what this op touches and what must be there with it
  Bytes smallest_known_peak = 0;      ///< of any schedule found
  std::int64_t keep_all_cost = 0;     ///< in cost quanta, as all costs here
  std::int64_t lower_bound_cost = 0;  ///< no schedule that fits adds less
  RunOrder order;                     ///< where it fits
  RunOutcome outcome;                 ///< what it comes to

  [[nodiscard]] bool fits() const { return status != PlanStatus::infeasible; }
  [[nodiscard]] double percent(std::int64_t cost) const {
    return keep_all_cost == 0 ? 0 : 100.0 * static_cast<double>(cost) / static_cast<double>(keep_all_cost);
  }
};

/// The memory-time frontier.
struct FrontierPoint {
  Bytes peak_bytes = 0;
  std::int64_t added_cost = 0;
  friend bool operator==(const FrontierPoint&, const FrontierPoint&) = default;
};

/// Plans of one step within any budget. Searches when a budget first needs it, once. Not to be shared by threads.
class StepPlanner {
 public:
  /// The problem must outlive this. REQUIRES: at least one op.
  explicit StepPlanner(const Problem& problem, const PlanLimits& limits = {});
  ~StepPlanner();

  [[nodiscard]] StepPlan within(Bytes budget);
  /// The lowest peak known where a budget cannot be met, without a search beyond what that took.
  [[nodiscard]] StepPlan lowest();
  /// Ascending peaks, descending costs; from the tightest found to keeping everything.
  [[nodiscard]] std::vector<FrontierPoint> frontier();

 private:
  class Known;
  std::unique_ptr<Known> known_;
};

/// As of a StepPlanner. REQUIRES: at least one op.
[[nodiscard]] StepPlan plan_step_within(const Problem& problem, Bytes budget, const PlanLimits& limits = {});
[[nodiscard]] std::vector<FrontierPoint> frontier_of(const Problem& problem, const PlanLimits& limits = {});

}  // namespace tidemark::decide::flat
