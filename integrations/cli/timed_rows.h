#pragma once
// Measured rows of step times with what is predicted for each: `tidemark estimate --time-truth`.

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "integrations/formats/predicted_times_file.h"
#include "integrations/formats/rate_candidates.h"
#include "integrations/formats/time_report.h"
#include "planner/step_time/time_row.h"

namespace tidemark::cli {

struct PredictedTimes {
  std::vector<formats::TimePrediction> predictions;  ///< by row
  std::vector<formats::SourceFactor> factors;        ///< that were used: "constants software"
};

/// With the constants and factors of the shipped devices. Errors (bad_input): a device file is wrong. A row whose
/// device is not shipped is refused.
[[nodiscard]] Result<PredictedTimes> predict_times(std::span<const step_time::TimeRow> rows,
                                                   const std::vector<std::filesystem::path>& shares);

/// With seconds that were predicted elsewhere, whether or not this program would refuse the row; a row that they do not
/// name is refused. Errors (bad_input): a name that no row has.
[[nodiscard]] Result<std::vector<formats::TimePrediction>> take_times(std::span<const step_time::TimeRow> rows,
                                                                      const formats::PredictedTimesById& times);

struct TriedRates {
  std::vector<std::string> constants;  ///< by row: the device whose constants it has; empty: refused
  std::vector<std::vector<std::optional<double>>> seconds;  ///< by candidate and row, without factors of sources
};

/// With each candidate in the place of the constants that it stands for; other rows have none. Errors: as
/// predict_times().
[[nodiscard]] Result<TriedRates> try_rates(std::span<const step_time::TimeRow> rows,
                                           const formats::RateCandidates& candidates,
                                           const std::vector<std::filesystem::path>& shares);

}  // namespace tidemark::cli
