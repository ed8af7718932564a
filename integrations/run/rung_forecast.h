#pragma once
// How often steps of a plan take each rung of the runtime's ladder, predicted and seen: steps drawn from what a fit
// leaves open of the load model (planner/load_posterior.h) are played on simulated devices, and so are those that a
// trace has. Every time is simulated.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/machine.h"
#include "core/result.h"
#include "integrations/run/load_forecast.h"
#include "integrations/run/trace_run.h"
#include "planner/planner.h"

namespace tidemark::run {

/// A step of the group, all devices that play together.
struct GroupStep {
  std::int64_t step = 0;
  RungCounts rungs{};
  std::int64_t refused = 0;  ///< devices
  double added_ms = 0;       ///< step less its loads by themselves, both of the device that takes longest
};

/// Steps that take a rung on any device, of all.
struct RungShare {
  double predicted = 0;      ///< of the steps drawn
  double low = 0, high = 0;  ///< what so many steps show with kShareConfidence, given those drawn
  /// What the steps seen exceed with 2.5 %, by those drawn or, where that is more, by those fitted: an upper bound
  /// where loads are not normal.
  double at_most = 1;
  double seen = 0;
  [[nodiscard]] bool is_held() const { return seen >= low && seen <= high; }
};

/// Steps drawn come in truths of so many: what the fit leaves open is drawn once for each.
inline constexpr std::int64_t kStepsOfTruth = 4;

struct RungForecast {
  std::vector<GroupStep> drawn, fitted, seen;
  bool is_behind = false;  ///< the steps seen follow those fitted; else they are the same
  [[nodiscard]] RungShare share(Rung rung) const;
  [[nodiscard]] std::int64_t refused() const;  ///< device-steps, of all that were played
};

/// Plays the steps that `loads` kept, and at least `count` that are drawn, spread over as many steps ahead as those
/// seen. `plan`'s estimates are charged (charge_copies). Does not depend on the thread count. Errors: as TraceRun.
/// REQUIRES: count > 0; `loads` is of the shape and kept steps.
[[nodiscard]] Result<RungForecast> forecast_rungs(const plan::PlanOutcome& plan, const Machine& machine,
                                                  const graph_build::LoadShape& shape, const TraceAsk& ask,
                                                  const LoadForecast& loads, std::int64_t count);

[[nodiscard]] std::string rung_forecast_text(const RungForecast& forecast);
/// `json`, an object, with a member `rungs`.
[[nodiscard]] std::string with_rungs(const std::string& json, const RungForecast& forecast);

}  // namespace tidemark::run
