#include "planner/layout/arena.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace tidemark {

Arena::Arena(Taste taste, std::vector<Room> rooms, Bytes capacity) : taste_(taste), capacity_(capacity) {
  for (const Room& room : rooms) {
    if (room.bytes <= capacity) clears_.push_back({.room = room});
  }
}

Bytes Arena::take(const PackItem& item) {
  give_back(item.begin);
  for (; known_ < clears_.size() && clears_[known_].room.begin < item.end; ++known_)
    find_place(clears_[known_], item.begin);
  bool placed = false;
  Bytes address = 0;
  if (keep_clear_of(item)) {
    address = best_gap(unblocked_, item);
    placed = address + item.bytes <= capacity_;
  }
  if (!placed) address = best_gap(gaps_, item);
  stand({address, address + item.bytes, item.end});
  return address;
}

void Arena::stand(const Living& one) {
  const auto at = std::upper_bound(living_.begin(), living_.end(), one.begin,
                                   [](Bytes begin, const Living& other) { return begin < other.begin; });
  living_.insert(at, one);
  ends_.emplace(one.ends, one.begin);
  fill(one);
}

// What is left of the gap it stands in, on either side.
void Arena::fill(const Living& one) {
  if (one.begin >= gaps_.top) {
    gaps_.add(one);
    return;
  }
  auto& list = gaps_.list;
  const auto after = std::upper_bound(list.begin(), list.end(), one.begin,
                                      [](Bytes begin, const Gap& gap) { return begin < gap.begin; });
  const auto gap = after - 1;
  const Gap high{.begin = one.end, .end = gap->end, .below = one.ends, .above = gap->above};
  gap->end = one.begin;
  gap->above = one.ends;
  if (gap->begin == gap->end) {
    if (high.begin < high.end)
      *gap = high;
    else
      list.erase(gap);
  } else if (high.begin < high.end) {
    list.insert(after, high);
  }
}

void Arena::Gaps::clear() {
  list.clear();
  top = 0;
  below_top = kFloor;
}

// Rooms may cover some of the living.
void Arena::Gaps::add(const Living& one) {
  if (one.end <= top) return;
  if (one.begin > top) list.push_back({.begin = top, .end = one.begin, .below = below_top, .above = one.ends});
  top = one.end;
  below_top = one.ends;
}

void Arena::give_back(std::int32_t now) {
  auto first = living_.end();
  for (; !ends_.empty() && ends_.top().first <= now; ends_.pop()) {
    const auto one = std::lower_bound(living_.begin(), living_.end(), ends_.top().second,
                                      [](const Living& other, Bytes begin) { return other.begin < begin; });
    open(one);
    first = std::min(first, one);
  }
  living_.erase(std::remove_if(first, living_.end(), [&](const Living& one) { return one.ends <= now; }),
                living_.end());
}

// One gap of its bytes and of those on either side. Where there is none its neighbour lives, or is yet to be opened.
void Arena::open(std::vector<Living>::const_iterator one) {
  auto& list = gaps_.list;
  auto at = std::lower_bound(list.begin(), list.end(), one->begin,
                             [](const Gap& other, Bytes begin) { return other.begin < begin; });
  Gap gap{.begin = one->begin, .end = one->end};
  if (at != list.begin() && (at - 1)->end == one->begin) {
    --at;
    gap.begin = at->begin;
    gap.below = at->below;
    at = list.erase(at);
  } else if (one != living_.begin()) {
    gap.below = (one - 1)->ends;
  }
  if (one->end == gaps_.top) {
    gaps_.top = gap.begin;
    gaps_.below_top = gap.below;
  } else if (at != list.end() && at->begin == one->end) {
    at->begin = gap.begin;
    at->below = gap.below;
  } else {
    gap.above = (one + 1)->ends;
    list.insert(at, gap);
  }
}

// A room lies where what lives there now ends last, but before the room is wanted: nobody else could have had the bytes
// in the meantime. Found when somebody first lives into it; among equals the highest.
void Arena::find_place(Clear& clear, std::int32_t now) const {
  const Bytes bytes = clear.room.bytes;
  clear.at = capacity_ - bytes;
  double least = waste(clear, now);
  for (const Living& one : living_) {
    for (const Bytes at : {one.begin, one.end, one.begin - bytes, one.end - bytes}) {
      if (at < 0 || at + bytes > capacity_) continue;
      const double wasted = waste({.room = clear.room, .at = at}, now);
      if (wasted > least || (wasted == least && at <= clear.at)) continue;
      least = wasted;
      clear.at = at;
    }
  }
}

// Bytes x time that a room there keeps from others before it is wanted; more than any such where it cannot be clear.
double Arena::waste(const Clear& clear, std::int32_t now) const {
  const Bytes end = clear.at + clear.room.bytes;
  const double longest = 2.0 * std::numeric_limits<std::int32_t>::max();
  const auto wait_from = [&](std::int32_t moment) { return static_cast<double>(clear.room.begin) - moment; };
  double wasted = 0;
  Bytes free = clear.room.bytes;
  auto one = std::lower_bound(living_.begin(), living_.end(), clear.at,
                              [](const Living& living, Bytes at) { return living.end <= at; });
  for (; one != living_.end() && one->begin < end; ++one) {
    const Bytes shared = std::min(one->end, end) - std::max(one->begin, clear.at);
    wasted += static_cast<double>(shared) * (one->ends > clear.room.begin ? longest : wait_from(one->ends));
    free -= shared;
  }
  return wasted + static_cast<double>(free) * wait_from(now);
}

// Makes `unblocked_`. A room is for what passes: who lives but half as long as it is wanted may stand in it.
bool Arena::keep_clear_of(const PackItem& item) {
  while (wanted_ < known_ && clears_[wanted_].room.end <= item.begin) ++wanted_;
  standing_.clear();
  for (std::size_t c = wanted_; c < known_; ++c) {
    const auto& [room, at] = clears_[c];
    const bool meets = room.begin < item.end && item.begin < room.end;
    if (meets && 2 * (std::int64_t{item.end} - item.begin) > std::int64_t{room.end} - room.begin)
      standing_.push_back({at, at + room.bytes, room.end});
  }
  if (standing_.empty()) return false;
  const auto lower = [](const Living& a, const Living& b) { return a.begin < b.begin; };
  std::sort(standing_.begin(), standing_.end(), lower);
  blocked_.clear();
  std::merge(living_.begin(), living_.end(), standing_.begin(), standing_.end(), std::back_inserter(blocked_), lower);
  unblocked_.clear();
  for (const Living& one : blocked_) unblocked_.add(one);
  return true;
}

// What is open is taken only where nothing else fits.
Bytes Arena::best_gap(const Gaps& gaps, const PackItem& item) {
  best_ = std::numeric_limits<double>::max();
  for (const Gap& gap : gaps.list) {
    if (gap.end - gap.begin >= item.bytes) try_gap(gap, item);
  }
  return best_ < std::numeric_limits<double>::max() ? address_ : gaps.top;
}

void Arena::try_gap(const Gap& gap, const PackItem& item) {
  const double low = mismatch(gap.below, item);
  const double high = mismatch(gap.above, item);
  const Bytes rest = gap.end - gap.begin - item.bytes;
  const double loose = static_cast<double>(rest) * taste_.per_byte;
  if (rest == 0 && taste_.both_sides) {
    offer(gap.begin, loose + (low + high) / 2);
  } else {
    offer(gap.begin, loose + low);
    offer(gap.end - item.bytes, loose + high);
  }
}

double Arena::mismatch(std::int32_t neighbour_ends, const PackItem& item) const {
  return neighbour_ends == kFloor ? 0 : std::abs(static_cast<double>(neighbour_ends) - item.end) * taste_.per_tick;
}

void Arena::offer(Bytes address, double cost) {
  if (cost >= best_) return;
  best_ = cost;
  address_ = address;
}

}  // namespace tidemark
