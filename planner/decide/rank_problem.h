#pragma once
// One rank's step as the searches see it, made once and asked for many targets. Two searches stand behind it: one over
// site classes (planner/decide/sites), for steps whose layers and micro-batches repeat, and one over a flat list of ops
// (planner/decide/flat), for captured steps, which may recompute ops again and again. Rules that set an action for each
// gap work on the first view of any step.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/plan.h"
#include "planner/decide/flat/plan.h"
#include "planner/decide/sites/evaluator.h"
#include "planner/decide/sites/gaps.h"
#include "planner/decide/sites/problem.h"

namespace tidemark {

/// What only the flat search asks.
struct FlatOptions {
  remat::RecomputeRules rules;
  double effort = 1;                              ///< more searches longer; > 0
  std::function<void(double share)> on_progress;  ///< remat::PlanLimits
};

class RankProblem {
 public:
  /// Borrowed arguments must outlive the problem.
  RankProblem(const Graph& graph, const Liveness& liveness, const Machine& machine, const Timeline& nominal,
              std::vector<std::int64_t> op_ns, Bytes host_budget_bytes, FlatOptions options = {},
              OffloadChoice offload = {});
  ~RankProblem();

  /// The schedule with everything kept can be made: what both views are built on. Errors (internal).
  [[nodiscard]] Status check();

  [[nodiscard]] bool is_flat() const { return is_flat_; }
  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const Liveness& liveness() const { return liveness_; }
  [[nodiscard]] const Machine& machine() const { return machine_; }
  [[nodiscard]] const Timeline& nominal() const { return nominal_; }
  [[nodiscard]] Bytes keep_all_peak_bytes();
  /// What persists on the device.
  [[nodiscard]] Bytes persistent_bytes();
  /// Of a flat step: nothing.
  [[nodiscard]] const StateOffload& state_offload();
  /// What another choice comes to. REQUIRES: this problem was made without one; !is_flat().
  [[nodiscard]] StateOffload offload_of(const OffloadChoice& choice);
  /// What may be decided: gaps of site classes, ops of a flat step.
  [[nodiscard]] std::size_t size();

  // The view by site classes. REQUIRES: check() found nothing.
  [[nodiscard]] const DecisionProblem& sites();
  [[nodiscard]] const GapProblem& gaps();
  [[nodiscard]] Evaluator& evaluator();

  /// The flat search by a rule. REQUIRES: is_flat().
  [[nodiscard]] remat::StepPlanner& flat(remat::StepRule rule);
  [[nodiscard]] const remat::Problem& flat_problem();

 private:
  struct Sites;
  Sites& made_sites();

  const Graph& graph_;
  const Liveness& liveness_;
  const Machine& machine_;
  const Timeline& nominal_;
  std::vector<std::int64_t> op_ns_;
  Bytes host_budget_bytes_;
  FlatOptions options_;
  OffloadChoice offload_;
  bool is_flat_;
  std::unique_ptr<Sites> sites_;
  std::unique_ptr<remat::Problem> flat_;
  std::unique_ptr<remat::StepPlanner> optimal_, greedy_;
};

}  // namespace tidemark
