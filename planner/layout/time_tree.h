#pragma once
// Which bytes are used when, for packers that place items in an order of their own. Answers "the lowest offset at which
// these bytes are free during [begin, end)" without looking at every placed item.
//
// The clock is cut into leaves with about equally many ends of items; a binary tree stands on them. Every node keeps
//   covered  the bytes of items that last over its whole span (and not over its parent's), and
//   touched  the bytes of items that are there at any time of its span, from the first query that reads it on,
// both as sorted, coalesced intervals: neighbours in address melt together, so the lists stay short where memory is
// full. A query for [begin, end) reads `touched` of the O(log leaves) nodes that make up the interval, `covered` of the
// nodes above them, and the single items of the two leaves it starts and ends in.

#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "planner/layout/blocks.h"

namespace tidemark::layout {

class TimeTree {
 public:
  /// Prepares for parts of this set (only their times matter).
  explicit TimeTree(std::span<const BlockPart> parts);

  /// The lowest offset from `from` on. REQUIRES: part.begin < part.end, within the times of the set.
  [[nodiscard]] Bytes lowest_fit(const BlockPart& part, Bytes from);
  void place(const BlockPart& part, Bytes offset);

 private:
  struct Interval {
    Bytes begin = 0;
    Bytes end = 0;
  };
  using Intervals = std::vector<Interval>;
  struct Placed {
    Interval bytes;
    std::int32_t begin = 0;
    std::int32_t end = 0;
  };
  template <class Entry>
  struct Cursor {
    const Entry* next = nullptr;
    const Entry* end = nullptr;
  };

  void place_in(std::size_t node, std::size_t first, std::size_t last, const BlockPart& part, Interval bytes);
  void gather(std::size_t node, std::size_t first, std::size_t last, const BlockPart& part);
  void begin_to_touch(std::size_t node, std::size_t first, std::size_t last);
  void list_all(std::size_t node, std::size_t first, std::size_t last, Intervals& all) const;
  static bool push_up(Cursor<Interval>& cursor, Bytes bytes, Bytes& offset);
  static bool push_up(Cursor<Placed>& cursor, const BlockPart& part, Bytes& offset);
  static void add(Intervals& intervals, Interval bytes);

  std::vector<std::int32_t> starts_;  // first time of each leaf, ascending; one more than leaves
  std::vector<Intervals> covered_;    // per node; node 1 is the root, node n has children 2n and 2n+1
  std::vector<Intervals> touched_;    // kept only where is_read_
  std::vector<char> is_read_;
  std::vector<std::vector<Placed>> partial_;  // per leaf, by offset: items that do not last over the whole leaf
  std::vector<Cursor<Interval>> cursors_;     // of the query under way
  std::vector<Cursor<Placed>> partial_cursors_;
};

}  // namespace tidemark::layout
