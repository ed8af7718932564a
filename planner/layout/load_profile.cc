#include "planner/layout/load_profile.h"

#include <algorithm>
#include <bit>

namespace tidemark::layout {

LoadProfile::LoadProfile(std::span<const BlockPart> parts) {
  std::vector<std::pair<std::int32_t, Bytes>> changes;
  for (const BlockPart& part : parts) {
    changes.emplace_back(part.begin, part.bytes);
    changes.emplace_back(part.end, -part.bytes);
  }
  std::sort(changes.begin(), changes.end());
  std::vector<Bytes> loads;
  Bytes load = 0;
  for (std::size_t c = 0; c < changes.size(); ++c) {
    load += changes[c].second;
    if (c + 1 < changes.size() && changes[c + 1].first == changes[c].first) continue;
    moments_.push_back(changes[c].first);
    loads.push_back(load);
  }
  const std::size_t leaves = std::bit_ceil(loads.size() + 1);
  most_.assign(2 * leaves, 0);
  std::copy(loads.begin(), loads.end(), most_.begin() + static_cast<std::ptrdiff_t>(leaves));
  for (std::size_t node = leaves - 1; node > 0; --node) most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
}

Bytes LoadProfile::peak_during(std::int32_t from, std::int32_t to) const {
  const auto row = [&](std::int32_t moment) {
    return static_cast<std::size_t>(std::lower_bound(moments_.begin(), moments_.end(), moment) - moments_.begin());
  };
  std::size_t first = row(from);
  // The load of the moment before lasts until the first change.
  if (first > 0 && (first == moments_.size() || moments_[first] != from)) --first;
  Bytes most = 0;
  const std::size_t leaves = most_.size() / 2;
  for (std::size_t a = first + leaves, b = row(to) + leaves; a < b; a /= 2, b /= 2) {
    if (a % 2 == 1) most = std::max(most, most_[a++]);
    if (b % 2 == 1) most = std::max(most, most_[--b]);
  }
  return most;
}

}  // namespace tidemark::layout
