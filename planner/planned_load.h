#pragma once
// The expert load that one rank is planned for, found by planning: a number that is asked for, a quantile of its peak
// that is asked for, or the quantile at which the expected step is shortest (load_prices.h). A rank that does not fit
// at that load is planned for the mean, and for one or two loads in between: the highest that fits is taken.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/result.h"
#include "planner/graph_build/expert_load.h"
#include "planner/load_prices.h"
#include "planner/planner.h"

namespace tidemark::plan {

class PlannedLoad {
 public:
  /// An expert group of so many devices, one of which may get `most_load`.
  PlannedLoad(const PlanRequest& request, std::int64_t group_devices, double most_load)
      : request_(request), devices_(group_devices), most_load_(most_load) {}

  /// Before there is a plan: from the rank's graph at the mean load, everything kept. Errors: those of
  /// build_step_graph.
  [[nodiscard]] Status start(std::size_t rank);
  [[nodiscard]] double load() const { return load_; }
  /// A rank that does not fit at load() is planned for another, or was.
  [[nodiscard]] bool is_tentative() const;

  /// Looks at what planning at load() came to, and says whether that is it; otherwise the rank is to be planned at
  /// load(), which is another one now. May put an earlier plan in its place. `step_ns`: of the step, roughly.
  [[nodiscard]] bool settles(RankPlan& plan, std::int64_t step_ns);

 private:
  /// Nothing is to be found out.
  [[nodiscard]] bool is_given() const;
  [[nodiscard]] double quantile() const;  ///< that is asked for, or usual
  [[nodiscard]] graph_build::PeakLoads peaks_of(const RankPlan& plan) const;
  void fill_figures(const graph_build::PeakLoads& peaks, const LoadPrices& prices, RankFigures& figures) const;
  /// To plan for rather; nothing: load() will do.
  [[nodiscard]] std::optional<double> better_load(const graph_build::PeakLoads& peaks, const LoadPrices& prices,
                                                  std::int64_t step_ns) const;
  [[nodiscard]] bool settles_at_fit(RankPlan& plan, std::int64_t step_ns);
  [[nodiscard]] bool settles_at_misfit(RankPlan& plan);
  /// Between a load that fits and one that does not; true: they are next to each other.
  [[nodiscard]] bool settles_between(RankPlan& plan);

  const PlanRequest& request_;
  std::int64_t devices_ = 1;
  double most_load_ = 1;
  double load_ = 1;
  int rounds_ = 0;
  double near_ = 0;               ///< that two loads may be apart where one fits and the other does not
  std::optional<double> misfit_;  ///< the lowest load that is known not to fit
  std::optional<RankPlan> kept_;  ///< fits, at the highest load below that
};

}  // namespace tidemark::plan
