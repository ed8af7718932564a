#include "planner/step_time/time_scores.h"

#include <cassert>
#include <map>
#include <string_view>

#include "planner/step_time/constant_mfu.h"
#include "planner/step_time/quantile.h"
#include "planner/step_time/time_bands.h"

namespace tidemark::step_time {
namespace {

struct TrackPairs {
  std::vector<TimedPair> pairs;
  std::vector<double> bands;
  std::vector<TimedPair> rivals;  ///< the pairs that the rival predicts, with what it does
};

std::map<std::string_view, TrackPairs> pairs_by_track(std::span<const TimedPair> pairs, std::span<const double> bands) {
  const std::vector<std::optional<double>> rival_s = constant_mfu_s(pairs);
  std::map<std::string_view, TrackPairs> tracks;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    TrackPairs& track = tracks[pairs[i].track];
    track.pairs.push_back(pairs[i]);
    track.bands.push_back(bands[i]);
    if (!rival_s[i]) continue;
    track.rivals.push_back(pairs[i]);
    track.rivals.back().predicted_s = *rival_s[i];
  }
  return tracks;
}

double share_inside_percent(const TrackPairs& track) {
  std::size_t inside = 0;
  for (std::size_t i = 0; i < track.pairs.size(); ++i)
    if (off_percent(track.pairs[i]) <= track.bands[i]) ++inside;
  return 100 * static_cast<double>(inside) / static_cast<double>(track.pairs.size());
}

}  // namespace

std::vector<TrackScore> score_tracks(std::span<const TimedPair> pairs, std::span<const double> bands) {
  assert(pairs.size() == bands.size());
  std::vector<TrackScore> scores;
  for (const auto& [name, track] : pairs_by_track(pairs, bands)) {
    scores.push_back({.track = std::string(name),
                      .errors = track_errors(track.pairs),
                      .ranking = track_ranking(track.pairs),
                      .band_percent = median_of(track.bands),
                      .covered_percent = share_inside_percent(track),
                      .constant_mfu = std::nullopt});
    if (!track.rivals.empty()) scores.back().constant_mfu = track_errors(track.rivals);
  }
  return scores;
}

std::vector<TrackScore> score_tracks(std::span<const TimedPair> pairs) {
  return score_tracks(pairs, band_percents(pairs));
}

}  // namespace tidemark::step_time
