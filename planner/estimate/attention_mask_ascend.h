#pragma once
// Attention masks of MindSpeed-LLM: how many there are, and what making one needs.

#include <cstdint>

#include "planner/estimate/rank_view.h"

namespace tidemark::estimate {

/// Masks held between steps: one for all micro-batches, or the last one's, which the layers refer to.
[[nodiscard]] Term attention_mask(const RankView& view);

/// Masks of the other micro-batches in flight, of `in_flight` on the rank.
[[nodiscard]] Term waiting_masks(const RankView& view, double in_flight);

/// Bytes a mask takes while it is made from the padding of its samples, before the first layer runs; 0: none is made.
[[nodiscard]] double mask_making_bytes(const RankView& view);

}  // namespace tidemark::estimate
