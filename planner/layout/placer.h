#pragma once
// Places blocks one after another. What is fixed stands from the start.

#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "planner/layout/blocks.h"
#include "planner/layout/order.h"
#include "planner/layout/time_tree.h"

namespace tidemark::layout {

class Placer {
 public:
  /// Keeps a reference to `blocks`.
  explicit Placer(const Blocks& blocks);

  /// The lowest address at which all parts of the block are free and it is apart from what it must be; its own if it
  /// is fixed.
  [[nodiscard]] Bytes lowest_fit(std::size_t block);
  void place(std::size_t block, Bytes address);
  /// Places every row of `order` in turn at the lowest address that is free. When asked to stop, or at a height of
  /// `useless_bytes`, the rest by pile_above: nothing can be placed afterwards. False: it was stopped.
  bool place_all(std::span<const SortKey> order, const std::function<bool()>& should_stop,
                 Bytes useless_bytes = std::numeric_limits<Bytes>::max());
  /// Places `left` above everything that stands: a valid packing in O(n log n), but a high one. REQUIRES: the others
  /// are placed.
  void pile_above(std::span<const SortKey> left);
  [[nodiscard]] std::span<const Bytes> addresses() const { return addresses_; }

 private:
  [[nodiscard]] Bytes push_apart(std::size_t block, Bytes address) const;

  const Blocks& blocks_;
  TimeTree tree_;
  std::vector<Bytes> addresses_;
  std::vector<char> placed_;  // only where blocks are not plain
};

/// Placer::place_all from the start, for every block there is.
[[nodiscard]] Packing place_in_order(const Blocks& blocks, std::span<const SortKey> order, const PackLimits& limits);

/// Offsets of items with bytes and a life, by first fit in order of birth; the longest of one birth first. O(n log n)
/// whatever the lives.
[[nodiscard]] std::vector<Bytes> first_fit_by_birth(std::span<const PackItem> items);

}  // namespace tidemark::layout
