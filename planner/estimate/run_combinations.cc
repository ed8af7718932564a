// Arguments that the frameworks refuse beside each other: a job that cannot start has no memory to predict.

#include <fmt/format.h>

#include <algorithm>

#include "planner/estimate/run_derive.h"

namespace tidemark::estimate {
namespace {

Problem wrong(std::string argument, std::string message) {
  return RunProblem{std::move(argument), std::move(message)};
}

Problem refuse_experts(const Draft& draft) {
  const Experts& moe = draft.run.model.moe;
  const std::int64_t expert = draft.run.parallel.expert;
  if (expert > 1 && moe.experts == 0 && draft.run.model.hybrid_pattern.empty())
    return wrong("expert-model-parallel-size", fmt::format("{} needs --num-experts", expert));
  if (moe.experts > 0 && draft.run.parallel.tensor > 1 && !draft.run.parallel.sequence_parallel)
    return wrong("tensor-model-parallel-size",
                 fmt::format("{} beside --num-experts needs --sequence-parallel", draft.run.parallel.tensor));
  if (moe.capacity_factor > 0 && moe.experts > 0 && moe.dispatcher == Dispatcher::allgather)
    return wrong("moe-expert-capacity-factor",
                 "the allgather dispatcher, the default, has no capacity; add --moe-token-dispatcher-type alltoall");
  if (moe.pad_to_capacity && moe.experts > 0 && moe.capacity_factor <= 0)
    return wrong("moe-pad-expert-input-to-capacity", "it needs --moe-expert-capacity-factor");
  return std::nullopt;
}

Problem refuse_recompute(const Draft& draft) {
  const Recompute& recompute = draft.run.recompute;
  const bool has_method = recompute.method != Recompute::Method::unset;
  if (recompute.granularity == Recompute::Granularity::full && !has_method)
    return wrong("recompute-granularity", "full needs --recompute-method uniform or block");
  const bool megatron = draft.run.platform.framework == Framework::megatron_lm;
  if (megatron && recompute.granularity == Recompute::Granularity::selective && has_method)
    return wrong("recompute-method", "selective recomputation takes none; drop it, or write full");
  return std::nullopt;
}

}  // namespace

Problem refuse_combinations(const Draft& draft) {
  if (Problem problem = refuse_experts(draft)) return problem;
  if (Problem problem = refuse_recompute(draft)) return problem;
  const std::int64_t sequence =
      std::max({draft.sequence.value_or(0), draft.encoder_sequence.value_or(0), draft.decoder_sequence.value_or(0)});
  if (draft.max_positions.value_or(sequence) < sequence)
    return wrong("max-position-embeddings",
                 fmt::format("{} positions are fewer than the {} of a sequence", *draft.max_positions, sequence));
  const OptimizerState& optimizer = draft.run.optimizer;
  if (optimizer.precision_aware && !optimizer.distributed && !draft.fsdp && !draft.layer_wise)
    return wrong("use-precision-aware-optimizer", "it needs --use-distributed-optimizer");
  return std::nullopt;
}

void note_unused(const Draft& draft, Notes& notes) {
  if (draft.query_groups && !draft.grouped_queries)
    notes.emplace_back("--num-query-groups has no effect without --group-query-attention");
  if (!draft.layout.empty() && !draft.noop_layers.empty())
    notes.emplace_back("--noop-layers has no effect beside --pipeline-model-parallel-layout");
  if (draft.run.recompute.layers > 0 && !draft.granularity_given)
    notes.emplace_back("--recompute-num-layers has no effect without --recompute-granularity");
}

}  // namespace tidemark::estimate
