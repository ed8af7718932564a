#pragma once
// What a uniform chain takes at least, in closed form: Griewank, "Achieving logarithmic growth of temporal and spatial
// complexity in reverse automatic differentiation" (1992); Griewank and Walther, Algorithm 799 (2000).

#include <cstdint>

namespace tidemark::testing {

/// n over k. REQUIRES: it fits 64 bits with a factor of n to spare.
inline std::int64_t choose(std::int64_t n, std::int64_t k) {
  std::int64_t value = 1;
  for (std::int64_t i = 1; i <= k; ++i) value = value * (n - k + i) / i;
  return value;
}

/// Forward steps, first runs included, to go back through `steps` steps with so many states stored, the input among
/// them.
inline std::int64_t chain_forward_steps(std::int64_t steps, std::int64_t stored) {
  std::int64_t r = 1;
  while (choose(stored + r, stored) < steps) ++r;
  return r * steps - choose(stored + r, r - 1);
}

}  // namespace tidemark::testing
