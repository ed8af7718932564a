#pragma once
// Where all blocks of a packing stand, for searches that take out a few of them at a time. Answers "which bytes do the
// others use during [from, to)".
//
// The clock is cut into slots, each with the parts that are there, by address. A binary tree stands on the slots; a
// node keeps the union of the bytes used in its span, made when first asked for in a round and kept until the next.

#include <cstdint>
#include <span>
#include <vector>

#include "planner/layout/blocks.h"

namespace tidemark::layout {

struct ByteRange {
  Bytes begin = 0;
  Bytes end = 0;
};

class Standing {
 public:
  /// Keeps a reference to `blocks`.
  Standing(const Blocks& blocks, std::span<const Bytes> addresses);

  /// Starts a round in which these blocks are not there. Ends the one before.
  void take_out(std::span<const std::uint32_t> blocks);
  [[nodiscard]] bool is_out(std::uint32_t block) const { return is_out_[block] != 0; }
  /// Bytes used by those that are not out, ascending and disjoint. Valid until the next call.
  [[nodiscard]] std::span<const ByteRange> used(std::int32_t from, std::int32_t to);
  /// The block now stands there.
  void move(std::uint32_t block, Bytes address);

  [[nodiscard]] std::span<const Bytes> addresses() const { return addresses_; }
  [[nodiscard]] Bytes address(std::uint32_t block) const { return addresses_[block]; }
  [[nodiscard]] Bytes top(std::uint32_t block) const { return addresses_[block] + blocks_.hulls()[block].bytes; }
  [[nodiscard]] Bytes height() const;
  /// A part of a block, standing.
  struct Entry {
    ByteRange bytes;
    std::int32_t from = 0;
    std::int32_t to = 0;
    std::uint32_t block = 0;
  };
  /// visit(entry) for parts that are there during [from, to); one that spans several slots is visited once in each.
  template <class Visit>
  void for_each(std::int32_t from, std::int32_t to, const Visit& visit) const {
    for (std::size_t slot = slot_at(from); slot < slots_.size() && (starts_[slot] < to || slot == 0); ++slot) {
      for (const Entry& entry : slots_[slot]) {
        if (entry.from < to && from < entry.to) visit(entry);
      }
    }
  }
  /// What all the asking has cost since the last call, in units of PackLimits::work.
  [[nodiscard]] std::int64_t take_cost();

 private:
  [[nodiscard]] std::size_t slot_at(std::int32_t moment) const;
  [[nodiscard]] std::int32_t slot_end(std::size_t slot) const;
  void collect(std::size_t node, std::size_t first, std::size_t last, std::int32_t from, std::int32_t to);
  const std::vector<ByteRange>& node_union(std::size_t node);
  void add(std::span<const ByteRange> ranges);

  const Blocks& blocks_;
  std::vector<Bytes> addresses_;
  std::vector<std::int32_t> starts_;            // per slot, ascending
  std::vector<std::vector<Entry>> slots_;       // by address, then block
  std::vector<std::vector<ByteRange>> unions_;  // per node; node 1 is the root, slots are the leaves
  std::vector<std::uint32_t> made_;             // per node: the round it was made in
  std::uint32_t round_ = 1;
  std::vector<char> is_out_;
  std::vector<std::uint32_t> out_;
  std::vector<ByteRange> sum_, other_, part_;
  std::int64_t steps_ = 0;
};

}  // namespace tidemark::layout
