#include "planner/estimate/state_bytes.h"

#include <algorithm>

#include "planner/estimate/local_sizes.h"

namespace tidemark::estimate {
namespace {

double moment_bytes(const TrainingRun& run, const Parameter& parameter) {
  const OptimizerState& optimizer = run.optimizer;
  constexpr double kMoment = 4;
  if (optimizer.kind == Optimizer::sgd) return kMoment;
  const bool matrix = parameter.role == ParameterRole::linear || parameter.role == ParameterRole::matrix;
  if (optimizer.kind == Optimizer::muon && matrix) return kMoment;  // momentum only; the rest stays with Adam
  if (optimizer.precision_aware)
    return static_cast<double>(optimizer.exp_avg_bytes) + static_cast<double>(optimizer.exp_avg_sq_bytes);
  const bool half = optimizer.reuse_fp32_parameter && optimizer.moments_16bit;
  return half ? kMoment : 2 * kMoment;
}

/// Beside a bf16 weight the precision-aware optimizer keeps only the lower half of an fp32 master copy. Weights held in
/// 8 bits have no upper half to share, and the long-term line's Transformer Engine (before 2.1) cannot.
bool keeps_remainder_only(const TrainingRun& run, const Parameter& parameter) {
  const bool eight_bit =
      run.quantization.used && run.quantization.parameters && parameter.role == ParameterRole::linear;
  return run.optimizer.main_bytes == 4 && run.precision == Precision::bf16 && !eight_bit && !run.platform.lts;
}

double main_bytes(const TrainingRun& run, const Parameter& parameter) {
  if (run.precision == Precision::fp32) return 0;
  if (run.optimizer.precision_aware)
    return keeps_remainder_only(run, parameter) ? 2 : static_cast<double>(run.optimizer.main_bytes);
  return run.optimizer.reuse_fp32_parameter ? 2 : 4;  // reuse: the bf16 weight is the upper half of the master copy
}

bool copies_gradient(const TrainingRun& run) {
  const OptimizerState& optimizer = run.optimizer;
  return optimizer.gradient_16bit && !optimizer.precision_aware && !optimizer.fsdp && run.precision != Precision::fp32;
}

}  // namespace

double optimizer_shards(const TrainingRun& run, bool expert) {
  const OptimizerState& optimizer = run.optimizer;
  if (!optimizer.distributed && !optimizer.fsdp) return 1;
  const Parallel& parallel = run.parallel;
  // Context-parallel ranks hold the same weights: they shard dense state together.
  const std::int64_t group = expert ? parallel.expert_data : parallel.data * parallel.context;
  const std::int64_t instances = std::max<std::int64_t>(1, parallel.optimizer_instances);
  return std::max(1.0, static_cast<double>(group) / static_cast<double>(instances));
}

StateBytes state_of(const TrainingRun& run, const Parameter& parameter) {
  const OptimizerState& optimizer = run.optimizer;
  const bool fp32 = run.precision == Precision::fp32;
  const double shards = optimizer_shards(run, parameter.expert);
  const double on_device = optimizer.on_host ? 0 : 1 - std::clamp(optimizer.host_share, 0.0, 1.0);
  StateBytes state;
  state.weight = fp32 ? 4 : 2;
  state.gradient = optimizer.gradient_16bit && !fp32 ? 2 : 4;
  if (optimizer.fsdp) state.weight /= shards;
  if (optimizer.fsdp || optimizer.sharded_gradients) state.gradient /= shards;
  state.main = main_bytes(run, parameter) / shards * on_device;
  state.moments = moment_bytes(run, parameter) / shards * on_device;
  state.gradient_copy = copies_gradient(run) ? 4 / shards * on_device : 0;
  state.reference = optimizer.frozen_reference ? state.weight : 0;
  return state;
}

StateBytes state_of(const TrainingRun& run, const std::vector<Parameter>& parameters) {
  StateBytes sum;
  for (const Parameter& parameter : parameters) {
    const StateBytes one = state_of(run, parameter);
    const auto elements = static_cast<double>(parameter.elements);
    sum.weight += elements * one.weight;
    sum.gradient += elements * one.gradient;
    sum.main += elements * one.main;
    sum.moments += elements * one.moments;
    sum.gradient_copy += elements * one.gradient_copy;
    sum.reference += elements * one.reference;
  }
  return sum;
}

}  // namespace tidemark::estimate
