#pragma once
// What a MindSpeed-LLM rank on Ascend holds between steps.

#include <vector>

#include "planner/estimate/rank_view.h"

namespace tidemark::estimate {

/// Terms in a fixed order, zero ones left out.
[[nodiscard]] std::vector<Term> static_ascend(const RankView& view);

}  // namespace tidemark::estimate
