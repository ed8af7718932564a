#pragma once
// What the host does: issues kernels, runs the optimizer's update, reads the data.

#include <vector>

#include "core/result.h"
#include "planner/prices/kept_step.h"

namespace tidemark::prices {

/// DeepSpeed's step with a CPU optimizer with cores bound, over without: what binding leaves of host time.
inline constexpr double kBoundHostTime = 2497.0 / 2887.0;

/// Of a token, as Megatron-LM's get_batch_on_this_tp_rank broadcasts them: tokens, labels and positions as int64, loss
/// mask as fp32.
inline constexpr std::int64_t kLoadedTokenBytes = 8 + 8 + 8 + 4;
/// Batches that a loader of its default settings holds: Megatron-LM starts 2 workers, PyTorch fetches 2 ahead for each.
inline constexpr std::int64_t kPrefetchedBatches = 2 * 2;

/// Errors: those of KeptStep::changed.
[[nodiscard]] Result<std::vector<SwitchPrice>> host_prices(const KeptStep& step);

}  // namespace tidemark::prices
