#pragma once
// Bytes over a clock with range addition and range maximum, each O(log n): lets a search ask "does this still fit?"
// without rescanning the step. A plain segment tree with lazy sums kept in the nodes.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/bytes.h"

namespace tidemark {

class LoadTree {
 public:
  explicit LoadTree(const std::vector<Bytes>& values) : size_(values.size()) {
    leaves_ = 1;
    while (leaves_ < size_) leaves_ *= 2;
    top_.assign(2 * leaves_, 0);
    add_.assign(2 * leaves_, 0);
    reset(values);
  }

  /// REQUIRES: as many values as at construction.
  void reset(const std::vector<Bytes>& values) {
    std::fill(add_.begin(), add_.end(), Bytes{0});
    for (std::size_t i = 0; i < leaves_; ++i) top_[leaves_ + i] = i < size_ ? values[i] : kNothing;
    for (std::size_t i = leaves_; i-- > 1;) top_[i] = std::max(top_[2 * i], top_[2 * i + 1]);
  }

  /// Adds `bytes` on [begin, end).
  void add(std::int32_t begin, std::int32_t end, Bytes bytes) {
    if (begin < end) add(1, 0, leaves_, static_cast<std::size_t>(begin), static_cast<std::size_t>(end), bytes);
  }

  /// Largest value on [begin, end); very small if empty.
  [[nodiscard]] Bytes max(std::int32_t begin, std::int32_t end) const {
    return begin < end ? max(1, 0, leaves_, static_cast<std::size_t>(begin), static_cast<std::size_t>(end)) : kNothing;
  }

  [[nodiscard]] Bytes max() const { return top_[1]; }

  /// First position of the overall maximum.
  [[nodiscard]] std::int32_t argmax() const {
    std::size_t node = 1;
    while (node < leaves_) node = top_[2 * node] >= top_[2 * node + 1] ? 2 * node : 2 * node + 1;
    return static_cast<std::int32_t>(node - leaves_);
  }

 private:
  static constexpr Bytes kNothing = -(Bytes{1} << 62);

  void add(std::size_t node, std::size_t lo, std::size_t hi, std::size_t begin, std::size_t end, Bytes bytes) {
    if (end <= lo || hi <= begin) return;
    if (begin <= lo && hi <= end) {
      top_[node] += bytes;
      add_[node] += bytes;
      return;
    }
    const std::size_t middle = (lo + hi) / 2;
    add(2 * node, lo, middle, begin, end, bytes);
    add(2 * node + 1, middle, hi, begin, end, bytes);
    top_[node] = std::max(top_[2 * node], top_[2 * node + 1]) + add_[node];
  }

  [[nodiscard]] Bytes max(std::size_t node, std::size_t lo, std::size_t hi, std::size_t begin, std::size_t end) const {
    if (end <= lo || hi <= begin) return kNothing;
    if (begin <= lo && hi <= end) return top_[node];
    const std::size_t middle = (lo + hi) / 2;
    return std::max(max(2 * node, lo, middle, begin, end), max(2 * node + 1, middle, hi, begin, end)) + add_[node];
  }

  std::size_t size_, leaves_ = 1;
  std::vector<Bytes> top_, add_;  ///< top_ of a node includes its own add_, not its ancestors'
};

}  // namespace tidemark
