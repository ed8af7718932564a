#pragma once
// Sizes one rank works with in one micro-batch. Doubles: their products are bytes, exact to 2^53 and never overflowing.

#include "planner/estimate/rank_memory.h"
#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

struct LocalSizes {
  double element_bytes = 2;  ///< of an activation
  double hidden = 0;
  double sequences = 1;       ///< in one forward; a preference loss runs chosen and rejected together
  double keys = 0;            ///< sequence an attention head sees
  double queries = 0;         ///< keys / context parallel
  double tokens = 0;          ///< of a tensor group: queries * sequences
  double shard_tokens = 0;    ///< after sequence parallelism
  double boundary_bytes = 0;  ///< what crosses a layer or pipeline boundary
  double heads = 0;
  double query_width = 0;
  double key_width = 0;  ///< of keys, as wide again of values; at least one group a rank
  double ffn = 0;
  double gate = 1;         ///< 2: the first projection is twice as wide
  double expert_rows = 0;  ///< token rows routed to this rank, imbalance included
  double expert_width = 0;
  double expert_hidden = 0;  ///< latent where experts work on one
  double shared_width = 0;
  double vocabulary = 0;  ///< columns of the output matrix
};

/// Padded vocabulary of the whole model.
[[nodiscard]] std::int64_t padded_vocabulary(const TrainingRun& run);

/// REQUIRES: a run estimate_rank accepts. `sequence`: of the part of the model looked at (t5 has two).
[[nodiscard]] LocalSizes local_sizes(const TrainingRun& run, const MemoryKnobs& knobs, std::int64_t sequence);
[[nodiscard]] LocalSizes local_sizes(const TrainingRun& run, const MemoryKnobs& knobs);

/// Sequence length a batch really has, variable lengths counted at their mean share.
[[nodiscard]] double effective_sequence(const TrainingRun& run, const MemoryKnobs& knobs, std::int64_t sequence);

/// Bytes an element of a quantised tensor takes, with the scales of its blocks.
[[nodiscard]] double quantized_bytes(const Quantization& quantization);
[[nodiscard]] inline bool on_ascend(const TrainingRun& run) {
  return run.platform.accelerator == Accelerator::ascend;
}
/// Sequence parallelism does nothing without tensor parallelism.
[[nodiscard]] inline bool shards_sequence(const TrainingRun& run) {
  return run.parallel.sequence_parallel && run.parallel.tensor > 1;
}
/// Tokens of all ranks of an expert group land on each of them before experts pick theirs.
[[nodiscard]] inline bool gathers_tokens(const TrainingRun& run) {
  return run.model.moe.experts > 0 && run.model.moe.dispatcher == Dispatcher::allgather &&
         run.parallel.expert * run.parallel.expert_tensor > 1;
}

}  // namespace tidemark::estimate
