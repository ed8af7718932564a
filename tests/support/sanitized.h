#pragma once
// Sanitized programs run ten times slower: where a test draws cases, they draw a twelfth. The development build runs
// them all.

#include <algorithm>
#include <concepts>

namespace tidemark::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// What no threads meet in, and what the same threads meet in as in another test, says nothing more here.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kThreadsOnly = true;
#else
inline constexpr bool kThreadsOnly = false;
#endif

/// How many of `all` drawn cases this build runs.
template <std::integral Count>
[[nodiscard]] constexpr Count cases(Count all) {
  return kSanitized ? std::min(all, std::max<Count>(2, all / 12)) : all;
}

}  // namespace tidemark::testing
