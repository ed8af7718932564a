#pragma once
// How far predicted step times are from measured ones: by track, never pooled. Rule: median inside a split key first,
// so that a series of near-copies counts once; plain means beside it, for comparison with what others print.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/step_time/time_errors.h"
#include "planner/step_time/time_ranking.h"
#include "planner/step_time/timed_pair.h"

namespace tidemark::step_time {

struct TrackScore {
  std::string track;
  TrackErrors errors;
  TrackRanking ranking;
  double band_percent = 0;                  ///< median half width
  double covered_percent = 0;               ///< rows inside their band
  std::optional<TrackErrors> constant_mfu;  ///< the rival, on the rows that it predicts (constant_mfu.h); none: on none
};

/// In byte order of the track. `bands`: half width of each pair's band as printed, percent. Deterministic; any thread.
/// REQUIRES: as many bands as pairs.
[[nodiscard]] std::vector<TrackScore> score_tracks(std::span<const TimedPair> pairs, std::span<const double> bands);

/// With bands from the other folds (time_bands.h).
[[nodiscard]] std::vector<TrackScore> score_tracks(std::span<const TimedPair> pairs);

}  // namespace tidemark::step_time
