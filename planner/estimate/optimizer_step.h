#pragma once
// What the optimizer step on Ascend needs for a moment.

#include "planner/estimate/rank_view.h"

namespace tidemark::estimate {

/// Elements of the largest piece of one parameter inside this rank's optimizer shard.
[[nodiscard]] double largest_piece(const RankView& view);

[[nodiscard]] Term optimizer_step_ascend(const RankView& view);

/// No shard of the view's stage takes more in its step.
[[nodiscard]] double most_step_bytes(const RankView& view);

}  // namespace tidemark::estimate
