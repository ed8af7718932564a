#pragma once
// Sanitized programs run ten times slower: where a test draws cases, they draw fewer. The development build runs them
// all.

#include <algorithm>

namespace tidemark::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// How many of `all` drawn cases this build runs.
[[nodiscard]] constexpr int cases(int all) {
  return kSanitized ? std::max(2, all / 4) : all;
}

}  // namespace tidemark::testing
