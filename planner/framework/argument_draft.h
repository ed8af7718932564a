#pragma once
// A TrainingRun being filled: what arguments said so far, before what the frameworks derive from several of them.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/framework/training_run.h"

namespace tidemark::framework {

/// Setters of arguments write here and nothing else, so their order does not matter.
struct Draft {
  TrainingRun run;

  // Sizes with a default made of others.
  std::optional<std::int64_t> layers, encoder_layers, decoder_layers;
  std::optional<std::int64_t> sequence, encoder_sequence, decoder_sequence;
  std::optional<std::int64_t> max_positions;
  std::optional<std::int64_t> ffn, query_groups, kv_channels;
  std::optional<std::int64_t> expert_width, expert_tensor, shared_width, shared_experts;
  std::optional<std::int64_t> kv_lora_rank;
  std::optional<std::int64_t> micro_batch, global_batch;
  std::optional<std::int64_t> nodes, devices_per_node;
  bool grouped_queries = false;
  bool rotary = false;        ///< use-rotary-position-embeddings
  bool no_positions = false;  ///< no-position-embedding
  std::optional<PositionEmbedding> positions;
  bool qkv_bias = false;
  bool tensor_extends_expert = false;  ///< moe-tp-extend-ep
  bool packed_samples = false;         ///< neat-pack
  bool unpadded_samples = false;       ///< no-pad-to-seq-lengths
  bool general_mask = false;
  bool reset_mask = false;
  bool image = false;
  std::string spec;

  // Experts by layer.
  std::string moe_pattern;  ///< moe-layer-freq: a number or a list expression
  std::optional<std::int64_t> first_dense;
  bool refuses_local_spec = false;

  // Pipeline.
  std::string layout;
  std::string layer_list;
  std::string noop_layers;
  std::optional<std::int64_t> first_stage_layers, last_stage_layers;
  std::optional<std::int64_t> layers_per_virtual_stage, virtual_stages, schedule_group;
  bool embedding_counts = false;  ///< account-for-embedding-in-pipeline-split
  bool loss_counts = false;       ///< account-for-loss-in-pipeline-split

  // Precision and optimizer.
  bool bf16 = false;
  bool fp16 = false;
  bool reduce_in_bf16 = false;
  bool fsdp = false;
  std::string sharding;  ///< data-parallel-sharding-strategy
  bool offload_optimizer = false;
  double offload_share = 1;
  std::string fp8_recipe;
  bool quantized = false;

  // Recompute, offload, loss.
  bool recompute_activations = false;
  bool recompute_moe = false;
  bool granularity_given = false;
  bool offload_activations = false;
  std::vector<std::string> offload_modules;
  bool fused_loss = false;
  bool loss_by_te = false;
};

}  // namespace tidemark::framework
