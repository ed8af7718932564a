#pragma once
// Predicted against measured seconds of a training step, row by row and by track: `tidemark estimate --time-truth`. The
// members of the JSON object are a contract with scripts (docs/cli.md); members are only ever added. Predicted seconds
// are modelled, factors of sources fitted, measured seconds as their source published them.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/step_time/time_row.h"

namespace tidemark::formats {

struct TimePrediction {
  std::optional<double> predicted_s;   ///< modelled
  std::optional<double> band_percent;  ///< half width; none of a scored row: that of the other folds of its track
  std::string refused;                 ///< why nothing is predicted, beside what the row says; empty: nothing to add
  bool is_scored = false;              ///< counts in its track if it is measured, as predicted or as refused
};

/// What the rows of one software source were multiplied by. Fitted.
struct SourceFactor {
  std::string name;
  double factor = 1;
};

struct TimeReport {
  std::string what;  ///< the file
  std::span<const step_time::TimeRow> rows;
  std::span<const TimePrediction> predictions;  ///< REQUIRES: one a row; seconds finite and > 0
  std::vector<SourceFactor> factors;            ///< that were used
  std::vector<std::string> notes;               ///< one line each
};

/// Tracks, the worst of the scored rows, the first of those that are only predicted, refusals by reason, and what rows
/// are noted for: work that is not priced, and what was assumed. Texts of rows are made printable.
[[nodiscard]] std::string time_text(const TimeReport& report);

/// {rows: [{id, track, predicted_s, measured_s, band_percent, refused, scored, notes}], tracks: [{track, rows, keys,
/// mape_percent, row_p90_percent, worst_percent, median_percent, p90_percent, kendall_tau, pairs, groups,
/// regret_p90_percent, regret_worst_percent, band_percent, covered_percent, constant_mfu, refused}], sources: [{name,
/// factor}], notes}. `constant_mfu` has the members from `rows` to `p90_percent`. What is not known is null. Ends with
/// a newline.
[[nodiscard]] std::string time_json(const TimeReport& report);

}  // namespace tidemark::formats
