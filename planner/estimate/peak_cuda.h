#pragma once
// What the forward and backward of a Megatron-LM rank on CUDA add to its steady memory when they need most.

#include <vector>

#include "planner/estimate/rank_view.h"

namespace tidemark::estimate {

/// Terms of forward and backward; the optimizer step adds nothing there (fused Adam works in place).
struct PassTerms {
  std::vector<Term> terms;
  bool in_forward = false;  ///< the most is reached where the loss is computed
};
[[nodiscard]] PassTerms pass_cuda(const RankView& view);

}  // namespace tidemark::estimate
