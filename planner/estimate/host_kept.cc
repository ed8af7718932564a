#include "planner/estimate/host_kept.h"

#include <algorithm>

#include "planner/estimate/local_sizes.h"
#include "planner/estimate/saved_ascend.h"
#include "planner/estimate/saved_cuda.h"

namespace tidemark::estimate {
namespace {

bool is_kept_there(const Offload& offload) {
  return !offload.modules.empty() || offload.attention || offload.attention_output;
}

double kept_bytes(const TrainingRun& run, const LocalSizes& sizes, bool experts) {
  return on_ascend(run) ? layer_cost_ascend(run, sizes, experts, {}).kept
                        : layer_cost_cuda(run, sizes, experts, false).kept;
}

}  // namespace

step_time::HostHeld host_kept(const TrainingRun& run) {
  step_time::HostHeld held{.is_state_swapped = run.optimizer.on_host, .updated_share = run.optimizer.host_share};
  if (!is_kept_there(run.offload)) return held;
  const LocalSizes sizes = local_sizes(run, {});
  TrainingRun without = run;
  without.offload = {};
  const auto bytes = [&](bool experts) {
    return std::max(0.0, kept_bytes(without, sizes, experts) - kept_bytes(run, sizes, experts));
  };
  held.dense_bytes = bytes(false);
  if (run.model.moe.experts > 0) held.moe_bytes = bytes(true);
  return held;
}

}  // namespace tidemark::estimate
