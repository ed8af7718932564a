#include "integrations/formats/scored_times.h"

#include <algorithm>
#include <cassert>

#include "planner/step_time/time_bands.h"

namespace tidemark::formats {
namespace {

using step_time::TimedPair;
using step_time::TimeRow;
using step_time::TrackScore;

TimedPair pair_of(const TimeReport& report, std::size_t i) {
  const TimeRow& row = report.rows[i];
  return {.id = row.id,
          .track = row.track,
          .split_key = row.split_key,
          .group = row.group,
          .software = row.software,
          .device = row.device,
          .precision = row.precision,
          .predicted_s = *report.predictions[i].predicted_s,
          .measured_s = *row.measured_s,
          .model_flops_per_s = row.model_flops_per_s};
}

/// A track that refused all it has is a line of the table, not a gap in it.
void add_refused_tracks(ScoredTimes& times) {
  for (const auto& [track, count] : times.refused)
    if (std::ranges::find(times.tracks, track, &TrackScore::track) == times.tracks.end())
      times.tracks.push_back({.track = track, .errors = {}, .ranking = {}, .constant_mfu = std::nullopt});
  std::ranges::sort(times.tracks, {}, &TrackScore::track);
}

}  // namespace

bool is_counted(const TimeReport& report, std::size_t i) {
  return report.predictions[i].is_scored && report.rows[i].measured_s;
}

ScoredTimes scored_times(const TimeReport& report) {
  assert(report.rows.size() == report.predictions.size());
  ScoredTimes times;
  std::vector<TimedPair> pairs;
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    times.bands.push_back(report.predictions[i].band_percent);
    if (!is_counted(report, i)) continue;
    if (report.predictions[i].predicted_s) {
      times.scored.push_back(i);
      pairs.push_back(pair_of(report, i));
    } else {
      ++times.refused[report.rows[i].track];
    }
  }
  std::vector<double> bands = step_time::band_percents(pairs);
  for (std::size_t k = 0; k < bands.size(); ++k) {
    std::optional<double>& printed = times.bands[times.scored[k]];
    if (!printed) printed = bands[k];
    bands[k] = *printed;
  }
  times.tracks = step_time::score_tracks(pairs, bands);
  add_refused_tracks(times);
  return times;
}

std::size_t ScoredTimes::refused_in(const std::string& track) const {
  const auto found = refused.find(track);
  return found == refused.end() ? 0 : found->second;
}

}  // namespace tidemark::formats
