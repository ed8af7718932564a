#pragma once
// Predicted against measured memory, rank by rank and summed up: `tidemark estimate --truth`. The members of the JSON
// object are a contract with scripts (docs/cli.md); members are only ever added.

#include <span>
#include <string>

#include "planner/estimate/accuracy.h"

namespace tidemark::formats {

struct AccuracyReport {
  std::string what;  ///< the file
  std::span<const estimate::MeasuredRun> runs;
  std::span<const estimate::ScoredRank> ranks;
  std::vector<std::string> notes;  ///< one line each: calibrations that were used
};

[[nodiscard]] std::string accuracy_text(const AccuracyReport& report);

/// {rows: [{case, variant, rank, predicted_steady_bytes, measured_steady_bytes, predicted_peak_bytes,
/// measured_peak_bytes, refused, ...}], summary: {steady: {count, median_percent, p90_percent, worst_percent},
/// peak: {...}, refused, ...}, suites: {name: as summary}}. `refused` of a row is null where there is a prediction,
/// else the reason; what is not known is null. Ends with a newline.
[[nodiscard]] std::string accuracy_json(const AccuracyReport& report);

}  // namespace tidemark::formats
