#include "planner/prices/work_balance.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace tidemark::prices {
namespace {

using graph_build::SplitSchedule;

/// What each stage should have of layers where no rank is busier than `limit`: a rank's stages are level, too.
std::vector<double> room_under(double limit, const StageWork& work, const SplitSchedule& shape, bool closed) {
  const auto stages = static_cast<std::size_t>(shape.stages());
  std::vector<double> room(stages, 0);
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    std::vector<std::size_t> open;
    double left = limit;
    for (std::int32_t chunk = 0; chunk < shape.chunks; ++chunk) {
      const auto stage = static_cast<std::size_t>(shape.stage_of(rank, chunk));
      left -= static_cast<double>(work.fixed[stage]);
      if (!closed || stage + 1 < stages) open.push_back(stage);
    }
    // The fullest stage first: what it has above its share the others have less.
    std::ranges::sort(open, std::greater{}, [&](std::size_t stage) { return work.fixed[stage]; });
    double whole = std::max(0.0, left);
    for (const std::size_t stage : open) whole += static_cast<double>(work.fixed[stage]);
    for (std::size_t i = 0; i < open.size() && left > 0; ++i) {
      const double fixed = static_cast<double>(work.fixed[open[i]]);
      const double share = std::max(0.0, whole / static_cast<double>(open.size() - i) - fixed);
      room[open[i]] = std::min(share, left);
      left -= room[open[i]];
      whole -= fixed + room[open[i]];
    }
  }
  return room;
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

std::vector<std::int32_t> balanced_counts(const StageWork& work, const SplitSchedule& shape, bool closed) {
  const auto all = static_cast<double>(std::accumulate(work.layers.begin(), work.layers.end(), std::int64_t{0}));
  double low = 0, high = all;
  for (const std::int64_t fixed : work.fixed) high += static_cast<double>(fixed);
  constexpr int kHalvings = 60;  // of the limit, which all layers fit under in the end
  for (int i = 0; i < kHalvings; ++i) {
    const double limit = (low + high) / 2;
    (sum_of(room_under(limit, work, shape, closed)) < all ? low : high) = limit;
  }
  const std::vector<double> room = room_under(high, work, shape, closed);
  std::vector<std::int32_t> counts(room.size(), 0);
  const std::size_t last = room.size() - (closed ? 2 : 1);
  std::size_t stage = 0;
  double stage_end = room[0], begin = 0;
  for (const std::int64_t layer : work.layers) {
    const double middle = begin + static_cast<double>(layer) / 2;
    while (stage < last && middle >= stage_end) stage_end += room[++stage];
    ++counts[stage];
    begin += static_cast<double>(layer);
  }
  return counts;
}

std::int64_t busiest_rank(const StageWork& work, const SplitSchedule& shape, const std::vector<std::int32_t>& counts) {
  std::vector<std::int64_t> busy(static_cast<std::size_t>(shape.ranks), 0);
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    std::int64_t& rank = busy[static_cast<std::size_t>(shape.rank_of(static_cast<std::int32_t>(stage)))];
    rank += work.fixed[stage];
    for (std::int32_t i = 0; i < counts[stage]; ++i) rank += work.layers[layer++];
  }
  return *std::ranges::max_element(busy);
}

}  // namespace tidemark::prices
