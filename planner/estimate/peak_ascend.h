#pragma once
// What the passes and the optimizer step of a MindSpeed-LLM rank on Ascend add to its steady memory.

#include <vector>

#include "planner/estimate/rank_view.h"

namespace tidemark::estimate {

/// Terms of forward and backward, when they need most; moments not counted as missing yet.
[[nodiscard]] std::vector<Term> pass_ascend(const RankView& view);

}  // namespace tidemark::estimate
