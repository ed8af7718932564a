#include "planner/estimate/run_derive.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "planner/estimate/run_layout.h"
#include "planner/estimate/run_vocabulary.h"

namespace tidemark::estimate {
namespace {

constexpr std::int64_t kAssumedDevices = 8;
constexpr std::int64_t kMostDevices = std::int64_t{1} << 24;

Problem wrong(std::string argument, std::string message) {
  return RunProblem{std::move(argument), std::move(message)};
}
Problem missing(std::string argument) {
  return RunProblem{std::move(argument), "it is not given, and nothing else says it", true};
}

bool is_ascend(const Draft& draft) {
  return draft.run.platform.framework == Framework::mindspeed_llm;
}

// ---- model --------------------------------------------------------------------------------------------------------

Problem derive_kind(Draft& draft, const RunHints& hints) {
  Model& model = draft.run.model;
  const bool state_space =
      draft.spec.find("mamba") != std::string::npos || draft.spec.find("hybrid") != std::string::npos;
  if (state_space && (model.hybrid_pattern.empty() || is_ascend(draft)))
    return wrong("spec", is_ascend(draft) ? "state-space models of MindSpeed-LLM are not modelled"
                                          : "a state-space model needs --hybrid-layer-pattern to be modelled");
  model.transformer_impl_local |= draft.spec == "local";
  if (!model.hybrid_pattern.empty()) {
    model.kind = ModelClass::hybrid;
  } else if (hints.bert) {
    model.kind = ModelClass::bert;
  } else if (hints.t5 || draft.decoder_sequence || (draft.encoder_layers.value_or(0) > 0 && draft.decoder_layers)) {
    model.kind = ModelClass::t5;
  }
  return std::nullopt;
}

Problem derive_lengths(Draft& draft) {
  Model& model = draft.run.model;
  const bool t5 = model.kind == ModelClass::t5;
  const auto sequence = t5 && draft.encoder_sequence ? draft.encoder_sequence
                        : draft.sequence             ? draft.sequence
                                                     : draft.encoder_sequence;
  if (!sequence) return missing("seq-length");
  model.sequence = *sequence;
  // Packed samples fill the sequence. Beside pretraining data variable-seq-lengths only says how stages talk.
  const bool packed = draft.packed_samples || draft.reset_positions;
  const bool unpadded = draft.unpadded_samples || (draft.variable_lengths && draft.instruction);
  model.variable_lengths = unpadded && !packed;
  model.max_positions = draft.max_positions.value_or(model.sequence);
  if (!t5) {
    if (model.kind == ModelClass::hybrid) return std::nullopt;
    const auto layers = draft.layers ? draft.layers : draft.encoder_layers;
    if (!layers || *layers < 1) return missing("num-layers");
    model.layers = *layers;
    return std::nullopt;
  }
  if (!draft.decoder_sequence) return missing("decoder-seq-length");
  model.decoder_sequence = *draft.decoder_sequence;
  const auto encoder = draft.encoder_layers.value_or(0) > 0 ? draft.encoder_layers : draft.layers;
  if (!encoder) return missing("encoder-num-layers");
  model.encoder_layers = *encoder;
  model.layers = draft.decoder_layers.value_or(model.encoder_layers);
  return std::nullopt;
}

Problem derive_attention(Draft& draft) {
  Attention& attention = draft.run.model.attention;
  if (attention.heads == 0) return missing("num-attention-heads");
  attention.groups = draft.grouped_queries ? draft.query_groups.value_or(1) : attention.heads;
  attention.kv_lora_rank = draft.kv_lora_rank.value_or(attention.multi_latent ? 32 : 0);
  attention.qkv_bias = draft.run.model.linear_bias || draft.qkv_bias;
  // mindspeed_llm/training/arguments.py: context parallelism turns the fused kernel on.
  attention.use_flash |= is_ascend(draft) && draft.run.parallel.context > 1;
  if (attention.groups > attention.heads || attention.heads % attention.groups != 0)
    return wrong("num-query-groups",
                 fmt::format("{} does not divide the {} attention heads", attention.groups, attention.heads));
  if (draft.kv_channels) {
    attention.head_dim = *draft.kv_channels;
  } else if (draft.run.model.hidden % attention.heads != 0 && !attention.multi_latent) {
    return wrong("num-attention-heads", fmt::format("{} does not divide hidden size {}; or give --kv-channels",
                                                    attention.heads, draft.run.model.hidden));
  } else {
    attention.head_dim = std::max<std::int64_t>(1, draft.run.model.hidden / attention.heads);
  }
  return std::nullopt;
}

Problem derive_widths(Draft& draft) {
  Model& model = draft.run.model;
  // A gated layer is two thirds as wide, so that it has as many parameters, rounded down to 64.
  model.ffn = draft.ffn.value_or(model.gated ? model.hidden * 8 / 192 * 64 : model.hidden * 4);
  if (model.ffn == 0)
    return wrong("ffn-hidden-size", fmt::format("hidden size {} leaves it at 0; give it", model.hidden));
  model.positions = draft.positions.value_or(draft.rotary         ? PositionEmbedding::rope
                                             : draft.no_positions ? PositionEmbedding::none
                                                                  : PositionEmbedding::learned_absolute);
  Experts& moe = model.moe;
  moe.width = draft.expert_width.value_or(model.ffn);
  moe.shared_width = draft.shared_width.value_or(0);
  if (moe.shared_width == 0) moe.shared_width = draft.shared_experts.value_or(0) * moe.width;
  if (moe.shared_width > static_cast<std::int64_t>(1) << 30)
    return wrong("n-shared-experts", fmt::format("the shared experts are {} wide together", moe.shared_width));
  if (moe.experts > 0 && moe.top_k > moe.experts)
    return wrong("moe-router-topk", fmt::format("{} exceeds the {} experts", moe.top_k, moe.experts));
  return std::nullopt;
}

// ---- parallel -----------------------------------------------------------------------------------------------------

void derive_expert_ranks(Draft& draft) {
  Parallel& parallel = draft.run.parallel;
  if (draft.run.model.moe.experts == 0) {
    parallel.expert = 1;
    parallel.expert_tensor = 1;
  } else if (draft.tensor_extends_expert) {
    parallel.expert *= parallel.tensor;  // at most 2^40
    parallel.expert_tensor = 1;
  } else {
    parallel.expert_tensor = draft.expert_tensor.value_or(parallel.tensor);
  }
  parallel.sequence_parallel = parallel.sequence_parallel && parallel.tensor > 1;
}

/// The argument that shards state over all ranks with the same weights; empty: none does, and their number matters for
/// no byte of state.
std::string_view shards_by_devices(const Draft& draft) {
  if (draft.fsdp) return "use-megatron-fsdp";
  if (draft.layer_wise) return "optimizer";
  return draft.run.optimizer.distributed ? "use-distributed-optimizer" : "";
}

/// One node where that fits the parallel sizes, or the fewest that do.
Problem assume_world(Draft& draft, std::int64_t copy, std::int64_t expert_copy, Notes& notes) {
  Parallel& parallel = draft.run.parallel;
  if (const std::string_view shards = shards_by_devices(draft); !shards.empty())
    return wrong(
        std::string(shards),
        "the number of devices is not given, and it decides how much of the state each holds; say how many, by "
        "the launcher (--nnodes, --nproc-per-node) or --world-size");
  const std::int64_t least = copy / std::gcd(copy, expert_copy);
  if (least > kMostDevices / expert_copy)
    return wrong("", fmt::format("tensor {} x pipeline {} x context {} with expert {} x {} exceeds the {} devices that "
                                 "are modelled",
                                 parallel.tensor, parallel.pipeline, parallel.context, parallel.expert,
                                 parallel.expert_tensor, kMostDevices));
  const bool node = kAssumedDevices % (least * expert_copy) == 0;
  // A recorded run was measured on as many devices as it had, not on the fewest.
  if (!node && draft.recorded)
    return wrong("", fmt::format("the number of devices is not given, and one node of {} does not fit tensor {} x "
                                 "pipeline {} x context {} with expert {} x {}; say how many",
                                 kAssumedDevices, parallel.tensor, parallel.pipeline, parallel.context, parallel.expert,
                                 parallel.expert_tensor));
  parallel.world = node ? kAssumedDevices : least * expert_copy;
  notes.push_back(node ? fmt::format("number of devices not given: one node of {} is assumed", kAssumedDevices)
                       : fmt::format("number of devices not given: {} are assumed, the least that the parallel sizes "
                                     "allow",
                                     parallel.world));
  return std::nullopt;
}

Problem derive_world(Draft& draft, Notes& notes) {
  Parallel& parallel = draft.run.parallel;
  const std::int64_t copy = parallel.tensor * parallel.pipeline * parallel.context;  // at most 2^56
  if (parallel.expert > (std::int64_t{1} << 24) || parallel.expert_tensor * parallel.expert > (std::int64_t{1} << 40))
    return wrong("expert-model-parallel-size", "it exceeds the devices that are modelled");
  const std::int64_t expert_copy = parallel.expert_tensor * parallel.expert * parallel.pipeline;
  parallel.world = draft.run.platform.devices;
  if (parallel.world == 0) {
    if (Problem problem = assume_world(draft, copy, expert_copy, notes)) return problem;
  }
  if (parallel.world % copy != 0)
    return wrong("tensor-model-parallel-size",
                 fmt::format("tensor {} x pipeline {} x context {} does not divide {} devices", parallel.tensor,
                             parallel.pipeline, parallel.context, parallel.world));
  if (parallel.world % expert_copy != 0)
    return wrong("expert-model-parallel-size",
                 fmt::format("expert {} x expert tensor {} x pipeline {} does not divide {} devices", parallel.expert,
                             parallel.expert_tensor, parallel.pipeline, parallel.world));
  parallel.data = parallel.world / copy;
  parallel.expert_data = parallel.world / expert_copy;
  return std::nullopt;
}

Problem derive_batch(Draft& draft, Notes& notes) {
  Batch& batch = draft.run.batch;
  if (!draft.micro_batch) return missing("micro-batch-size");
  const std::int64_t per_round = *draft.micro_batch * draft.run.parallel.data;  // at most 2^44
  batch.global = draft.global_batch.value_or(per_round);
  if (batch.global % per_round != 0)
    notes.push_back(fmt::format(
        "global batch size {} is not a multiple of micro-batch size {} x {} data-parallel ranks: rounded down",
        batch.global, *draft.micro_batch, draft.run.parallel.data));
  if (draft.evaluation_batch.value_or(0) > *draft.micro_batch)
    notes.push_back(fmt::format("evaluation runs micro-batches of {}, training of {}: the figures are of training",
                                *draft.evaluation_batch, *draft.micro_batch));
  batch.micro = *draft.micro_batch;
  batch.micro_batches = std::max<std::int64_t>(1, batch.global / (batch.micro * draft.run.parallel.data));
  return std::nullopt;
}

Problem place(Draft& draft, Notes& notes) {
  const ModelClass kind = draft.run.model.kind;
  if (kind == ModelClass::hybrid) return place_hybrid(draft);
  if (kind == ModelClass::t5) {
    if (draft.run.parallel.pipeline > 1)
      return wrong("pipeline-model-parallel-size", "T5 over several pipeline stages is not modelled; use 1");
    return std::nullopt;
  }
  if (Problem problem = mark_moe_layers(draft)) return problem;
  return place_layers(draft, notes);
}

// ---- state and switches -------------------------------------------------------------------------------------------

Problem derive_precision(Draft& draft) {
  TrainingRun& run = draft.run;
  if (draft.bf16 && draft.fp16) return wrong("fp16", "bf16 and fp16 exclude each other; drop one");
  run.precision = draft.bf16 ? Precision::bf16 : draft.fp16 ? Precision::fp16 : Precision::fp32;
  // In bf16 main gradients become fp32 unless one of two arguments keeps them; in fp16 only where one asks for it.
  const bool narrow = draft.fp16 || (draft.bf16 && (draft.reduce_in_bf16 || draft.main_gradient_bytes == 2));
  run.optimizer.gradient_16bit = narrow && !draft.accumulate_in_fp32;
  run.optimizer.distributed |= draft.layer_wise;
  run.optimizer.host_share = draft.offload_optimizer ? draft.offload_share : 0;
  run.quantization.used = draft.quantized;
  run.quantization.both_layouts = draft.fp8_recipe == "blockwise" || draft.fp8_recipe == "mxfp8";
  if (run.parallel.optimizer_instances > 1 &&
      run.parallel.data * run.parallel.context % run.parallel.optimizer_instances != 0)
    return wrong("num-distributed-optimizer-instances",
                 fmt::format("{} does not divide the {} ranks that hold the same weights",
                             run.parallel.optimizer_instances, run.parallel.data * run.parallel.context));
  return std::nullopt;
}

/// What FSDP shards: of its strategies two are the plain ones, the default among them.
void derive_fsdp(Draft& draft) {
  if (!draft.fsdp) return;
  OptimizerState& optimizer = draft.run.optimizer;
  optimizer.fsdp = draft.sharding == "optim_grads_params";
  optimizer.sharded_gradients = draft.sharding == "optim_grads";
  optimizer.distributed |= optimizer.fsdp || optimizer.sharded_gradients || draft.sharding == "optim";
  if (draft.fsdp_gradient_bytes > 0) optimizer.gradient_16bit = draft.fsdp_gradient_bytes == 2;
}

void derive_recompute(Draft& draft, Notes& notes) {
  Recompute& recompute = draft.run.recompute;
  std::vector<std::string> implied;
  if (draft.recompute_activations) implied.emplace_back("core_attn");
  if (draft.recompute_moe) implied.emplace_back("moe");
  if (!draft.granularity_given && !implied.empty()) {
    recompute.granularity = Recompute::Granularity::selective;
    recompute.modules = implied;
  } else if (draft.recompute_moe && recompute.granularity == Recompute::Granularity::full) {
    notes.emplace_back("--moe-layer-recompute: whole layers are recomputed already; newer software refuses both");
  } else if (draft.recompute_moe) {
    // Beside the modules given, or the one that is the default.
    if (recompute.modules.empty()) recompute.modules = {"core_attn"};
    recompute.modules.emplace_back("moe");
  }
  if (recompute.granularity != Recompute::Granularity::selective) {
    recompute.modules.clear();
  } else if (recompute.modules.empty()) {
    recompute.modules = {"core_attn"};
  }
}

/// Keys and values of the other context ranks that stay for backward. Exchanging heads instead of keys, nothing does.
void derive_key_cache(Draft& draft) {
  if (draft.kv_cache.empty()) return;
  const std::int64_t context = draft.run.parallel.context;
  const bool hybrid = draft.context_algorithm.starts_with("hybrid");
  const bool ulysses = draft.context_algorithm.starts_with("ulysses") && !draft.gathers_keys;
  const std::int64_t ring = ulysses ? 1 : hybrid ? std::max<std::int64_t>(1, context / draft.ulysses) : context;
  const double copies = static_cast<double>(ring - 1) / static_cast<double>(draft.kv_cache_gap + 1);
  draft.run.model.attention.cached_keys = copies;
  draft.run.model.attention.cached_values = draft.kv_cache == "full" ? copies : 0;
}

/// Context ranks that exchange heads; the others pass keys on.
std::int64_t ulysses_degree(const Draft& draft) {
  const std::int64_t context = draft.run.parallel.context;
  const std::string& algorithm = draft.context_algorithm;
  if (algorithm.empty() || algorithm.starts_with("ulysses")) return context;
  return algorithm.starts_with("hybrid") ? std::min(draft.ulysses, context) : 1;
}

/// Keys of grouped attention are repeated for every head by the unfused core, and before heads are exchanged where one
/// asks for it or where there are fewer groups than ranks (mindspeed/core/context_parallel/ulysses_context_parallel).
void derive_keys(Draft& draft) {
  Attention& attention = draft.run.model.attention;
  const Parallel& parallel = draft.run.parallel;
  const std::int64_t ulysses = ulysses_degree(draft);
  attention.ring = std::max<std::int64_t>(1, parallel.context / ulysses);
  const bool exchanged =
      ulysses > 1 && (draft.repeats_keys || ulysses > std::max<std::int64_t>(1, attention.groups / parallel.tensor));
  attention.repeats_keys = attention.groups < attention.heads && (exchanged || !attention.use_flash);
}

/// mindspeed_llm/features_manager/megatron_basic/training_basic.py and training/utils.py: get_tune_attention_mask.
AttentionMask mask_of(const Draft& draft) {
  const Attention& attention = draft.run.model.attention;
  const bool alibi = draft.run.model.positions == PositionEmbedding::alibi;
  if (draft.instruction && !draft.reset_positions) return AttentionMask::made;
  if ((attention.reset_mask && draft.general_mask) || attention.padded_left || (alibi && !attention.use_flash))
    return AttentionMask::loaded;
  const bool whole = draft.whole_mask || !attention.use_flash || (draft.general_mask && !attention.reset_mask);
  return whole ? AttentionMask::whole : AttentionMask::compressed;
}

void derive_ascend(Draft& draft) {
  if (!is_ascend(draft)) return;
  derive_keys(draft);
  draft.run.model.attention.mask = mask_of(draft);
  draft.run.model.unfused_norm = draft.run.model.norm == Norm::rms_norm && !draft.fused_norm;
  draft.run.model.unfused_rope = !draft.fused_rope;
}

void derive_switches(Draft& draft) {
  draft.run.model.unfused_gate = draft.swiglu && !draft.gate_fusion && !draft.fused_gate;
  if (draft.offload_activations) draft.run.offload.modules = draft.offload_modules;
  draft.run.loss.chunk_tokens = draft.chunked_loss ? draft.loss_chunk : 0;
  draft.run.loss.fused = draft.fused_loss;
  draft.run.loss.fused_by_te = draft.fused_loss && draft.loss_by_te;
}

}  // namespace

Problem derive(Draft& draft, const RunHints& hints, Notes& notes) {
  if (!draft.recorded) {
    if (Problem problem = refuse_combinations(draft)) return problem;
  }
  note_unused(draft, notes);
  if (draft.run.model.hidden == 0) return missing("hidden-size");
  if (Problem problem = derive_kind(draft, hints)) return problem;
  if (Problem problem = derive_lengths(draft)) return problem;
  if (Problem problem = derive_attention(draft)) return problem;
  if (Problem problem = derive_widths(draft)) return problem;
  derive_expert_ranks(draft);
  if (Problem problem = derive_world(draft, notes)) return problem;
  if (Problem problem = derive_batch(draft, notes)) return problem;
  if (Problem problem = place(draft, notes)) return problem;
  if (Problem problem = settle_vocabulary(draft, notes)) return problem;
  if (Problem problem = derive_precision(draft)) return problem;
  derive_fsdp(draft);
  derive_recompute(draft, notes);
  derive_key_cache(draft);
  derive_ascend(draft);
  derive_switches(draft);
  return std::nullopt;
}

}  // namespace tidemark::estimate
