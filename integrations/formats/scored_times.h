#pragma once
// What the texts of a report of step times share: which rows count, the bands that are printed, and the tracks.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "integrations/formats/time_report.h"
#include "planner/step_time/time_scores.h"

namespace tidemark::formats {

/// Numbers of rows are those of the report.
struct ScoredTimes {
  std::vector<std::size_t> scored;             ///< ascending
  std::vector<std::optional<double>> bands;    ///< by row, percent: as printed
  std::vector<step_time::TrackScore> tracks;   ///< in byte order; also those that have refused rows only
  std::map<std::string, std::size_t> refused;  ///< rows by track, that would be scored
  [[nodiscard]] std::size_t refused_in(const std::string& track) const;
};

/// Whether row `i` is in its track, as predicted or as refused.
[[nodiscard]] bool is_counted(const TimeReport& report, std::size_t i);

[[nodiscard]] ScoredTimes scored_times(const TimeReport& report);

}  // namespace tidemark::formats
