#pragma once
// A share of which counts are known, and what they say of the share that further trials will show: a beta distribution,
// and beta-binomial quantiles of what comes next. Threads: any.

#include <cstdint>
#include <span>

namespace tidemark::plan {

/// Of two-sided intervals of a share.
inline constexpr double kShareConfidence = 0.95;

/// Beta(above, below).
struct KnownShare {
  double above = 0.5, below = 0.5;  ///< Jeffreys' prior
};

/// The part of `next` that is not exceeded with this chance (beta-binomial). REQUIRES: above, below > 0; next > 0;
/// 0 < chance < 1. O(next).
[[nodiscard]] double share_quantile(const KnownShare& known, std::int64_t next, double chance);

/// Without a model, where loads are not normal (a hot spot that moves): a share that the next `next` exceed with a
/// chance of at most (1 - kShareConfidence) / 2, given that `above` of `seen` did. Holds for what is alike and
/// independent. REQUIRES: above <= seen, next > 0. O(next).
[[nodiscard]] double share_at_most(std::int64_t above, std::int64_t seen, std::int64_t next);

/// Of a share that differs from truth to truth, what is known of the next one: each of `above` is counted in `of`
/// trials under a truth of its own. By moments: what the counts scatter more than trials do is between truths.
/// REQUIRES: not empty, of > 0. O(counts).
[[nodiscard]] KnownShare share_of_next(std::span<const std::int64_t> above, std::int64_t of);

}  // namespace tidemark::plan
