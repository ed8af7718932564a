#pragma once
// One training job as Megatron-LM, MindSpeed-LLM or torchtitan describes it: the arguments that matter for memory,
// typed, with the frameworks' own defaults. argument_table.h fills it from an argument set; rank_memory.h predicts from
// it. Sizes are elements or counts unless a name ends in _bytes. Argument names in comments are the frameworks' own
// (without --).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tidemark::estimate {

enum class Framework : std::uint8_t { megatron_lm, mindspeed_llm, torchtitan };

/// Hardware generation: workspaces of libraries and the attention kernel chosen by default depend on it.
enum class Accelerator : std::uint8_t { a100, h100, gb200, ascend };

enum class ModelClass : std::uint8_t { gpt, bert, t5, hybrid, multimodal };

enum class Precision : std::uint8_t { fp32, bf16, fp16 };

/// Software and hardware the job runs on: not arguments, but they decide bytes.
struct Platform {
  Framework framework = Framework::megatron_lm;
  Accelerator accelerator = Accelerator::h100;
  /// Software lines of Megatron's own CI: `lts` is the long-term container; `legacy_attention` one whose flash
  /// attention has no deterministic backward (before 2.4.1) and falls back to unfused.
  bool lts = false;
  bool legacy_attention = false;
  bool resumed = false;                      ///< started from a checkpoint: optimizer state exists at iteration 1
  std::int64_t devices = 0;                  ///< world size; 0: not stated (8 where that fits the parallel sizes)
  std::string cublas_workspace_config;       ///< CUBLAS_WORKSPACE_CONFIG; empty: the library's default
  bool allow_nondeterministic = true;        ///< NVTE_ALLOW_NONDETERMINISTIC_ALGO
  bool expandable_segments = false;          ///< PYTORCH_CUDA_ALLOC_CONF / PYTORCH_NPU_ALLOC_CONF
  std::int64_t collective_buffer_bytes = 0;  ///< HCCL_BUFFSIZE (MiB there); 0: default. Outside "allocated"
};

struct Vocabulary {
  std::int64_t padded = 0;      ///< padded-vocab-size: taken as it is
  std::int64_t size = 0;        ///< vocab-size
  std::int64_t extra_ids = 0;   ///< vocab-extra-ids
  std::int64_t multiple = 128;  ///< make-vocab-size-divisible-by
  bool multiple_given = false;
  std::string tokenizer;       ///< tokenizer-type; empty: the framework's default
  std::string tokenizer_path;  ///< tokenizer-model or tokenizer-name-or-path
};

enum class PositionEmbedding : std::uint8_t { learned_absolute, rope, alibi, none };
enum class AttentionBackend : std::uint8_t { automatic, unfused, flash, fused, local };

/// Attention mask of MindSpeed-LLM, booleans. `made` and `loaded`: every micro-batch has its own until its backward is
/// done, and layers keep the last one.
enum class AttentionMask : std::uint8_t {
  compressed,  ///< causal, for a fused kernel: 2048 x 2048, whatever the sequence
  whole,       ///< as long as the sequence, one for all
  made,        ///< made on the device from the padding of instruction data
  loaded,      ///< by the data loader
};

struct Attention {
  std::int64_t heads = 0;
  std::int64_t groups = 0;    ///< query groups; equal to heads without group-query-attention
  std::int64_t head_dim = 0;  ///< kv-channels, or hidden / heads
  bool multi_latent = false;
  std::int64_t q_lora_rank = 0;  ///< 0: no query compression
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_head_dim = 128;
  std::int64_t qk_rope_dim = 64;  ///< qk-pos-emb-head-dim
  std::int64_t v_head_dim = 128;
  bool qk_norm = false;   ///< qk-layernorm
  bool qkv_bias = false;  ///< of its own or with every linear
  double dropout = 0.1;
  AttentionBackend backend = AttentionBackend::automatic;
  bool softmax_fp32 = false;          ///< attention-softmax-in-fp32
  bool masked_softmax_fusion = true;  ///< no-masked-softmax-fusion: false
  bool use_flash = false;             ///< use-flash-attn (MindSpeed's switch for the fused kernel)
  std::int64_t share_factor = 1;      ///< cla-share-factor: only every n-th layer has keys and values of its own
  AttentionMask mask = AttentionMask::compressed;
  bool reset_mask = false;             ///< reset-attention-mask
  bool padded_left = false;            ///< tokenizer-padding-side left
  bool softcapped = false;             ///< MindSpeed attn-logit-softcapping
  bool repeats_keys = false;           ///< grouped keys and values are kept once for every head
  std::int64_t ring = 1;               ///< context ranks that pass keys on: the others exchange heads
  std::int64_t window = 0;             ///< tokens before the query that it attends to; 0: all. Decides time alone
  bool skips_windows = false;          ///< some layers attend to all
  bool v_without_padding = false;      ///< mla-fa-without-pad
  bool heads_first = false;            ///< MindSpeed shape-order BNSD: of latent attention only values are padded
  std::int64_t padded_multiple = 128;  ///< padded-base-length: of other orders, of queries and keys as well
  bool mask_on_host = false;           ///< MindSpeed attention-mask-on-cpu
  /// Keys and values of other context ranks kept for backward, in copies of a layer's own, the mean of all layers:
  /// MindSpeed context-parallel-kv-cache-policy.
  double cached_keys = 0;
  double cached_values = 0;
};

enum class Dispatcher : std::uint8_t { allgather, alltoall, flex };
enum class ZeroMemory : std::uint8_t { off, level0, level1 };

struct Experts {
  std::int64_t experts = 0;  ///< 0: dense model
  std::int64_t top_k = 2;
  std::int64_t width = 0;         ///< of one expert
  std::int64_t shared_width = 0;  ///< of all shared experts together
  bool shared_gate = false;
  std::int64_t latent = 0;  ///< moe-latent-size; 0: experts work on the hidden width
  bool grouped_gemm = false;
  bool legacy_grouped_gemm = false;  ///< moe-use-legacy-grouped-gemm: CUTLASS, not Transformer Engine
  Dispatcher dispatcher = Dispatcher::allgather;
  double capacity_factor = 0;  ///< 0: dropless
  bool pad_to_capacity = false;
  bool forced_balance = false;  ///< moe-router-force-load-balancing
  bool permute_fusion = false;
  bool fused_weighted_squared_relu = false;
  bool allgather_overlap = false;  ///< moe-allgather-overlap-comm
  ZeroMemory zero_memory = ZeroMemory::off;
  std::optional<std::int64_t> zero_memory_layers;
  /// Per decoder layer of the whole model: has experts. Size: layers.
  std::vector<bool> is_moe;
};

/// State-space layers of a hybrid model.
struct Mamba {
  std::int64_t heads = 0;  ///< 0: 2 * hidden / head_dim
  std::int64_t head_dim = 64;
  std::int64_t state_dim = 128;
  std::int64_t groups = 8;
};

enum class Norm : std::uint8_t { layer_norm, rms_norm };

struct Model {
  ModelClass kind = ModelClass::gpt;
  Norm norm = Norm::layer_norm;
  PositionEmbedding positions = PositionEmbedding::learned_absolute;
  bool gated = false;             ///< swiglu or geglu: the first projection is twice as wide
  bool unfused_gate = false;      ///< of swiglu: no kernel does the activation and the product at once
  bool unfused_rope = false;      ///< of MindSpeed without use-fused-rotary-pos-emb: nothing of it is kept
  bool unfused_norm = false;      ///< RMSNorm of MindSpeed without use-fused-rmsnorm: fp32 copies are kept
  bool variable_lengths = false;  ///< batches padded to their longest sample (no-pad-to-seq-lengths)
  bool output_norms = false;      ///< post-norm / sandwich-norm
  bool linear_bias = true;
  bool tied_embedding = true;
  bool mtp_repeated = false;            ///< mtp-use-repeated-layer
  bool transformer_impl_local = false;  ///< transformer-impl or spec local: not Transformer Engine
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;               ///< dense feed-forward width
  std::int64_t layers = 0;            ///< decoder layers
  std::int64_t encoder_layers = 0;    ///< t5
  std::int64_t sequence = 0;          ///< t5: of the encoder
  std::int64_t decoder_sequence = 0;  ///< t5
  std::int64_t max_positions = 0;
  std::int64_t mtp_layers = 0;
  double hidden_dropout = 0.1;
  std::string hybrid_pattern;  ///< M * - E, `|` between stages, `/` before each MTP depth
  Vocabulary vocabulary;
  Attention attention;
  Experts moe;
  Mamba mamba;
};

/// Decoder layers of one chunk on one pipeline rank.
struct Chunk {
  std::vector<std::int64_t> layers;  ///< ids from 0; no-op layers left out
  bool embedding = false;
  bool loss = false;
  std::int64_t mtp = 0;  ///< MTP depths
};

enum class Schedule : std::uint8_t { one_f_one_b, dualpipev };

struct Parallel {
  std::int64_t tensor = 1;
  bool sequence_parallel = false;  ///< only with tensor > 1
  std::int64_t pipeline = 1;
  std::int64_t virtual_pipeline = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;
  std::int64_t data = 1;                 ///< world / (tensor * pipeline * context)
  std::int64_t expert_data = 1;          ///< world / (expert_tensor * expert * pipeline)
  std::int64_t optimizer_instances = 1;  ///< num-distributed-optimizer-instances
  std::int64_t world = 1;
  Schedule schedule = Schedule::one_f_one_b;
  bool pipeline_inside_data = false;          ///< use-tp-pp-dp-mapping: ranks of a stage are not consecutive
  std::int64_t micro_batch_group = 0;         ///< microbatch-group-size-per-virtual-pipeline-stage; 0: pipeline
  bool overlap_forward_backward = false;      ///< moe-fb-overlap
  bool overlap_expert_communication = false;  ///< overlap-moe-expert-parallel-comm
  /// chunks[pipeline rank][virtual stage]; empty for t5 and hybrid models.
  std::vector<std::vector<Chunk>> chunks;
};

struct Batch {
  std::int64_t micro = 1;  ///< sequences as given; Loss::preference runs twice as many in one forward
  std::int64_t global = 1;
  std::int64_t micro_batches = 1;  ///< a step and pipeline
};

enum class Optimizer : std::uint8_t { adam, sgd, muon };  ///< sgd: any with one moment, lion too

struct OptimizerState {
  Optimizer kind = Optimizer::adam;
  bool distributed = false;
  bool fsdp = false;               ///< use-megatron-fsdp: parameters, gradients and state sharded
  bool sharded_gradients = false;  ///< data-parallel-sharding-strategy optim_grads: like fsdp, less the parameters
  bool precision_aware = false;
  std::int64_t main_bytes = 4;  ///< main-params-dtype
  std::int64_t exp_avg_bytes = 4;
  std::int64_t exp_avg_sq_bytes = 4;
  double host_share = 0;        ///< optimizer-cpu-offload: share of the state in host memory, 0..1
  bool gradient_16bit = false;  ///< fp16, grad-reduce-in-bf16 or a 16-bit type of the main gradients
  bool overlap_grad_reduce = false;
  std::int64_t bucket_elements = 0;   ///< ddp-bucket-size; 0: the framework's rule
  std::int64_t buckets = 0;           ///< ddp-num-buckets; 0: by size
  bool gradient_fusion = true;        ///< no-gradient-accumulation-fusion: false (CUDA)
  bool npu_gradient_fusion = false;   ///< gemm-gradient-accumulation-fusion (MindSpeed)
  bool reuse_fp32_parameter = false;  ///< MindSpeed reuse-fp32-param
  bool moments_16bit = false;         ///< MindSpeed o2-optimizer (needs reuse)
  bool on_host = false;               ///< MindSpeed swap-optimizer
  std::int64_t swap_times = 16;       ///< swap-optimizer-times: parts the state comes back in, step by step
  bool frozen_reference = false;      ///< DPO: a second, frozen model
};

struct Quantization {
  bool used = false;          ///< fp8-format or fp4-format
  bool four_bit = false;      ///< fp4-format: half a byte, and an 8-bit scale for every 16 elements
  bool both_layouts = false;  ///< blockwise, mxfp8
  bool parameters = false;    ///< fp8-param-gather
};

struct Recompute {
  enum class Granularity : std::uint8_t { none, selective, full };
  enum class Method : std::uint8_t { unset, uniform, block };
  Granularity granularity = Granularity::none;
  Method method = Method::unset;
  std::int64_t layers = 0;  ///< recompute-num-layers
  std::vector<std::string>
      modules;                   ///< selective: core_attn, mlp, moe, moe_act, layernorm, mla_up_proj, shared_experts
  bool layers_per_rank = false;  ///< enable-recompute-layers-per-pp-rank: counted over all chunks of a rank
  bool in_advance = false;       ///< recompute-in-advance
  bool activation_function = false;  ///< recompute-activation-function
  std::optional<std::int64_t> activation_function_layers;
  bool norms = false;  ///< recompute-norm
  std::optional<std::int64_t> norm_layers;
  bool mla_up_projection = false;  ///< MindSpeed recompute-mla-up-proj: queries, keys and values are rebuilt
  bool mla_attention = false;      ///< MindSpeed mla-zero-memory: all between the norm and the output projection
};

struct Offload {
  std::vector<std::string> modules;  ///< fine-grained-activation-offloading with offload-modules; empty: off
  double share = 1;                  ///< activation-offload-fraction: of the groups that could go
  bool attention = false;            ///< MindSpeed swap-attention
  bool attention_output = false;     ///< MindSpeed mla-swap-core-attn-out
};

struct Loss {
  bool fused = false;                        ///< cross-entropy-loss-fusion
  bool fused_by_te = false;                  ///< cross-entropy-fusion-impl te
  bool deferred_embedding_gradient = false;  ///< defer-embedding-wgrad-compute
  std::int64_t deferral_limit = 0;           ///< wgrad-deferral-limit; 0: every micro-batch
  std::int64_t output_slices = 1;            ///< output-layer-slice-num
  bool softcapped = false;                   ///< MindSpeed output-logit-softcapping
  bool cautious_copy = false;                ///< one more fp32 copy of the logits: error_band.h, cautious
  bool in_16bit_logits = false;              ///< MindSpeed mtp-mem-efficient-logits: no fp32 copy, also without MTP
  std::int64_t chunk_tokens = 0;             ///< loss-chunk-size with loss-compute-mode chunk; 0: the loss is whole
  bool preference = false;                   ///< DPO: chosen and rejected in one forward: twice Batch::micro sequences
};

/// What torchtitan decides beside the model and the degrees of parallelism: PyTorch FSDP2 with fp32 master weights.
struct Fsdp2 {
  /// activation_checkpoint.mode and selective_ac_option.
  enum class Checkpoint : std::uint8_t { none, nth_layer, every_second_product, full };
  Checkpoint checkpoint = Checkpoint::nth_layer;
  std::int64_t nth = 2;           ///< nth_layer: every n-th layer is recomputed whole
  bool compiled_loss = false;     ///< the loss is one compiled graph: no fp32 logits in memory
  bool loss_parallel = true;      ///< with tensor > 1 each tensor rank keeps its columns of the logits
  bool keeps_gathered = false;    ///< weights are kept gathered from forward to backward
  std::int64_t reduce_bytes = 4;  ///< mixed_precision_reduce
};

struct TrainingRun {
  Platform platform;
  Model model;
  Parallel parallel;
  Batch batch;
  Precision precision = Precision::fp32;
  OptimizerState optimizer;
  Quantization quantization;
  Recompute recompute;
  Offload offload;
  Loss loss;
  Fsdp2 fsdp2;                 ///< of torchtitan only
  bool deterministic = false;  ///< deterministic-mode
  bool fused_coc = false;      ///< MindSpeed use-ascend-coc
};

}  // namespace tidemark::estimate
