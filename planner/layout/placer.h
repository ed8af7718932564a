#pragma once
// Places blocks one after another. What is fixed stands from the start.

#include <span>
#include <vector>

#include "planner/layout/blocks.h"
#include "planner/layout/order.h"
#include "planner/layout/time_tree.h"

namespace tidemark {

class Placer {
 public:
  /// Keeps a reference to `blocks`.
  explicit Placer(const Blocks& blocks);

  /// The lowest address at which all parts of the block are free and it is apart from what it must be; its own if it
  /// is fixed.
  [[nodiscard]] Bytes lowest_fit(std::size_t block);
  void place(std::size_t block, Bytes address);
  [[nodiscard]] std::span<const Bytes> addresses() const { return addresses_; }

 private:
  [[nodiscard]] Bytes push_apart(std::size_t block, Bytes address) const;

  const Blocks& blocks_;
  TimeTree tree_;
  std::vector<Bytes> addresses_;
  std::vector<char> placed_;  // only where blocks are not plain
};

/// Places every row of `order` (blocks) in turn at the lowest address that is free.
[[nodiscard]] Packing place_in_order(const Blocks& blocks, std::span<const SortKey> order);

}  // namespace tidemark
