#include "planner/step_time/ends_time.h"

#include "planner/cost/collective_time.h"
#include "planner/cost/launch_counts.h"
#include "planner/cost/matmul_time.h"
#include "planner/cost/memory_time.h"
#include "planner/step_time/layer_time.h"

namespace tidemark::step_time {
namespace {

constexpr double kElementBytes = 2;

/// Never in fp8: recipes keep the head in bf16.
Precision head_precision(const StepSetting& setting) {
  const bool is_tf32 = setting.software.has_tf32_head && setting.run.tensor == 1;
  return is_tf32 ? Precision::tf32 : Precision::bf16;
}

}  // namespace

Passes head_passes(const StepSetting& setting) {
  const RankShape& rank = setting.rank;
  Passes passes;
  passes.add_matmul(cost::matmul_passes(
      {.rows = rank.tokens, .columns = rank.vocabulary, .inner = rank.hidden, .precision = head_precision(setting)},
      setting.device));
  const double loss_s = cost::memory_s(setting.software.loss_bytes * rank.tokens * rank.vocabulary, setting.device);
  for (PassCost* pass : {&passes.forward, &passes.backward}) {
    pass->vector_s += loss_s / 2;
    pass->launches = setting.software.head_launches;
  }
  if (setting.run.tensor > 1) {
    // Forward the loss needs a maximum and a sum over the ranks: no bytes, two hops. Rows are gathered where split.
    const double all_reduce_s = tensor_all_reduce_s(setting);
    passes.forward.tensor_s =
        (setting.run.is_sequence_parallel ? all_reduce_s / 2 : 0) + 2 * setting.device.rates.hop_s;
    passes.backward.tensor_s = all_reduce_s;
  }
  return passes;
}

Passes embedding_passes(const StepSetting& setting) {
  constexpr double kRowPasses = 4;  // look-up and what follows it, read and written
  const RankShape& rank = setting.rank;
  const double row_bytes = kRowPasses * kElementBytes * rank.tokens * rank.hidden;
  const double table_bytes = kElementBytes * rank.vocabulary * rank.hidden;
  Passes passes;
  passes.forward = {.vector_s = cost::memory_s(row_bytes, setting.device), .launches = cost::kLookupLaunches};
  passes.backward = {.vector_s = cost::memory_s(row_bytes + table_bytes, setting.device),
                     .launches = cost::kLookupBackwardLaunches};
  const cost::GroupSpan span = cost::group_span(setting.run.tensor, 1, setting.device);
  passes.forward.tensor_s = cost::ring_s(kElementBytes * rank.tokens * rank.hidden, 2, span,
                                         {.share = setting.run.network_share}, setting.device);
  return passes;
}

}  // namespace tidemark::step_time
