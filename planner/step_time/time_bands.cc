#include "planner/step_time/time_bands.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

#include "planner/step_time/split_fold.h"

namespace tidemark::step_time {
namespace {

using OffByFold = std::array<std::vector<double>, kFolds>;

std::vector<double> off_outside(const OffByFold& off, std::size_t fold) {
  std::vector<double> others;
  for (std::size_t f = 0; f < off.size(); ++f)
    if (f != fold) others.insert(others.end(), off[f].begin(), off[f].end());
  return others.empty() ? off[fold] : others;
}

}  // namespace

double off_percent(const TimedPair& pair) {
  const auto [least, most] = std::minmax(pair.predicted_s, pair.measured_s);
  return 100 * (most / least - 1);
}

double conformal_percent(std::vector<double> off_percents) {
  const std::size_t n = off_percents.size();
  const std::size_t rank = std::min(n, (4 * (n + 1) + 4) / 5);
  std::ranges::sort(off_percents);
  return off_percents[rank - 1];
}

std::vector<double> band_percents(std::span<const TimedPair> pairs) {
  std::map<std::string_view, OffByFold> tracks;
  for (const TimedPair& pair : pairs)
    tracks[pair.track][static_cast<std::size_t>(fold_of(pair.split_key))].push_back(off_percent(pair));
  std::map<std::pair<std::string_view, std::size_t>, double> bands;
  for (const auto& [track, off] : tracks)
    for (std::size_t fold = 0; fold < off.size(); ++fold)
      if (!off[fold].empty()) bands[{track, fold}] = conformal_percent(off_outside(off, fold));
  std::vector<double> percents;
  for (const TimedPair& pair : pairs)
    percents.push_back(bands.at({pair.track, static_cast<std::size_t>(fold_of(pair.split_key))}));
  return percents;
}

}  // namespace tidemark::step_time
