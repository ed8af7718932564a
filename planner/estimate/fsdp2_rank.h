#pragma once
// What a rank of a torchtitan job makes PyTorch's allocator reserve: FSDP2 with fp32 master weights, gathered layer by
// layer. torchtitan reports reserved memory (components/metrics.py: max_reserved_gib), not allocated memory, so that is
// what is predicted: each stream of FSDP2 has a pool of its own that no other stream's memory goes to.

#include "planner/estimate/rank_memory.h"
#include "planner/estimate/rank_view.h"

namespace tidemark::estimate {

/// Fills every figure of `memory` but rank and stage. REQUIRES: a run of Framework::torchtitan that estimate_rank
/// accepts. Compared with what torchtitan published: docs/ACCURACY.md.
void estimate_fsdp2(const RankView& view, RankMemory& memory);

}  // namespace tidemark::estimate
