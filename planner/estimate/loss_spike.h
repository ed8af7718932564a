#pragma once
// Logits and loss on the last stage.

#include "planner/estimate/rank_view.h"

namespace tidemark::estimate {

[[nodiscard]] std::vector<Term> loss_spike_cuda(const RankView& view);
/// `tokens`: of the sequence the loss is computed on.
[[nodiscard]] std::vector<Term> logits_cuda(const RankView& view, double tokens);
[[nodiscard]] std::vector<Term> loss_spike_ascend(const RankView& view);

}  // namespace tidemark::estimate
