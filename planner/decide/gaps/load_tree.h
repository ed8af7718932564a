#pragma once
// Bytes over a clock with range addition and range maximum, each O(log n): lets a search ask "does this still fit?"
// without rescanning the step. A plain segment tree with lazy sums kept in the nodes.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/bytes.h"

namespace tidemark::decide::gaps {

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
    if (begin >= end) return;
    // Both ends upward; whole nodes between them on the way, until they meet.
    std::size_t left = leaf(begin), right = leaf(end - 1);
    raise(left, bytes);
    if (left != right) raise(right, bytes);
    for (; left / 2 != right / 2; sum_up(left), sum_up(right)) {
      if (left % 2 == 0) raise(left + 1, bytes);
      if (right % 2 == 1) raise(right - 1, bytes);
      left /= 2;
      right /= 2;
    }
    while ((left /= 2) > 0) sum_up(left);
  }

  /// Largest value on [begin, end); very small if empty.
  [[nodiscard]] Bytes max(std::int32_t begin, std::int32_t end) const {
    if (begin >= end) return kNothing;
    std::size_t left = leaf(begin), right = leaf(end - 1);
    Bytes most_left = top_[left], most_right = top_[right];
    while (left / 2 != right / 2) {
      if (left % 2 == 0) most_left = std::max(most_left, top_[left + 1]);
      if (right % 2 == 1) most_right = std::max(most_right, top_[right - 1]);
      most_left += add_[left /= 2];
      most_right += add_[right /= 2];
    }
    Bytes most = std::max(most_left, most_right);
    while ((left /= 2) > 0) most += add_[left];
    return most;
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

  [[nodiscard]] std::size_t leaf(std::int32_t position) const { return leaves_ + static_cast<std::size_t>(position); }

  void raise(std::size_t node, Bytes bytes) {
    top_[node] += bytes;
    add_[node] += bytes;
  }
  void sum_up(std::size_t node) { top_[node] = std::max(top_[2 * node], top_[2 * node + 1]) + add_[node]; }

  std::size_t size_, leaves_ = 1;
  std::vector<Bytes> top_, add_;  ///< top_ of a node includes its own add_, not its ancestors'
};

}  // namespace tidemark::decide::gaps
