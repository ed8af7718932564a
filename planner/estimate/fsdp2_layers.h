#pragma once
// What a transformer layer of torchtitan keeps for backward, and how many bytes its loss takes a logit.

#include "planner/estimate/rank_view.h"

namespace tidemark::estimate {

struct Fsdp2Layer {
  double kept = 0;     ///< bytes of one micro-batch
  double rebuilt = 0;  ///< all that its backward needs: what a recomputation brings back
};

/// `layer`: id in the model; `turn`: its place among the layers of the rank, from 0.
[[nodiscard]] Fsdp2Layer fsdp2_layer(const RankView& view, std::int64_t layer, std::int64_t turn);

/// Device bytes that the loss makes the allocator reserve, for each logit of this rank.
[[nodiscard]] double fsdp2_loss_bytes(const TrainingRun& run);

/// Columns of the logits on this rank.
[[nodiscard]] double fsdp2_logit_columns(const RankView& view);

}  // namespace tidemark::estimate
