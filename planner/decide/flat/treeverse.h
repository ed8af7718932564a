#pragma once
// Reversing a chain with few stored states: where to store the next one. With l steps and s stored states (the first
// included) a schedule needs t(l, s) = min over m of m + t(l - m, s - 1) + t(m, s) forward steps; for uniform chains
// that is r l - C(s + r, r - 1), r least with C(s + r, s) >= l (Griewank).

#include <cstdint>
#include <functional>
#include <vector>

namespace tidemark::decide::flat {

class Treeverse {
 public:
  /// REQUIRES: steps >= 1, stored >= 1. O(steps^2 * stored).
  Treeverse(std::int32_t steps, std::int32_t stored);

  /// Forward steps of the whole.
  [[nodiscard]] std::int64_t steps() const { return cost(length_, stored_); }

  /// Calls visit(begin, end, state) for every advance from stored state `begin` through begin + 1 .. end, made when
  /// `state` is needed, in execution order; the very first advances, which the first run makes anyway, are left out.
  void for_each_advance(const std::function<void(std::int32_t, std::int32_t, std::int32_t)>& visit) const;

 private:
  [[nodiscard]] std::size_t at(std::int32_t length, std::int32_t stored) const;
  [[nodiscard]] std::int64_t cost(std::int32_t length, std::int32_t stored) const { return cost_[at(length, stored)]; }

  std::int32_t length_, stored_;
  std::vector<std::int64_t> cost_;
  std::vector<std::int32_t> store_;  ///< m of the least cost
};

}  // namespace tidemark::decide::flat
