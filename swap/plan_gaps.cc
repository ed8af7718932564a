#include "swap/plan_gaps.h"

#include <algorithm>
#include <map>

#include "swap/granule_pool.h"

namespace tidemark::swap {
namespace {

/// Units from a key of the map up to `end`, empty since half-step `since`.
struct Empty {
  std::int64_t end = 0;
  std::int32_t since = 0;
};

class GapSweep {
 public:
  explicit GapSweep(std::int64_t units) { since_[0] = {.end = units, .since = 0}; }

  /// REQUIRES: acquire is not below that of earlier calls.
  void occupy(GranuleRange units, std::int32_t acquire, std::int32_t release) {
    split(units.first);
    split(units.first + units.count);
    auto at = since_.lower_bound(units.first);
    auto before = since_.end();  // those with the same `since` become one
    while (at != since_.end() && at->first < units.first + units.count) {
      add(at->first, at->second, acquire);
      at->second.since = std::max(at->second.since, release);
      if (before != since_.end() && before->second.since == at->second.since) {
        before->second.end = at->second.end;
        at = since_.erase(at);
      } else {
        before = at++;
      }
    }
  }
  [[nodiscard]] std::vector<PlanGap> finish() {
    for (const auto& [first, empty] : since_) add(first, empty, GranulePool::kToTheEnd);
    std::stable_sort(gaps_.begin(), gaps_.end(), [](const PlanGap& a, const PlanGap& b) { return a.from < b.from; });
    return std::move(gaps_);
  }

 private:
  void split(std::int64_t at) {
    auto home = since_.upper_bound(at);
    if (home == since_.begin()) return;
    --home;
    if (home->first == at || home->second.end <= at) return;
    since_[at] = home->second;
    home->second.end = at;
  }
  void add(std::int64_t first, const Empty& empty, std::int32_t until) {
    if (empty.since < until && first < empty.end)
      gaps_.push_back({.units = {.first = first, .count = empty.end - first}, .from = empty.since, .until = until});
  }

  std::map<std::int64_t, Empty> since_;
  std::vector<PlanGap> gaps_;
};

/// Units that the bytes touch, whole or in part.
GranuleRange touched(Bytes begin, Bytes bytes, Bytes unit) {
  const std::int64_t first = begin / unit;
  return {.first = first, .count = (begin + bytes + unit - 1) / unit - first};
}

}  // namespace

std::vector<PlanGap> plan_gaps(const Program& program, ArenaId arena, Bytes unit) {
  const std::vector<Residency>& residencies = program.schedule.residencies;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < residencies.size(); ++i)
    if (program.layout.arena_of[i] == arena && residencies[i].bytes > 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return residencies[a].acquire < residencies[b].acquire; });
  GapSweep sweep(program.layout.arenas[row(arena)].height_bytes / unit);
  for (const std::size_t i : order)
    sweep.occupy(touched(program.layout.offset_of[i], residencies[i].bytes, unit), residencies[i].acquire,
                 residencies[i].release);
  return sweep.finish();
}

}  // namespace tidemark::swap
