#pragma once
// A TrainingRun being filled: what arguments said so far, before what the frameworks derive from several of them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

/// Setters of arguments write here and nothing else, so their order does not matter.
struct Draft {
  TrainingRun run;
  std::string_view doubt;  ///< set by a setter: why the value it took is not modelled in full

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
  bool whole_mask = false;        ///< use-fusion-attn-v2: its kernel takes no compressed mask
  bool reset_positions = false;   ///< reset-position-ids
  bool instruction = false;       ///< is-instruction-dataset or is-pairwise-dataset
  bool variable_lengths = false;  ///< variable-seq-lengths
  bool repeats_keys = false;      ///< kv-head-repeat-before-uly-alltoall
  bool fused_norm = false;        ///< use-fused-rmsnorm
  bool fused_rope = false;        ///< use-fused-rotary-pos-emb
  bool image = false;
  std::string spec;
  bool swiglu = false;
  bool gate_fusion = true;                       ///< no-bias-swiglu-fusion: false
  bool fused_gate = false;                       ///< MindSpeed use-fused-swiglu
  std::string kv_cache;                          ///< context-parallel-kv-cache-policy: full or half
  std::int64_t kv_cache_gap = 0;                 ///< context-parallel-cache-interval: layers without between those with
  std::string context_algorithm;                 ///< context-parallel-algo
  std::int64_t ulysses = 1;                      ///< ulysses-degree-in-cp, of hybrid algorithms
  bool gathers_keys = false;                     ///< use-ulysses-allgather-kv
  std::optional<std::int64_t> evaluation_batch;  ///< eval-micro-batch-size

  // Experts by layer.
  std::string moe_pattern;  ///< moe-layer-freq: a number or a list expression
  std::optional<std::int64_t> first_dense;
  bool refuses_local_spec = false;

  // Pipeline.
  std::string layout;
  std::string layer_list;
  std::string noop_layers;
  std::optional<std::int64_t> first_stage_layers, last_stage_layers;
  std::optional<std::int64_t> layers_per_virtual_stage, virtual_stages;
  bool recorded = false;          ///< RunHints::recorded
  bool embedding_counts = false;  ///< account-for-embedding-in-pipeline-split
  bool loss_counts = false;       ///< account-for-loss-in-pipeline-split

  // Precision and optimizer.
  bool bf16 = false;
  bool fp16 = false;
  bool reduce_in_bf16 = false;
  bool accumulate_in_fp32 = false;       ///< accumulate-allreduce-grads-in-fp32
  std::int64_t main_gradient_bytes = 4;  ///< main-grads-dtype
  std::int64_t fsdp_gradient_bytes = 0;  ///< megatron-fsdp-main-grads-dtype; 0: not given
  bool layer_wise = false;               ///< dist_muon: sharded by layers without asking
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
  bool chunked_loss = false;       ///< loss-compute-mode chunk
  std::int64_t loss_chunk = 1024;  ///< loss-chunk-size
  bool fused_loss = false;
  bool loss_by_te = false;
};

}  // namespace tidemark::estimate
