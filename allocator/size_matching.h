#pragma once
// Whether requests can all be those of planned blocks that each take a range of sizes, as they come one by one.
//
// Every request that can be is given a block of its own, as if they were sorted: in ascending order, each has the block
// that takes it and ends lowest, of those that the ones before have left. That accounts for as many as can be (the
// optimum for points in intervals). A new request takes that block from a larger one, where that has it, and the larger
// one looks on in the same way:
//
//   blocks   [8..16] [8..32]     12 has [8..16]; then 9 comes and takes it, and 12 goes on to [8..32]
//
// Blocks of the same sizes are one *kind*. Cost: O(kinds), times the requests that go on to another block: none where
// every block is of one size. No memory allocation once built. Threads: calls must not overlap.

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "core/bytes.h"

namespace tidemark::allocator {

/// Of the requests for one block.
struct SizeRange {
  Bytes least = 0, most = 0;
};

class SizeMatching {
 public:
  explicit SizeMatching(std::vector<SizeRange> blocks) : given_(blocks.size()) {
    std::ranges::sort(blocks, {}, [](const SizeRange& one) { return std::tuple(one.most, one.least); });
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto [least, most] = blocks[i];
      if (kinds_.empty() || kinds_.back().least != least || kinds_.back().most != most)
        kinds_.push_back({.least = least, .most = most, .first = i});
      ++kinds_.back().count;
    }
  }

  /// Would one block more be accounted for by this request, beside those that were added?
  [[nodiscard]] bool takes(Bytes bytes) const {
    for (std::size_t at = find(bytes); at < kinds_.size(); at = find(bytes)) {
      const Kind& kind = kinds_[at];
      if (kind.given < kind.count) return true;
      bytes = largest(kind);
    }
    return false;
  }

  /// A request has come. Where takes() is false it changes nothing.
  void add(Bytes bytes) {
    if (!takes(bytes)) return;
    for (;;) {
      Kind& kind = kinds_[find(bytes)];
      const bool has_room = kind.given < kind.count;
      if (has_room) ++kind.given;
      Bytes* const last = &given_[kind.first + kind.given - 1];
      const Bytes goes_on = std::exchange(*last, bytes);
      for (Bytes* at = last; at != &given_[kind.first] && at[-1] > at[0]; --at) std::swap(at[-1], at[0]);
      if (has_room) return;
      bytes = goes_on;
    }
  }

  void clear() {
    for (Kind& kind : kinds_) kind.given = 0;
  }

 private:
  struct Kind {
    Bytes least = 0, most = 0;
    std::size_t first = 0;  ///< of its blocks, in given_
    std::size_t count = 0;
    std::size_t given = 0;  ///< to requests
  };

  [[nodiscard]] Bytes largest(const Kind& kind) const { return given_[kind.first + kind.given - 1]; }
  /// The kind that ends lowest of those that take the request and have a block for it; at the end: there is none.
  [[nodiscard]] std::size_t find(Bytes bytes) const {
    const auto from = std::ranges::lower_bound(kinds_, bytes, {}, &Kind::most);
    const auto found = std::find_if(from, kinds_.end(), [&](const Kind& kind) {
      return kind.least <= bytes && (kind.given < kind.count || largest(kind) > bytes);
    });
    return static_cast<std::size_t>(found - kinds_.begin());
  }

  std::vector<Kind> kinds_;   ///< ascending by `most`
  std::vector<Bytes> given_;  ///< requests of each kind's blocks, ascending
};

}  // namespace tidemark::allocator
