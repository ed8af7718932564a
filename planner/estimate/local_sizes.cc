#include "planner/estimate/local_sizes.h"

#include <algorithm>
#include <cmath>

namespace tidemark::estimate {
namespace {

double number(std::int64_t value) {
  return static_cast<double>(value);
}

/// Rows of this rank over an even share.
double routing_load(const TrainingRun& run, const MemoryKnobs& knobs) {
  const Experts& moe = run.model.moe;
  double dropless = knobs.routing_load;
  if (moe.forced_balance || run.parallel.expert == 1) dropless = 1;
  if (moe.capacity_factor <= 0) return dropless;
  return moe.pad_to_capacity ? moe.capacity_factor : std::min(moe.capacity_factor, dropless);
}

}  // namespace

double quantized_bytes(const Quantization& quantization) {
  return quantization.four_bit ? 0.5 + 1.0 / 16 : 1;
}

std::int64_t padded_vocabulary(const TrainingRun& run) {
  const Vocabulary& vocabulary = run.model.vocabulary;
  if (vocabulary.padded > 0) return vocabulary.padded;
  const std::int64_t multiple = std::max<std::int64_t>(1, vocabulary.multiple * run.parallel.tensor);
  return (vocabulary.size + vocabulary.extra_ids + multiple - 1) / multiple * multiple;
}

double effective_sequence(const TrainingRun& run, const MemoryKnobs& knobs, std::int64_t sequence) {
  if (!run.model.variable_lengths) return number(sequence);
  return std::max(1.0, std::floor(number(sequence) * knobs.variable_length_share));
}

LocalSizes local_sizes(const TrainingRun& run, const MemoryKnobs& knobs, std::int64_t sequence) {
  const Model& model = run.model;
  const double tensor = number(run.parallel.tensor);
  LocalSizes sizes;
  sizes.element_bytes = run.precision == Precision::fp32 ? 4 : 2;
  sizes.hidden = number(model.hidden);
  sizes.sequences = number(run.batch.micro) * (run.loss.preference ? 2 : 1);
  sizes.keys = effective_sequence(run, knobs, sequence);
  sizes.queries = sizes.keys / number(run.parallel.context);
  sizes.tokens = sizes.queries * sizes.sequences;
  sizes.shard_tokens = shards_sequence(run) ? sizes.tokens / tensor : sizes.tokens;
  sizes.boundary_bytes = sizes.shard_tokens * sizes.hidden * sizes.element_bytes;
  sizes.heads = number(model.attention.heads) / tensor;
  sizes.query_width = sizes.heads * number(model.attention.head_dim);
  sizes.key_width = std::max(number(model.attention.groups) / tensor, 1.0) * number(model.attention.head_dim);
  sizes.ffn = number(model.ffn) / tensor;
  sizes.gate = model.gated ? 2 : 1;
  const double expert_tensor = number(run.parallel.expert_tensor);
  sizes.expert_rows = sizes.shard_tokens * number(model.moe.top_k) * expert_tensor * routing_load(run, knobs);
  sizes.expert_width = number(model.moe.width) / expert_tensor;
  sizes.expert_hidden = number(model.moe.latent > 0 ? model.moe.latent : model.hidden);
  sizes.shared_width = number(model.moe.shared_width) / tensor;
  sizes.vocabulary = number(padded_vocabulary(run)) / tensor;
  return sizes;
}

LocalSizes local_sizes(const TrainingRun& run, const MemoryKnobs& knobs) {
  return local_sizes(run, knobs, run.model.sequence);
}

}  // namespace tidemark::estimate
