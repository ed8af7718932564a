#include "planner/layout/time_tree.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace tidemark::layout {
namespace {

constexpr std::size_t kItemsPerLeaf = 224;
constexpr std::size_t kSamples = 4096;

// Cuts the clock where a sample of the items' ends says that equally many fall on both sides.
std::vector<std::int32_t> cut_clock(std::span<const BlockPart> parts, std::size_t leaves) {
  std::vector<std::int32_t> sample;
  const std::size_t step = parts.size() / kSamples + 1;
  for (std::size_t i = 0; i < parts.size(); i += step) {
    sample.push_back(parts[i].begin);
    sample.push_back(parts[i].end);
  }
  std::sort(sample.begin(), sample.end());
  std::vector<std::int32_t> starts{std::numeric_limits<std::int32_t>::min()};
  for (std::size_t leaf = 1; leaf < leaves; ++leaf) {
    starts.push_back(std::max(starts.back(), sample[leaf * sample.size() / leaves]));
  }
  starts.push_back(std::numeric_limits<std::int32_t>::max());
  return starts;
}

}  // namespace

TimeTree::TimeTree(std::span<const BlockPart> parts) {
  const std::size_t leaves = std::bit_ceil(parts.size() / kItemsPerLeaf + 1);
  starts_ = cut_clock(parts, leaves);
  covered_.resize(2 * leaves);
  touched_.resize(2 * leaves);
  is_read_.resize(2 * leaves, 0);
  partial_.resize(leaves);
}

Bytes TimeTree::lowest_fit(const BlockPart& part, Bytes from) {
  cursors_.clear();
  partial_cursors_.clear();
  gather(1, 0, partial_.size(), part);
  Bytes offset = from;
  // Every list pushes the candidate up past what it has in the way; done when a full round pushes nothing.
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& cursor : cursors_) moved |= push_up(cursor, part.bytes, offset);
    for (auto& cursor : partial_cursors_) moved |= push_up(cursor, part, offset);
  }
  return offset;
}

bool TimeTree::push_up(Cursor<Interval>& cursor, Bytes bytes, Bytes& offset) {
  const Interval* next = cursor.next;
  while (next != cursor.end && next->end <= offset) ++next;
  const bool moved = next != cursor.end && next->begin < offset + bytes;
  for (; next != cursor.end && next->begin < offset + bytes; ++next) offset = next->end;
  cursor.next = next;
  return moved;
}

// Placed items are in order of offset, and those that live at other times may overlap one another.
bool TimeTree::push_up(Cursor<Placed>& cursor, const BlockPart& part, Bytes& offset) {
  const auto [begin, end, shift, bytes] = part;
  Bytes at = offset;
  const Placed* next = cursor.next;
  for (; next != cursor.end && next->bytes.begin < at + bytes; ++next) {
    // Hardly any is in the way, each of the others for a reason of its own: one branch is foreseen, three are not.
    if (((next->bytes.end > at) & (next->begin < end) & (next->end > begin)) != 0) at = next->bytes.end;
  }
  cursor.next = next;
  return at != std::exchange(offset, at);
}

void TimeTree::place(const BlockPart& part, Bytes offset) {
  place_in(1, 0, partial_.size(), part, {offset, offset + part.bytes});
}

void TimeTree::place_in(std::size_t node, std::size_t first, std::size_t last, const BlockPart& part, Interval bytes) {
  if (part.end <= starts_[first] || part.begin >= starts_[last]) return;
  if (is_read_[node] != 0) add(touched_[node], bytes);
  if (part.begin <= starts_[first] && part.end >= starts_[last]) {
    add(covered_[node], bytes);
    return;
  }
  if (last - first == 1) {
    auto& list = partial_[first];
    const auto at = std::upper_bound(list.begin(), list.end(), bytes.begin,
                                     [](Bytes begin, const Placed& placed) { return begin < placed.bytes.begin; });
    list.insert(at, {bytes, part.begin, part.end});
    return;
  }
  const std::size_t middle = first + (last - first) / 2;
  place_in(2 * node, first, middle, part, bytes);
  place_in(2 * node + 1, middle, last, part, bytes);
}

void TimeTree::gather(std::size_t node, std::size_t first, std::size_t last, const BlockPart& part) {
  if (part.end <= starts_[first] || part.begin >= starts_[last]) return;
  const bool covers = part.begin <= starts_[first] && part.end >= starts_[last];
  if (covers && is_read_[node] == 0) begin_to_touch(node, first, last);
  const Intervals& intervals = covers ? touched_[node] : covered_[node];
  if (!intervals.empty()) cursors_.push_back({intervals.data(), intervals.data() + intervals.size()});
  if (covers) return;
  if (last - first == 1) {
    const auto& partial = partial_[first];
    if (!partial.empty()) partial_cursors_.push_back({partial.data(), partial.data() + partial.size()});
    return;
  }
  const std::size_t middle = first + (last - first) / 2;
  gather(2 * node, first, middle, part);
  gather(2 * node + 1, middle, last, part);
}

// Lives that pass ask for short spans alone, so that most of what they place need not be told to the long ones.
void TimeTree::begin_to_touch(std::size_t node, std::size_t first, std::size_t last) {
  is_read_[node] = 1;
  Intervals all;
  list_all(node, first, last, all);
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Intervals& united = touched_[node];
  for (const Interval& one : all) {
    if (united.empty() || united.back().end < one.begin)
      united.push_back(one);
    else
      united.back().end = std::max(united.back().end, one.end);
  }
}

void TimeTree::list_all(std::size_t node, std::size_t first, std::size_t last, Intervals& all) const {
  const Intervals& known = is_read_[node] != 0 && !touched_[node].empty() ? touched_[node] : covered_[node];
  all.insert(all.end(), known.begin(), known.end());
  if (&known == &touched_[node]) return;
  if (last - first == 1) {
    for (const Placed& placed : partial_[first]) all.push_back(placed.bytes);
    return;
  }
  const std::size_t middle = first + (last - first) / 2;
  list_all(2 * node, first, middle, all);
  list_all(2 * node + 1, middle, last, all);
}

// Unites `bytes` with what it overlaps or touches.
void TimeTree::add(Intervals& intervals, Interval bytes) {
  const auto first = std::lower_bound(intervals.begin(), intervals.end(), bytes.begin,
                                      [](const Interval& i, Bytes begin) { return i.end < begin; });
  auto last = first;
  while (last != intervals.end() && last->begin <= bytes.end) ++last;
  if (first == last) {
    intervals.insert(first, bytes);
    return;
  }
  first->begin = std::min(first->begin, bytes.begin);
  first->end = std::max((last - 1)->end, bytes.end);
  intervals.erase(first + 1, last);
}

}  // namespace tidemark::layout
