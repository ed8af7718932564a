#pragma once
// Ranks of a job of which nothing is known: a file of a run was lost, or a plan file was made of some ranks. Such a
// rank looks like one that holds nothing, so that what is left may seem to keep every limit.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "planner/budget/growth.h"
#include "planner/budget/holdings.h"

namespace tidemark::ci {

struct MissingRank {
  std::int64_t rank = 0;
  std::optional<Bytes> before_bytes;  ///< its peak in the baseline; nothing: it is not there either
  friend bool operator==(const MissingRank&, const MissingRank&) = default;
};

/// Ascending by rank: of a measured job those of the baseline that it lacks and those that its source tells nothing of;
/// of a planned one those of the job that the plan lacks (a job that shrank lacks none, nor one whose ranks are not
/// known). An estimate has every rank of its job. `growth`: of the baseline to `after`, else nullptr.
[[nodiscard]] std::vector<MissingRank> missing_ranks(const budget::Holdings& after, const budget::Growth* growth);

/// `rank 2 (11.11 GiB in the baseline) was not measured`; of several the highest and how many more there are. `basis`:
/// of the side that lacks them; `before`: what the side before is called. REQUIRES: not empty.
[[nodiscard]] std::string missing_text(const std::vector<MissingRank>& missing, budget::Basis basis,
                                       std::string_view before);

/// What to do about them: `measure it again`, `plan them as well`. REQUIRES: not empty.
[[nodiscard]] std::string missing_advice(const std::vector<MissingRank>& missing, budget::Basis basis);

}  // namespace tidemark::ci
