#pragma once
// Bytes in memory at every run of a schedule under change, with the sum of what is above a budget. Runs are in blocks
// of a few hundred, so that inserting one, and adding to a range of them, costs a block or two plus one step per block.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/bytes.h"
#include "planner/decide/flat/problem.h"

namespace tidemark::decide::flat {

class Profile {
 public:
  /// Replaces everything. REQUIRES: keys ascending, one value per key, at least one.
  void assign(const std::vector<Key>& keys, const std::vector<Bytes>& bytes, Bytes budget);
  void set_budget(Bytes budget);
  [[nodiscard]] Bytes budget() const { return budget_; }

  /// Adds to all runs with lo <= key < hi.
  void add(Key lo, Key hi, Bytes delta);
  /// REQUIRES: the key is not there; a later one is.
  void insert(Key key, Bytes bytes);
  /// REQUIRES: the key is there and is not the only one.
  void erase(Key key);

  /// REQUIRES: a later run exists.
  [[nodiscard]] Key next_after(Key key) const;
  [[nodiscard]] Bytes at(Key key) const;  ///< REQUIRES: the key is there
  [[nodiscard]] Bytes peak() const;
  [[nodiscard]] Key peak_key() const;  ///< the first at the peak
  /// Bytes above the budget, summed over runs.
  [[nodiscard]] Bytes overflow() const { return overflow_; }
  /// The run in which the given share of the overflow lies. REQUIRES: 0 <= share < overflow().
  [[nodiscard]] Key at_overflow(Bytes share) const;
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Entries looked at so far: what work is counted in.
  [[nodiscard]] std::int64_t work() const { return work_; }

 private:
  static constexpr std::size_t kCapacity = 32;
  struct Block {
    std::array<Key, kCapacity> key;
    std::array<Bytes, kCapacity> bytes;  ///< without `lazy`
    std::size_t count = 0;
    Bytes lazy = 0, most = 0, least = 0, overflow = 0;
  };
  [[nodiscard]] std::size_t block_of(Key key) const;
  static std::size_t place_of(const Block& block, Key key);
  void renew(Block& block);
  void add_to_part(Block& block, std::size_t begin, std::size_t end, Bytes delta);
  void split(std::size_t index);

  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Key> first_;  ///< per block
  Bytes budget_ = 0, overflow_ = 0;
  std::int64_t size_ = 0;
  mutable std::int64_t work_ = 0;
};

}  // namespace tidemark::decide::flat
