#pragma once
// Places of one small size, given out in turn: what is asked for in no known order, and may live long, is in the way of
// nothing larger there.
//
// Cost: take() looks from the last place on, so O(1) while few are in use, O(count) at worst. Threads: calls must not
// overlap.

#include <cstddef>
#include <optional>
#include <vector>

#include "core/bytes.h"

namespace tidemark::allocator {

class SmallPlaces {
 public:
  /// `count` places of `span_bytes` each, side by side from `begin` on.
  SmallPlaces(Bytes begin, Bytes span_bytes, std::size_t count)
      : begin_(begin), span_bytes_(span_bytes), used_bytes_(count, 0) {}

  [[nodiscard]] bool covers(Bytes offset) const { return offset >= begin_ && offset < end(); }
  [[nodiscard]] Bytes end() const { return begin_ + static_cast<Bytes>(used_bytes_.size()) * span_bytes_; }

  /// Offset of a place for a request of `bytes` that takes `span` with what surrounds it; nothing: it is too large, or
  /// all are in use. REQUIRES: bytes > 0.
  [[nodiscard]] std::optional<Bytes> take(Bytes bytes, Bytes span) {
    if (span > span_bytes_) return std::nullopt;
    for (std::size_t tried = 0; tried < used_bytes_.size(); ++tried) {
      const std::size_t place = next_;
      next_ = next_ + 1 == used_bytes_.size() ? 0 : next_ + 1;
      if (used_bytes_[place] > 0) continue;
      used_bytes_[place] = bytes;
      return begin_ + static_cast<Bytes>(place) * span_bytes_;
    }
    return std::nullopt;
  }

  /// As requested; 0: no place that is in use begins there. REQUIRES: covers(offset).
  [[nodiscard]] Bytes requested_bytes(Bytes offset) const {
    return (offset - begin_) % span_bytes_ == 0 ? used_bytes_[place_of(offset)] : 0;
  }

  /// REQUIRES: requested_bytes(offset) > 0.
  void give_back(Bytes offset) { used_bytes_[place_of(offset)] = 0; }

 private:
  [[nodiscard]] std::size_t place_of(Bytes offset) const {
    return static_cast<std::size_t>((offset - begin_) / span_bytes_);
  }

  Bytes begin_ = 0;
  Bytes span_bytes_ = 0;
  std::vector<Bytes> used_bytes_;  ///< 0: free
  std::size_t next_ = 0;
};

}  // namespace tidemark::allocator
