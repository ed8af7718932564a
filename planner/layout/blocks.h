#pragma once
// A problem in the form packers work on: what moves as one, with its parts and everything rounded to the alignment.

#include <cstdint>
#include <span>
#include <vector>

#include "planner/layout/packer.h"

namespace tidemark::layout {

/// Bytes [shift, shift + bytes) from the block's address, needed on [begin, end).
struct BlockPart {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  Bytes shift = 0;
  Bytes bytes = 0;
};

class Blocks {
 public:
  explicit Blocks(const PackProblem& problem);

  [[nodiscard]] std::size_t size() const { return hulls_.size(); }
  /// Per block, in the order of their first items: from its first begin to its last end, and all of its bytes. What
  /// orders sort.
  [[nodiscard]] std::span<const PackItem> hulls() const { return hulls_; }
  /// Every block is one part without shift, free to move, aligned like all, and apart from nobody by name.
  [[nodiscard]] bool plain() const { return plain_; }
  [[nodiscard]] std::span<const BlockPart> parts(std::size_t block) const {
    return {parts_.data() + first_part_[block], parts_.data() + first_part_[block + 1]};
  }
  [[nodiscard]] std::span<const BlockPart> parts() const { return parts_; }
  /// Rows of the problem, one for every part.
  [[nodiscard]] std::span<const std::int32_t> items(std::size_t block) const {
    return {item_of_part_.data() + first_part_[block], item_of_part_.data() + first_part_[block + 1]};
  }
  /// Blocks that must not share bytes with this one although no parts of theirs meet in time.
  [[nodiscard]] std::span<const std::uint32_t> apart(std::size_t block) const {
    if (apart_.empty()) return {};
    return {apart_.data() + first_apart_[block], apart_.data() + first_apart_[block + 1]};
  }
  /// Lowest common multiple of the problem's alignment and the block's own.
  [[nodiscard]] Bytes alignment(std::size_t block) const { return alignment_[plain_ ? 0 : block]; }
  /// Address, or kAnywhere.
  [[nodiscard]] Bytes fixed(std::size_t block) const { return fixed_.empty() ? kAnywhere : fixed_[block]; }

  /// Offsets of items from addresses of blocks, with the height.
  [[nodiscard]] Packing packing(std::span<const Bytes> addresses) const;
  /// The highest byte used by blocks at these addresses.
  [[nodiscard]] Bytes height(std::span<const Bytes> addresses) const;
  /// Addresses of blocks from offsets of items.
  [[nodiscard]] std::vector<Bytes> addresses(const Packing& packing) const;

 private:
  void join(const PackProblem& problem);
  void keep_apart(const PackProblem& problem);

  bool plain_ = true;
  std::size_t items_ = 0;
  std::vector<PackItem> hulls_;
  std::vector<BlockPart> parts_;            // grouped by block
  std::vector<std::int32_t> item_of_part_;  // row in the problem
  std::vector<std::uint32_t> first_part_;   // per block, one more
  std::vector<Bytes> alignment_;            // one for all where plain
  std::vector<Bytes> fixed_;
  std::vector<std::uint32_t> apart_, first_apart_;
};

}  // namespace tidemark::layout
