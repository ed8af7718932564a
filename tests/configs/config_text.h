#pragma once
// Small configurations as the three frameworks write them, and what tests look for in a run that was read.

#include <algorithm>
#include <string>
#include <string_view>

#include "core/result.h"
#include "integrations/configs/read_config.h"

namespace tidemark::testing {

inline constexpr std::string_view kBridgeText = R"(_target_: megatron.bridge.training.config.ConfigContainer
checkpoint:
  _target_: megatron.bridge.training.config.CheckpointConfig
  save: /results
  async_save: false
comm_overlap: null
dataset:
  _target_: megatron.bridge.training.config.GPTDatasetConfig
  sequence_length: 4096
  split: 9999,8,2
ddp:
  _target_: megatron.core.distributed.distributed_data_parallel_config.DistributedDataParallelConfig
  bucket_size: null
  data_parallel_sharding_strategy: no_shard
  grad_reduce_in_fp32: false
  overlap_grad_reduce: true
  use_distributed_optimizer: false
  use_megatron_fsdp: false
dist:
  use_torch_fsdp2: false
  use_tp_pp_dp_mapping: false
mixed_precision:
  bf16: true
  fp16: false
  fp8: null
  fp8_recipe: tensorwise
  grad_reduce_in_fp32: false
model:
  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
  activation_func:
    _call_: false
    _target_: torch.nn.functional.silu
  add_bias_linear: false
  attention_backend:
    _args_:
    - 1
    _call_: true
    _name_: flash
    _target_: megatron.core.transformer.enums.AttnBackend
  attention_dropout: 0.0
  bias_activation_fusion: true
  cuda_graph_impl: none
  cuda_graph_scope: full
  ffn_hidden_size: 14336
  gated_linear_unit: true
  hidden_dropout: 0.0
  hidden_size: 4096
  kv_channels: 128
  linear_num_key_heads: 16
  moe_layer_freq: 1
  normalization: RMSNorm
  num_attention_heads: 32
  num_layers: 32
  num_moe_experts: null
  num_query_groups: 8
  pipeline_model_parallel_layout: null
  pipeline_model_parallel_size: 2
  position_embedding_type: rope
  recompute_granularity: full
  recompute_method: uniform
  recompute_num_layers: 1
  seq_length: 4096
  sequence_parallel: true
  share_embeddings_and_output_weights: false
  should_pad_vocab: true
  make_vocab_size_divisible_by: 128
  tensor_model_parallel_size: 4
  vocab_size: 128256
optimizer:
  _target_: megatron.bridge.training.config.OptimizerConfig
  exp_avg_dtype:
    _call_: false
    _target_: torch.float32
  optimizer: adam
  use_distributed_optimizer: true
  use_precision_aware_optimizer: false
peft: null
scheduler:
  lr_decay_style: cosine
tokenizer:
  tokenizer_type: NullTokenizer
  vocab_size: 32000
train:
  global_batch_size: 128
  micro_batch_size: 2
  train_iters: 50
)";

inline constexpr std::string_view kTitanText = R"(# eight devices
[job]
dump_folder = "./outputs"

[model]
name = "llama3"
flavor = "8B"
hf_assets_path = "./assets/hf/Llama-3.1-8B"
# converters = ["float8"]

[optimizer]
name = "AdamW"
lr = 3e-4

[training]
local_batch_size = 2
seq_len = 8192
steps = 1000

[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = 8
tensor_parallel_degree = 1

[checkpoint]
enable = false

[compile]
enable = true
components = ["model", "loss"]

[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
)";

inline constexpr std::string_view kMindformersText = R"(seed: 0
run_mode: 'train'
use_parallel: True
trainer:
  type: CausalLanguageModelingTrainer
runner_config:
  epochs: 2
  batch_size: 1
optimizer:
  type: AdamW
  eps: 1.e-8
parallel_config:
  data_parallel: &dp 4
  model_parallel: 2
  pipeline_stage: 4
  expert_parallel: 8
  micro_batch_num: 16
  use_seq_parallel: True
  gradient_aggregation_group: 4
parallel:
  enable_parallel_optimizer: True
  dataset_strategy: [[*dp, 1], [*dp, 1]]
recompute_config:
  recompute: [2, 2, 2, 2]
  select_recompute: False
  mp_comm_recompute: True
model:
  model_config:
    type: DeepseekV3Config
    seq_length: 4096
    hidden_size: 2048
    num_layers: 12
    num_heads: 32
    intermediate_size: 8192
    kv_lora_rank: 512
    q_lora_rank: 1536
    qk_rope_head_dim: 64
    qk_nope_head_dim: 128
    v_head_dim: 128
    vocab_size: 129280
    compute_dtype: "bfloat16"
    param_init_type: "float32"
    offset: [1, 0, 0, -1]
    mtp_depth: 1
  arch:
    type: DeepseekV3ForCausalLM
moe_config:
  expert_num: 64
  num_experts_chosen: 8
  shared_expert_num: 1
  moe_intermediate_size: 1024
  first_k_dense_replace: 3
  use_gmm: True
callbacks:
  - type: MFLossMonitor
)";

/// `text` with the first `from` replaced by `to`; a test whose `from` is not there has nothing to say.
inline std::string with(std::string_view text, std::string_view from, std::string_view to) {
  std::string changed(text);
  const std::size_t at = changed.find(from);
  if (at == std::string::npos) return "no such text: " + std::string(from);
  return changed.replace(at, from.size(), to);
}

/// What was made of a key, or nullptr.
inline const estimate::JudgedArgument* judged(const estimate::ImportedRun& run, std::string_view key) {
  const auto found = std::ranges::find(run.judged, key, &estimate::JudgedArgument::key);
  return found == run.judged.end() ? nullptr : &*found;
}

/// Keys that were not understood, in the order of the file.
inline std::vector<std::string> not_understood(const estimate::ImportedRun& run) {
  std::vector<std::string> keys;
  for (const estimate::JudgedArgument& one : run.judged)
    if (one.standing == estimate::Standing::not_understood) keys.push_back(one.key);
  return keys;
}

inline Result<estimate::ImportedRun> read(std::string_view text, std::string_view file, std::int64_t devices = 0) {
  estimate::RunHints hints;
  hints.platform.devices = devices;
  return configs::read_config(text, file, hints);
}

}  // namespace tidemark::testing
