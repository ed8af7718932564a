#pragma once
// Places long lives in the order of the clock, each in the gap whose neighbours end when it does, and short lives into
// what is left. Bytes that are given back together become one gap again; where sizes differ from layer to layer and
// from micro-batch to micro-batch that is what keeps an arena in one piece.

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/layout/blocks.h"

namespace tidemark::layout {

/// How much the life of a short-lived block counts beside its bytes in the order they are placed in.
enum class LifeWeight : std::uint8_t { none, fourth_root, root };

struct ClockWalk {
  double long_share = 0.75;  ///< long: at least this share of the mean life
  double tightness = 10;     ///< worth of a tight gap against ends that match; any positive number
  bool backward = true;      ///< from the end of the clock to its beginning, "ends" being begins
  bool both_sides = false;   ///< a gap filled exactly has two neighbours
  LifeWeight life_weight = LifeWeight::none;
  double room_share = 0;  ///< long lives leave this share of each of rooms_for_passing clear
};

/// A key of the order in which passing blocks are placed, ascending: the larger first. Where lives weigh as well,
/// classes of bytes x a root of the life, eight from one power of two to the next.
[[nodiscard]] std::int64_t largest_first(const PackItem& item, LifeWeight weight);

/// Addresses per block; `load` is a scale, and where rooms end. O(long lives x those alive together) and first fit of
/// the others; when asked to stop, what is left stands above all (Placer::pile_above). REQUIRES: blocks.plain(), load >
/// 0.
[[nodiscard]] std::vector<Bytes> walk_clock(const Blocks& blocks, const ClockWalk& walk, Bytes load,
                                            const std::function<bool()>& should_stop);

}  // namespace tidemark::layout
