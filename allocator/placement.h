#pragma once
// Where to put a block that fits into no single free range: any unbroken run of ranges that the requester may use,
// with or without memory behind them, at the cost of the granules that are missing. Granules are powers of two.

#include <functional>
#include <optional>

#include "allocator/offset_allocator.h"

namespace tidemark::allocator {

struct Placement {
  Bytes offset = 0;
  Bytes missing_bytes = 0;  ///< whole granules without memory that the block would touch
  Bytes touched_bytes = 0;  ///< granules it touches, missing or not
};

/// Where in one free range a block should lie so that few granules are touched and whole ones stay whole: at an end
/// that shares its granule with a neighbour already, or on granule bounds if it fills them.
[[nodiscard]] Bytes place_in(const RangeInfo& range, Bytes bytes, Bytes granule);

/// The place with the fewest missing granules; of these, that touches the fewest; of these, in the shortest run; of
/// these, the lowest. Looks at both ends of every range as a start or an end of the block. O(ranges).
[[nodiscard]] std::optional<Placement> find_placement(const OffsetAllocator& space, Bytes bytes, Bytes granule,
                                                      const std::function<bool(const RangeInfo&)>& usable);

/// An unbroken piece of the space.
struct Stretch {
  Bytes offset = 0;
  Bytes bytes = 0;
};

/// The parts of [offset, offset + bytes), widened to granules, that have no memory behind them.
[[nodiscard]] MetadataVector<Stretch> missing_stretches(const OffsetAllocator& space, Bytes offset, Bytes bytes,
                                                        Bytes granule);
/// Whole granules inside free ranges that `idle` accepts, without those that [keep, keep + keep_bytes) touches;
/// shortest stretch first: it is of least use where it is.
[[nodiscard]] MetadataVector<Stretch> idle_stretches(const OffsetAllocator& space, Bytes granule, Bytes keep,
                                                     Bytes keep_bytes,
                                                     const std::function<bool(const RangeInfo&)>& idle);

}  // namespace tidemark::allocator
