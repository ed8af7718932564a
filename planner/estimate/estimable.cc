#include "planner/estimate/estimable.h"

#include <algorithm>
#include <string_view>

#include "planner/estimate/hybrid.h"
#include "planner/estimate/local_sizes.h"

namespace tidemark::estimate {
namespace {

/// One size with the least and most that make sense: products of sizes within these stay inside 64 bits.
struct Range {
  std::string_view name;
  std::int64_t value = 0;
  std::int64_t least = 0;
  std::int64_t most = 0;
};

Status check_ranges(const std::vector<Range>& ranges) {
  for (const Range& range : ranges) {
    if (range.value >= range.least && range.value <= range.most) continue;
    return bad_input(std::string(range.name) + " is " + std::to_string(range.value) + ", not from " +
                     std::to_string(range.least) + " to " + std::to_string(range.most));
  }
  return {};
}

Status check_model(const TrainingRun& run) {
  const Model& model = run.model;
  const Attention& attention = model.attention;
  constexpr std::int64_t kWidth = 1 << 20;
  return check_ranges({
      {"hidden-size", model.hidden, 1, kWidth},
      {"ffn-hidden-size", model.ffn, 0, kWidth},
      {"num-layers", model.layers, model.kind == ModelClass::hybrid ? 0 : 1, 1 << 14},
      {"encoder-num-layers", model.encoder_layers, 0, 1 << 14},
      {"seq-length", model.sequence, 1, 1 << 26},
      {"decoder-seq-length", model.decoder_sequence, model.kind == ModelClass::t5 ? 1 : 0, 1 << 26},
      {"max-position-embeddings", model.max_positions, 0, 1 << 30},
      {"mtp-num-layers", model.mtp_layers, 0, 1 << 10},
      {"num-attention-heads", attention.heads, 1, 1 << 14},
      {"num-query-groups", attention.groups, 1, 1 << 14},
      {"kv-channels", attention.head_dim, 1, 1 << 16},
      {"q-lora-rank", attention.q_lora_rank, 0, kWidth},
      {"kv-lora-rank", attention.kv_lora_rank, attention.multi_latent ? 1 : 0, kWidth},
      {"qk-head-dim", attention.qk_head_dim, 0, 1 << 16},
      {"qk-pos-emb-head-dim", attention.qk_rope_dim, 0, 1 << 16},
      {"v-head-dim", attention.v_head_dim, 0, 1 << 16},
      {"num-experts", model.moe.experts, 0, 1 << 14},
      {"moe-router-topk", model.moe.top_k, 0, 1 << 14},
      {"moe-ffn-hidden-size", model.moe.width, 0, kWidth},
      {"moe-shared-expert-intermediate-size", model.moe.shared_width, 0, kWidth},
      {"moe-latent-size", model.moe.latent, 0, kWidth},
      {"padded-vocab-size", padded_vocabulary(run), 1, 1 << 24},
      {"mamba-head-dim", model.mamba.head_dim, 1, 1 << 16},
      {"mamba-num-heads", model.mamba.heads, 0, 1 << 14},
      {"mamba-state-dim", model.mamba.state_dim, 0, 1 << 16},
      {"mamba-num-groups", model.mamba.groups, 0, 1 << 14},
  });
}

Status check_parallel(const TrainingRun& run) {
  const Parallel& parallel = run.parallel;
  constexpr std::int64_t kRanks = 1 << 20;
  return check_ranges({
      {"tensor-model-parallel-size", parallel.tensor, 1, kRanks},
      {"pipeline-model-parallel-size", parallel.pipeline, 1, kRanks},
      {"context-parallel-size", parallel.context, 1, kRanks},
      {"expert-model-parallel-size", parallel.expert, 1, kRanks},
      {"expert-tensor-parallel-size", parallel.expert_tensor, 1, kRanks},
      {"data-parallel size", parallel.data, 1, kRanks},
      {"expert data-parallel size", parallel.expert_data, 1, kRanks},
      {"world size", parallel.world, 1, 1 << 24},
      {"micro-batch-size", run.batch.micro, 1, 1 << 20},
      {"number of micro-batches", run.batch.micro_batches, 1, 1 << 24},
      {"make-vocab-size-divisible-by", run.model.vocabulary.multiple, 1, 1 << 20},
      {"vocab-size", run.model.vocabulary.size, 0, 1 << 24},
      {"vocab-extra-ids", run.model.vocabulary.extra_ids, 0, 1 << 24},
      {"padded-vocab-size", run.model.vocabulary.padded, 0, 1 << 24},
  });
}

Status check_chunks(const TrainingRun& run) {
  const auto& stages = run.parallel.chunks;
  if (stages.size() != static_cast<std::size_t>(run.parallel.pipeline))
    return bad_input("the pipeline layout has " + std::to_string(stages.size()) + " stages, not " +
                     std::to_string(run.parallel.pipeline));
  for (const std::vector<Chunk>& chunks : stages) {
    if (chunks.empty()) return bad_input("a pipeline rank has no layers");
    if (run.parallel.schedule == Schedule::dualpipev && chunks.size() != 2)
      return bad_input("dualpipev needs two chunks on every pipeline rank");
    for (const Chunk& chunk : chunks)
      for (const std::int64_t layer : chunk.layers)
        if (layer < 0 || layer >= run.model.layers)
          return bad_input("the pipeline layout names layer " + std::to_string(layer) + " of " +
                           std::to_string(run.model.layers));
  }
  return {};
}

Status check_hybrid(const TrainingRun& run) {
  const HybridPattern pattern = hybrid_pattern(run);
  for (const std::vector<std::string>* parts : {&pattern.chunks, &pattern.depths})
    for (const std::string& letters : *parts)
      for (const char letter : letters)
        if (!hybrid_letter_known(letter))
          return bad_input(std::string("hybrid-layer-pattern has '") + letter + "', not one of M * - E");
  if (pattern.chunks.size() % static_cast<std::size_t>(run.parallel.pipeline) != 0)
    return bad_input("hybrid-layer-pattern has " + std::to_string(pattern.chunks.size()) +
                     " stages, not a multiple of " + std::to_string(run.parallel.pipeline));
  return {};
}

}  // namespace

Status check_estimable(const TrainingRun& run) {
  const ModelClass kind = run.model.kind;
  if (kind == ModelClass::multimodal) return bad_input("memory of a multimodal model is not modelled");
  if (Status status = check_parallel(run); !status) return status;
  if (Status status = check_model(run); !status) return status;
  if (on_ascend(run) && (kind == ModelClass::t5 || kind == ModelClass::hybrid))
    return bad_input("memory of this kind of model on Ascend is not modelled");
  if (kind == ModelClass::t5 && run.parallel.pipeline > 1)
    return bad_input("memory of an encoder-decoder model with pipeline parallelism is not modelled");
  if (kind == ModelClass::hybrid) return check_hybrid(run);
  return kind == ModelClass::t5 ? Status{} : check_chunks(run);
}

}  // namespace tidemark::estimate
