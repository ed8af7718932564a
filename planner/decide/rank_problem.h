#pragma once
// One rank's step as the searches see it, made once and asked for many targets. Two searches stand behind it: one over
// site classes (planner/decide/sites), for steps whose layers and micro-batches repeat, and one over a flat list of ops
// (planner/decide/flat), for captured steps, which may recompute ops again and again. Rules that set an action for each
// gap work on the first view of any step.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/plan.h"
#include "planner/decide/flat/plan.h"
#include "planner/decide/gaps/search.h"
#include "planner/decide/sites/evaluator.h"
#include "planner/decide/sites/gaps.h"
#include "planner/decide/sites/problem.h"

namespace tidemark::decide {

/// What only the flat search asks.
struct FlatOptions {
  flat::RecomputeRules rules;
  double effort = 1;                                                                      ///< more searches longer; > 0
  bool aimed = false;                                                                     ///< flat::PlanLimits
  std::function<bool()> should_stop;                                                      ///< flat::PlanLimits
  std::function<void(double share)> on_progress;                                          ///< flat::PlanLimits
  std::function<void(std::int64_t added_cost, std::int64_t lower_bound_cost)> on_better;  ///< flat::PlanLimits
};

class RankProblem {
 public:
  /// Borrowed arguments must outlive the problem.
  RankProblem(const Graph& graph, const Liveness& liveness, const Machine& machine, const simulate::Timeline& nominal,
              std::vector<std::int64_t> op_ns, Bytes host_budget_bytes, FlatOptions options = {},
              sites::ProblemOptions sites = {});
  ~RankProblem();

  /// The schedule with everything kept can be made: what both views are built on. Errors (internal).
  [[nodiscard]] Status check();

  [[nodiscard]] bool is_flat() const { return is_flat_; }
  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const Liveness& liveness() const { return liveness_; }
  [[nodiscard]] const Machine& machine() const { return machine_; }
  [[nodiscard]] const simulate::Timeline& nominal() const { return nominal_; }
  [[nodiscard]] Bytes keep_all_peak_bytes();
  /// What persists on the device.
  [[nodiscard]] Bytes persistent_bytes();
  /// Of a flat step: nothing.
  [[nodiscard]] const sites::StateOffload& state_offload();
  /// What another choice comes to. REQUIRES: this problem was made without one; !is_flat().
  [[nodiscard]] sites::StateOffload offload_of(const sites::OffloadChoice& choice);
  /// What may be decided: gaps of site classes, ops of a flat step.
  [[nodiscard]] std::size_t size();

  // The view by site classes. REQUIRES: check() found nothing.
  [[nodiscard]] const sites::DecisionProblem& sites();
  [[nodiscard]] const gaps::GapProblem& gaps();
  [[nodiscard]] sites::Evaluator& evaluator();
  /// Costs of gaps from here on: what the step pays at these weights, and for what it does otherwise than `start`.
  /// REQUIRES: a row of `start` per gap.
  void weigh(std::span<const float> weights, gaps::SearchStart start);
  /// Where searches set out from; null: not known.
  [[nodiscard]] const gaps::SearchStart* start() const { return start_ ? &*start_ : nullptr; }

  /// The flat search by a rule. REQUIRES: is_flat().
  [[nodiscard]] flat::StepPlanner& flat(flat::StepRule rule);
  [[nodiscard]] const flat::Problem& flat_problem();

 private:
  struct Sites;
  Sites& made_sites();

  const Graph& graph_;
  const Liveness& liveness_;
  const Machine& machine_;
  const simulate::Timeline& nominal_;
  std::vector<std::int64_t> op_ns_;
  Bytes host_budget_bytes_;
  FlatOptions options_;
  sites::ProblemOptions sites_options_;
  bool is_flat_;
  std::unique_ptr<Sites> sites_;
  std::optional<gaps::SearchStart> start_;
  std::unique_ptr<flat::Problem> flat_;
  std::unique_ptr<flat::StepPlanner> optimal_, greedy_;
};

}  // namespace tidemark::decide
