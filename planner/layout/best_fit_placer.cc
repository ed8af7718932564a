#include "planner/layout/best_fit_placer.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace tidemark::layout {

BestFitPlacer::BestFitPlacer(Weights weights, std::vector<Room> rooms, Bytes capacity)
    : weights_(weights), capacity_(capacity) {
  for (const Room& room : rooms) {
    if (room.bytes <= capacity) reserved_.push_back({.room = room});
  }
}

Bytes BestFitPlacer::place(const PackItem& item) {
  release_ended(item.begin);
  for (; known_ < reserved_.size() && reserved_[known_].room.begin < item.end; ++known_)
    find_place(reserved_[known_], item.begin);
  bool placed = false;
  Bytes address = 0;
  if (keep_clear_of(item)) {
    address = best_range(unreserved_, item);
    placed = address + item.bytes <= capacity_;
  }
  if (!placed) address = best_range(free_, item);
  insert({address, address + item.bytes, item.end});
  return address;
}

void BestFitPlacer::insert(const LiveItem& one) {
  const auto at = std::upper_bound(live_.begin(), live_.end(), one.begin,
                                   [](Bytes begin, const LiveItem& other) { return begin < other.begin; });
  live_.insert(at, one);
  ends_.emplace(one.ends, one.begin);
  fill(one);
}

// Splits the free range that the item lies in.
void BestFitPlacer::fill(const LiveItem& one) {
  if (one.begin >= free_.top) {
    free_.add(one);
    return;
  }
  auto& list = free_.list;
  const auto after = std::upper_bound(list.begin(), list.end(), one.begin,
                                      [](Bytes begin, const FreeRange& range) { return begin < range.begin; });
  const auto range = after - 1;
  const FreeRange high{.begin = one.end, .end = range->end, .below = one.ends, .above = range->above};
  range->end = one.begin;
  range->above = one.ends;
  if (range->begin == range->end) {
    if (high.begin < high.end)
      *range = high;
    else
      list.erase(range);
  } else if (high.begin < high.end) {
    list.insert(after, high);
  }
}

void BestFitPlacer::FreeRanges::clear() {
  list.clear();
  top = 0;
  below_top = kFloor;
}

// Reserved ranges may overlap live items.
void BestFitPlacer::FreeRanges::add(const LiveItem& one) {
  if (one.end <= top) return;
  if (one.begin > top) list.push_back({.begin = top, .end = one.begin, .below = below_top, .above = one.ends});
  top = one.end;
  below_top = one.ends;
}

void BestFitPlacer::release_ended(std::int32_t now) {
  auto first = live_.end();
  for (; !ends_.empty() && ends_.top().first <= now; ends_.pop()) {
    const auto one = std::lower_bound(live_.begin(), live_.end(), ends_.top().second,
                                      [](const LiveItem& other, Bytes begin) { return other.begin < begin; });
    open(one);
    first = std::min(first, one);
  }
  live_.erase(std::remove_if(first, live_.end(), [&](const LiveItem& one) { return one.ends <= now; }), live_.end());
}

// Joins the item's bytes with the free ranges on either side. A side without one has a neighbour that lives or is yet
// to be opened.
void BestFitPlacer::open(std::vector<LiveItem>::const_iterator one) {
  auto& list = free_.list;
  auto at = std::lower_bound(list.begin(), list.end(), one->begin,
                             [](const FreeRange& other, Bytes begin) { return other.begin < begin; });
  FreeRange range{.begin = one->begin, .end = one->end};
  if (at != list.begin() && (at - 1)->end == one->begin) {
    --at;
    range.begin = at->begin;
    range.below = at->below;
    at = list.erase(at);
  } else if (one != live_.begin()) {
    range.below = (one - 1)->ends;
  }
  if (one->end == free_.top) {
    free_.top = range.begin;
    free_.below_top = range.below;
  } else if (at != list.end() && at->begin == one->end) {
    at->begin = range.begin;
    at->below = range.below;
  } else {
    range.above = (one + 1)->ends;
    list.insert(at, range);
  }
}

// A room lies where the live items end last, but before the room is wanted: no other item could have used the bytes in
// the meantime. It is placed when an item first lives into it; among equals the highest address wins.
void BestFitPlacer::find_place(Reserved& reserved, std::int32_t now) const {
  const Bytes bytes = reserved.room.bytes;
  reserved.at = capacity_ - bytes;
  double least = waste(reserved, now);
  for (const LiveItem& one : live_) {
    for (const Bytes at : {one.begin, one.end, one.begin - bytes, one.end - bytes}) {
      if (at < 0 || at + bytes > capacity_) continue;
      const double wasted = waste({.room = reserved.room, .at = at}, now);
      if (wasted > least || (wasted == least && at <= reserved.at)) continue;
      least = wasted;
      reserved.at = at;
    }
  }
}

// Bytes x time that a room there keeps from others before it is wanted; more than any such where an item outlives that.
double BestFitPlacer::waste(const Reserved& reserved, std::int32_t now) const {
  const Bytes end = reserved.at + reserved.room.bytes;
  const double longest = 2.0 * std::numeric_limits<std::int32_t>::max();
  const auto wait_from = [&](std::int32_t moment) { return static_cast<double>(reserved.room.begin) - moment; };
  double wasted = 0;
  Bytes free = reserved.room.bytes;
  auto one = std::lower_bound(live_.begin(), live_.end(), reserved.at,
                              [](const LiveItem& item, Bytes at) { return item.end <= at; });
  for (; one != live_.end() && one->begin < end; ++one) {
    const Bytes shared = std::min(one->end, end) - std::max(one->begin, reserved.at);
    wasted += static_cast<double>(shared) * (one->ends > reserved.room.begin ? longest : wait_from(one->ends));
    free -= shared;
  }
  return wasted + static_cast<double>(free) * wait_from(now);
}

// Makes `unreserved_`: the free ranges outside rooms. An item may use a room that is wanted at least twice as long as
// it lives.
bool BestFitPlacer::keep_clear_of(const PackItem& item) {
  while (wanted_ < known_ && reserved_[wanted_].room.end <= item.begin) ++wanted_;
  kept_clear_.clear();
  for (std::size_t c = wanted_; c < known_; ++c) {
    const auto& [room, at] = reserved_[c];
    const bool meets = room.begin < item.end && item.begin < room.end;
    if (meets && 2 * item.life() > std::int64_t{room.end} - room.begin)
      kept_clear_.push_back({at, at + room.bytes, room.end});
  }
  if (kept_clear_.empty()) return false;
  const auto lower = [](const LiveItem& a, const LiveItem& b) { return a.begin < b.begin; };
  std::sort(kept_clear_.begin(), kept_clear_.end(), lower);
  blocked_.clear();
  std::merge(live_.begin(), live_.end(), kept_clear_.begin(), kept_clear_.end(), std::back_inserter(blocked_), lower);
  unreserved_.clear();
  for (const LiveItem& one : blocked_) unreserved_.add(one);
  return true;
}

// Bytes from `top` on are used only where no free range fits.
Bytes BestFitPlacer::best_range(const FreeRanges& ranges, const PackItem& item) {
  best_ = std::numeric_limits<double>::max();
  for (const FreeRange& range : ranges.list) {
    if (range.end - range.begin >= item.bytes) try_range(range, item);
  }
  return best_ < std::numeric_limits<double>::max() ? address_ : ranges.top;
}

void BestFitPlacer::try_range(const FreeRange& range, const PackItem& item) {
  const double low = mismatch(range.below, item);
  const double high = mismatch(range.above, item);
  const Bytes rest = range.end - range.begin - item.bytes;
  const double loose = static_cast<double>(rest) * weights_.per_byte;
  if (rest == 0 && weights_.both_sides) {
    offer(range.begin, loose + (low + high) / 2);
  } else {
    offer(range.begin, loose + low);
    offer(range.end - item.bytes, loose + high);
  }
}

double BestFitPlacer::mismatch(std::int32_t neighbour_ends, const PackItem& item) const {
  return neighbour_ends == kFloor ? 0 : std::abs(static_cast<double>(neighbour_ends) - item.end) * weights_.per_tick;
}

void BestFitPlacer::offer(Bytes address, double cost) {
  if (cost >= best_) return;
  best_ = cost;
  address_ = address;
}

}  // namespace tidemark::layout
