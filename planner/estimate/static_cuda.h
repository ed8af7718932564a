#pragma once
// What a Megatron-LM rank on CUDA holds between steps.

#include <vector>

#include "planner/estimate/rank_view.h"

namespace tidemark::estimate {

/// Terms in a fixed order, zero ones left out.
[[nodiscard]] std::vector<Term> static_cuda(const RankView& view);

/// One workspace of cuBLAS: per handle and stream.
[[nodiscard]] double cublas_workspace_bytes(const Platform& platform);

}  // namespace tidemark::estimate
