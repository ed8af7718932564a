#pragma once
// What fine-grained activation offload of Megatron-LM moves to the host.

#include "planner/estimate/local_sizes.h"
#include "planner/estimate/saved_layer.h"

namespace tidemark::estimate {

/// `saved` without the tensors that modules named in offload-modules save. Small ones stay, and so does what another
/// module keeps alive.
[[nodiscard]] SavedLayer without_offloaded(const TrainingRun& run, const LocalSizes& sizes, SavedLayer saved);

}  // namespace tidemark::estimate
