#pragma once
// Tables of a report: who holds the bytes, what grew, predicted beside measured. Private to ci.

#include <cstddef>
#include <string>
#include <vector>

#include "integrations/ci/gate_result.h"
#include "integrations/ci/report.h"
#include "planner/budget/comparison.h"
#include "planner/budget/growth.h"
#include "planner/budget/holdings.h"

namespace tidemark::ci {

/// Storages at the peak of a rank, at most `most` of them, then the others together and the total.
[[nodiscard]] ReportTable contributor_table(const budget::RankHoldings& rank, std::size_t most);

/// What a rank holds by category, those that are not 0.
[[nodiscard]] ReportTable category_table(const budget::RankHoldings& rank);

/// Ranks whose peak changed, at most `most` of them by their change.
[[nodiscard]] ReportTable rank_growth_table(const budget::Growth& growth, std::size_t most);

/// Storages that changed, summed over the ranks, at most `most` of them, then the others together and the total.
[[nodiscard]] ReportTable storage_growth_table(const budget::Growth& growth, std::size_t most);

/// Peaks predicted beside measured of the ranks that both sides have, at most `most` of them, furthest off first.
/// `predicted`: of that side.
[[nodiscard]] ReportTable rank_prediction_table(const budget::Comparison& comparison, budget::Basis predicted,
                                                std::size_t most);

/// The same by category, of one rank: the one that was measured highest. REQUIRES: some rank is on both sides.
[[nodiscard]] ReportTable prediction_table(const budget::Comparison& comparison, budget::Basis predicted);

/// `models/x.yaml:12: model.layers: 61`, or what of it is known.
[[nodiscard]] std::string control_text(const budget::Control& control);
[[nodiscard]] std::string controls_text(const std::vector<budget::Control>& controls);

}  // namespace tidemark::ci
