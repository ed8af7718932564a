#pragma once
// When each storage lives, in op indices. Half-open ranges: a storage defined by op 3 and last used by op 7 lives in
// [3, 8).

#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/ids.h"

namespace tidemark {

struct LiveRange {
  std::int32_t begin = 0;
  std::int32_t end = 0;  ///< half-open; begin == end: never touched
  friend bool operator==(const LiveRange&, const LiveRange&) = default;
};

/// A storage idle between two touches: candidates for recompute and swap.
struct Gap {
  StorageId storage = kNone<StorageId>;
  /// Number of the touch before the gap among the storage's touches. The same for every micro-batch of a class, however
  /// long the gap is there; listed gaps of a storage may skip numbers.
  std::int32_t ordinal = 0;
  OpId before = kNone<OpId>;  ///< last touch before the gap
  OpId after = kNone<OpId>;   ///< first touch after it
};

struct Liveness {
  std::vector<LiveRange> ranges;          ///< per storage
  std::vector<std::int32_t> first_touch;  ///< CSR into touches, one more than storages
  std::vector<OpId> touches;              ///< ops that read or write the storage, ascending
  std::vector<Bytes> live_bytes;          ///< per op, of all storages of the graph (static ones included)
  Bytes peak_bytes = 0;
  OpId peak_op = kNone<OpId>;   ///< the first op at the peak
  Bytes working_set_bytes = 0;  ///< largest sum over one op of what it touches plus what never leaves: a lower bound

  [[nodiscard]] std::span<const OpId> touches_of(StorageId storage) const {
    const auto begin = static_cast<std::size_t>(first_touch[row(storage)]);
    const auto end = static_cast<std::size_t>(first_touch[row(storage) + 1]);
    return {touches.data() + begin, end - begin};
  }
};

}  // namespace tidemark
