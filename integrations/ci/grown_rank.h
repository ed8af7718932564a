#pragma once
// What each rank grew by, and whether that is allowed.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/bytes.h"
#include "integrations/ci/baseline.h"
#include "planner/budget/growth.h"
#include "planner/budget/limit.h"

namespace tidemark::ci {

struct GrownRank {
  std::int64_t rank = 0;
  Bytes before_bytes = 0;   ///< its peak before; of several runs the highest; of a new rank that of the highest rank
  Bytes after_bytes = 0;    ///< its peak
  Bytes allowed_bytes = 0;  ///< with the tolerance
  std::optional<Spread> spread;  ///< of the runs of a measured baseline
  /// PASS: no more than is allowed. NEAR: more, but above the highest run by no more than runs differ. FAIL: else.
  budget::Verdict verdict = budget::Verdict::pass;
  [[nodiscard]] Bytes excess_bytes() const { return after_bytes - allowed_bytes; }
};

/// Every rank of `growth` that there is after, ascending. `baseline`: where its spread counts, else nullptr.
[[nodiscard]] std::vector<GrownRank> grown_ranks(const budget::Growth& growth, const budget::Tolerance& allowed,
                                                 const BaselineJob* baseline);

/// The worst verdict, of those the largest excess, ties: the first. REQUIRES: not empty.
[[nodiscard]] const GrownRank& worst_of(const std::vector<GrownRank>& ranks);

}  // namespace tidemark::ci
