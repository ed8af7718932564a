#pragma once
// The expert load that one rank is planned for, found by planning: a number that is asked for, a quantile of its peak
// that is asked for, or where the expected step is shortest: by prices at first (load_prices.h), then, where a plan
// adds far more than its bound, by what plans for other loads come to (load_curve.h). A rank that does not fit at that
// load is planned for the mean and, where that promises enough, for loads in between. Six rounds at most.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/result.h"
#include "planner/graph_build/expert_load.h"
#include "planner/load_curve.h"
#include "planner/load_prices.h"
#include "planner/planner.h"

namespace tidemark::plan {

/// Nothing that planning comes to changes the load but the quantile that is asked for: it is given, or loads do not
/// vary.
[[nodiscard]] bool is_load_asked_for(const PlanRequest& request);

class PlannedLoad {
 public:
  /// An expert group of so many devices, one of which may get `most_load`. `fixed`: all of them have that, or hold no
  /// more (LoadShape::fixed_load).
  PlannedLoad(const PlanRequest& request, std::int64_t group_devices, double most_load,
              std::optional<double> fixed = std::nullopt)
      : request_(request), devices_(group_devices), most_load_(most_load), fixed_(fixed) {}

  /// Before there is a plan: from the rank's graph at the mean load, everything kept. Errors: those of
  /// build_step_graph.
  [[nodiscard]] Status start(std::size_t rank);
  /// The same by what is in memory under a fixed policy's own schedule, where its peaks vary more.
  void start_from(const Graph& graph, const Schedule& schedule);
  [[nodiscard]] double load() const { return load_; }
  /// Planning may change it.
  [[nodiscard]] bool is_open() const { return !is_given(); }
  /// A rank that does not fit at load() is planned for another, or was.
  [[nodiscard]] bool is_tentative() const;

  /// Fills what figures say of the load, of another plan at load() than the one that settled. REQUIRES: it fits.
  void describe(RankPlan& plan) const;

  /// Looks at what planning at load() came to, and says whether that is it; otherwise the rank is to be planned at
  /// load(), which is another one now. May put an earlier plan in its place. `step_ns`: of the step, roughly.
  [[nodiscard]] bool settles(RankPlan& plan, std::int64_t step_ns);

 private:
  using Candidate = LoadCurve::Candidate;
  struct Kept {
    RankPlan plan;
    std::shared_ptr<const graph_build::PeakLoads> peaks;
    LoadPrices prices;
    double expected_ns = 0;  ///< added to a step in the mean, chunks included
  };

  /// Nothing is to be found out.
  [[nodiscard]] bool is_given() const;
  [[nodiscard]] double quantile() const;  ///< that is asked for, or the highest
  /// What a plan that fits says of loads, filled into its figures.
  struct Described {
    std::shared_ptr<const graph_build::PeakLoads> peaks;
    LoadPrices prices;
    std::function<double(double load)> chunks_ns;  ///< added by sections in chunks, in the mean
  };
  Described described(RankPlan& plan) const;
  /// Fills figures of a plan that fits. The best of them is kept.
  void take(RankPlan& plan);
  /// On the plan that is kept.
  void settle(RankPlan& plan);
  /// The load to plan for next. Nothing: the kept plan is taken.
  [[nodiscard]] std::optional<double> better_load(std::int64_t step_ns) const;
  /// The load that is cheapest by the prices of the kept plan.
  [[nodiscard]] double priced_load() const;
  /// The first load that was tried on the way there.
  [[nodiscard]] std::optional<double> tried_before(double wanted) const;
  /// By prices, which hold near by: that load, or half of the way to one that was tried.
  [[nodiscard]] std::optional<Candidate> by_prices(double step_ns) const;
  /// Between plans that there are, or below them.
  [[nodiscard]] std::optional<Candidate> by_plans(double step_ns) const;

  const PlanRequest& request_;
  std::int64_t devices_ = 1;
  double most_load_ = 1;
  std::optional<double> fixed_;
  double load_ = 1;
  int rounds_ = 0;
  std::vector<double> misfits_;  ///< loads that did not fit
  LoadCurve curve_;              ///< of the plans that fit
  std::shared_ptr<const graph_build::PeakLoads> all_kept_;
  std::optional<Kept> kept_;
};

}  // namespace tidemark::plan
