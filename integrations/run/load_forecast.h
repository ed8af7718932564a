#pragma once
// What a trace of loads asks of a plan's slots, predicted and seen. The load model is fitted to the first steps of the
// trace (planner/graph_build/load_fit.h); for every rank, the probability that a device-step has routed storages above
// their slots (planner/overflow.h) stands beside the share of the later steps that had. Nothing is played: these are
// counts of rows against slots.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "integrations/run/load_trace.h"
#include "planner/graph_build/load_fit.h"
#include "planner/overflow.h"
#include "planner/planner.h"

namespace tidemark::run {

struct ForecastQuestion {
  std::int64_t fit_steps = 16;         ///< the first ones, which the model is fitted to
  std::optional<std::int64_t> device;  ///< of the expert group; nothing: all
  std::int64_t kept_steps = 0;         ///< of those fitted the last ones, of those seen the first, whose loads are kept
};

struct NumberedLoads {
  std::int64_t step = 0;
  StepLoads loads;
};

/// A share predicted, and as counted.
struct ForecastShare {
  plan::ShareForecast predicted;
  double seen = 0;
  [[nodiscard]] bool is_held() const { return seen >= predicted.seen_low && seen <= predicted.seen_high; }
};

struct RankForecast {
  std::int32_t rank = 0;
  double planned_load = 1;
  double least_room = 0;   ///< the smallest load at which a site exceeds its slots
  std::int64_t sites = 0;  ///< with routed storages
  ForecastShare device_steps;
  /// What the device-steps seen exceed with 2.5 %, by the model or, where that is more, by the counts of the fitted
  /// steps: an upper bound where loads are not normal.
  double at_most = 1;
  ForecastShare site_share;
};

struct LoadForecast {
  std::string file;
  graph_build::LoadFit fit;
  std::int64_t steps_seen = 0;  ///< that the seen shares are of
  std::int64_t devices = 0;     ///< whose loads were held against the slots
  bool is_behind = false;       ///< the steps seen follow those fitted; else they are the same, since there are no more
  double most_load = 0;
  std::vector<RankForecast> ranks;
  std::vector<NumberedLoads> fitted, seen;  ///< those kept
};

/// Reads the trace step by step; memory: one step, what a fit keeps, and the steps kept. Errors: of the file
/// (`file:line: what`). REQUIRES: `plan` is of the job that `shape` is of.
[[nodiscard]] Result<LoadForecast> forecast_loads(const plan::PlanOutcome& plan, const graph_build::LoadShape& shape,
                                                  const ForecastQuestion& question, const std::filesystem::path& file);

[[nodiscard]] std::string forecast_text(const LoadForecast& forecast);
/// One JSON object, documented in docs/cli.md; ends with a newline.
[[nodiscard]] std::string forecast_json(const LoadForecast& forecast);

}  // namespace tidemark::run
