#include <array>

#include "planner/estimate/argument_rows.h"

namespace tidemark::estimate {
namespace {

std::string_view set_stage(Draft& draft, std::string_view word) {
  if (word == "dpo") {
    draft.run.loss.preference = true;
    draft.run.optimizer.frozen_reference = true;
    return {};
  }
  if (word == "sft" || word == "pretrain") return {};
  return "pretraining, sft and dpo are modelled";
}

std::string_view set_loss_mode(Draft& draft, std::string_view word) {
  if (word != "default" && word != "chunk") return "write default or chunk";
  draft.chunked_loss = word == "chunk";
  return {};
}

std::string_view set_kv_cache(Draft& draft, std::string_view word) {
  if (word != "full" && word != "half") return "write full or half";
  draft.kv_cache = word;
  return {};
}

std::string_view set_context_algorithm(Draft& draft, std::string_view word) {
  draft.context_algorithm = word;
  return {};
}

std::string_view set_padding_side(Draft& draft, std::string_view word) {
  if (word != "left" && word != "right") return "write left or right";
  draft.run.model.attention.padded_left = word == "left";
  return {};
}

std::string_view set_shape_order(Draft& draft, std::string_view word) {
  if (word != "SBH" && word != "BSH" && word != "BSND" && word != "BNSD" && word != "TND")
    return "write SBH, BSH, BSND, BNSD or TND";
  draft.run.model.attention.heads_first = word == "BNSD";
  return {};
}

constexpr std::array kRows = {
    on_off("reuse-fp32-param", [](Draft& d, bool on) { d.run.optimizer.reuse_fp32_parameter = on; }),
    on_off("o2-optimizer", [](Draft& d, bool on) { d.run.optimizer.moments_16bit = on; }),
    on_off("swap-optimizer", [](Draft& d, bool on) { d.run.optimizer.on_host = on; }),
    count("swap-optimizer-times", 1, kMostCount, [](Draft& d, std::int64_t n) { d.run.optimizer.swap_times = n; }),
    not_modelled("swap-optimizer-sizes", "parts of the optimizer left on the device are not modelled"),
    on_off("gemm-gradient-accumulation-fusion", [](Draft& d, bool on) { d.run.optimizer.npu_gradient_fusion = on; }),
    on_off("swap-attention", [](Draft& d, bool on) { d.run.offload.attention = on; }),
    on_off("enable-recompute-layers-per-pp-rank", [](Draft& d, bool on) { d.run.recompute.layers_per_rank = on; }),
    on_off("recompute-in-advance", [](Draft& d, bool on) { d.run.recompute.in_advance = on; }),
    on_off("recompute-activation-function", [](Draft& d, bool on) { d.run.recompute.activation_function = on; }),
    count("recompute-activation-function-num-layers", 0, 100'000,
          [](Draft& d, std::int64_t n) { d.run.recompute.activation_function_layers = n; }),
    on_off("recompute-norm", [](Draft& d, bool on) { d.run.recompute.norms = on; }),
    count("recompute-norm-num-layers", 0, 100'000, [](Draft& d, std::int64_t n) { d.run.recompute.norm_layers = n; }),
    on_off("recompute-mla-up-proj", [](Draft& d, bool on) { d.run.recompute.mla_up_projection = on; }),
    on_off("mla-zero-memory", [](Draft& d, bool on) { d.run.recompute.mla_attention = on; }),
    on_off("mla-swap-core-attn-out", [](Draft& d, bool on) { d.run.offload.attention_output = on; }),
    text("loss-compute-mode", set_loss_mode),
    count("loss-chunk-size", 1, kMostTokens, [](Draft& d, std::int64_t n) { d.loss_chunk = n; }),
    count("output-layer-slice-num", 1, kMostCount, [](Draft& d, std::int64_t n) { d.run.loss.output_slices = n; }),
    count("cla-share-factor", 1, 100'000, [](Draft& d, std::int64_t n) { d.run.model.attention.share_factor = n; }),
    on_off("post-norm", [](Draft& d, bool on) { d.run.model.output_norms |= on; }),
    on_off("sandwich-norm", [](Draft& d, bool on) { d.run.model.output_norms |= on; }),
    on_off("mla-fa-without-pad", [](Draft& d, bool on) { d.run.model.attention.v_without_padding |= on; }),
    on_off("mla-fa-divide-qk", [](Draft& d, bool on) { d.run.model.attention.v_without_padding |= on; }),
    on_off("use-ascend-coc", [](Draft& d, bool on) { d.run.fused_coc = on; }),
    on_off("no-pad-to-seq-lengths", [](Draft& d, bool on) { d.unpadded_samples = on; }),
    on_off("neat-pack", [](Draft& d, bool on) { d.packed_samples = on; }),
    text("stage", set_stage),
    on_off("use-fused-swiglu", [](Draft& d, bool on) { d.fused_gate = on; }),
    on_off("use-fused-moe-token-permute-and-unpermute",
           [](Draft& d, bool on) { d.run.model.moe.permute_fusion |= on; }),
    on_off("attention-mask-on-cpu", [](Draft& d, bool on) { d.run.model.attention.mask_on_host = on; }),
    on_off("mtp-mem-efficient-logits", [](Draft& d, bool on) { d.run.loss.in_16bit_logits = on; }),
    not_modelled("recompute-mtp-norm", "recomputation inside multi-token prediction is not modelled"),
    not_modelled("recompute-mtp-layer", "recomputation inside multi-token prediction is not modelled"),
    text("context-parallel-kv-cache-policy", set_kv_cache),
    count("context-parallel-cache-interval", 0, 100'000, [](Draft& d, std::int64_t n) { d.kv_cache_gap = n; }),
    text("context-parallel-algo", set_context_algorithm),
    count("ulysses-degree-in-cp", 1, kMostDegree, [](Draft& d, std::int64_t n) { d.ulysses = n; }),
    on_off("use-ulysses-allgather-kv", [](Draft& d, bool on) { d.gathers_keys = on; }),
    on_off("kv-head-repeat-before-uly-alltoall", [](Draft& d, bool on) { d.repeats_keys = on; }),
    on_off("use-fusion-attn-v2", [](Draft& d, bool on) { d.whole_mask = on; }),
    on_off("is-instruction-dataset", [](Draft& d, bool on) { d.instruction |= on; }),
    on_off("is-pairwise-dataset", [](Draft& d, bool on) { d.instruction |= on; }),
    on_off("variable-seq-lengths", [](Draft& d, bool on) { d.variable_lengths = on; }),
    text("tokenizer-padding-side", set_padding_side),
    text("shape-order", set_shape_order),
    count("padded-base-length", 1, kMostCount,
          [](Draft& d, std::int64_t n) { d.run.model.attention.padded_multiple = n; }),
    on_off("use-fused-rotary-pos-emb", [](Draft& d, bool on) { d.fused_rope |= on; }),
    on_off("use-fused-rotary-pos-emb-new", [](Draft& d, bool on) { d.fused_rope |= on; }),
    on_off("use-fused-rmsnorm", [](Draft& d, bool on) { d.fused_norm = on; }),
    real("output-logit-softcapping", 0, 1e6, [](Draft& d, double x) { d.run.loss.softcapped |= x > 0; }),
    real("final-logit-softcapping", 0, 1e6, [](Draft& d, double x) { d.run.loss.softcapped |= x > 0; }),
    real("attn-logit-softcapping", 0, 1e6, [](Draft& d, double x) { d.run.model.attention.softcapped = x > 0; }),
    // The switch and the head dimensions of latent attention as older releases of MindSpeed-LLM call them.
    on_off("multi-head-latent-attention", [](Draft& d, bool on) { d.run.model.attention.multi_latent |= on; }),
    count("qk-nope-head-dim", 1, kMostCount, [](Draft& d, std::int64_t n) { d.run.model.attention.qk_head_dim = n; }),
    count("qk-rope-head-dim", 1, kMostCount, [](Draft& d, std::int64_t n) { d.run.model.attention.qk_rope_dim = n; }),
};

}  // namespace

std::span<const ArgumentRow> mindspeed_arguments() {
  return kRows;
}

}  // namespace tidemark::estimate
