#pragma once
// What is to be packed: stays of bytes on some clock, as numbers.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"

namespace tidemark::layout {

/// A block of bytes needed on the half-open interval [begin, end) of some clock. Without bytes or life an item takes
/// part in no packing.
struct PackItem {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  Bytes bytes = 0;
  [[nodiscard]] bool takes_part() const { return bytes > 0 && begin < end; }
  [[nodiscard]] std::int64_t life() const { return std::int64_t{end} - begin; }
  friend bool operator==(const PackItem&, const PackItem&) = default;
};

inline constexpr Bytes kAnywhere = -1;

/// Two items share bytes only if their lives do not meet and `apart` does not name them. Everything but `items` and
/// `alignment` is rare: a vector is empty where no item has the need, and has an entry for every item otherwise.
struct PackProblem {
  std::vector<PackItem> items;
  Bytes alignment = 1;  ///< > 0; offsets are multiples of it, and sizes are rounded up to it

  /// Items of the same number lie at one address, whatever their lives: storages written in place, or the stays before
  /// and after a gap during which the bytes are free though the address is kept. Numbers may be any.
  std::vector<std::int32_t> block_of;
  /// Where the item begins within its block, >= 0 and a multiple of `alignment`.
  std::vector<Bytes> shift;
  std::vector<Bytes> own_alignment;  ///< > 0; of the block's address, on top of `alignment`
  std::vector<Bytes> fixed_offset;   ///< of the item; kAnywhere: free to move
  /// Where the item might lie; kAnywhere: no idea. Never binding: `auto` begins with hints that are a valid packing.
  std::vector<Bytes> hint;
  /// Pairs of items that must not share bytes although their lives do not meet, because nothing orders the two.
  std::vector<std::pair<std::int32_t, std::int32_t>> apart;

  // Of one item, whichever vectors are empty.
  [[nodiscard]] std::int32_t block(std::size_t i) const {
    return block_of.empty() ? static_cast<std::int32_t>(i) : block_of[i];
  }
  [[nodiscard]] Bytes shift_in_block(std::size_t i) const { return shift.empty() ? 0 : shift[i]; }
  [[nodiscard]] Bytes block_alignment(std::size_t i) const { return own_alignment.empty() ? 1 : own_alignment[i]; }
  [[nodiscard]] Bytes fixed(std::size_t i) const { return fixed_offset.empty() ? kAnywhere : fixed_offset[i]; }

  /// Every item for itself, free to move.
  [[nodiscard]] bool plain() const {
    return block_of.empty() && own_alignment.empty() && fixed_offset.empty() && apart.empty();
  }
};

/// What no packing could ever meet, in words ("items 3 and 7 are fixed to bytes they would share"), or nothing. Also
/// says what breaks the rules above. Sizes may add up to at most 2^60 bytes.
[[nodiscard]] std::optional<std::string> find_contradiction(const PackProblem& problem);

}  // namespace tidemark::layout
