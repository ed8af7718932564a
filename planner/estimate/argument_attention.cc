#include <array>

#include "planner/estimate/argument_rows.h"

namespace tidemark::estimate {
namespace {

std::string_view set_backend(Draft& draft, std::string_view word) {
  AttentionBackend& backend = draft.run.model.attention.backend;
  // Megatron prints its enumeration as AttnBackend.flash.
  if (const std::size_t dot = word.rfind('.'); dot != std::string_view::npos) word.remove_prefix(dot + 1);
  if (word == "auto") {
    backend = AttentionBackend::automatic;
  } else if (word == "unfused") {
    backend = AttentionBackend::unfused;
  } else if (word == "flash") {
    backend = AttentionBackend::flash;
  } else if (word == "fused") {
    backend = AttentionBackend::fused;
  } else if (word == "local") {
    backend = AttentionBackend::local;
  } else {
    return "write flash, fused, unfused, local or auto";
  }
  return {};
}

std::string_view set_mask(Draft& draft, std::string_view word) {
  if (word != "general" && word != "causal") return "write causal or general";
  draft.general_mask = word == "general";
  return {};
}

constexpr std::array kRows = {
    count("num-attention-heads", 1, kMostCount, [](Draft& d, std::int64_t n) { d.run.model.attention.heads = n; }),
    on_off("group-query-attention", [](Draft& d, bool on) { d.grouped_queries = on; }),
    count("num-query-groups", 1, kMostCount, [](Draft& d, std::int64_t n) { d.query_groups = n; }),
    count("kv-channels", 1, kMostCount, [](Draft& d, std::int64_t n) { d.kv_channels = n; }),
    on_off("multi-latent-attention", [](Draft& d, bool on) { d.run.model.attention.multi_latent = on; }),
    count("q-lora-rank", 0, kMostWidth, [](Draft& d, std::int64_t n) { d.run.model.attention.q_lora_rank = n; }),
    count("kv-lora-rank", 1, kMostWidth, [](Draft& d, std::int64_t n) { d.kv_lora_rank = n; }),
    count("qk-head-dim", 1, kMostCount, [](Draft& d, std::int64_t n) { d.run.model.attention.qk_head_dim = n; }),
    count("qk-pos-emb-head-dim", 1, kMostCount,
          [](Draft& d, std::int64_t n) { d.run.model.attention.qk_rope_dim = n; }),
    count("v-head-dim", 1, kMostCount, [](Draft& d, std::int64_t n) { d.run.model.attention.v_head_dim = n; }),
    on_off("qk-layernorm", [](Draft& d, bool on) { d.run.model.attention.qk_norm = on; }),
    on_off("add-qkv-bias", [](Draft& d, bool on) { d.qkv_bias = on; }),
    real("attention-dropout", 0, 1, [](Draft& d, double x) { d.run.model.attention.dropout = x; }),
    text("attention-backend", set_backend),
    on_off("attention-softmax-in-fp32", [](Draft& d, bool on) { d.run.model.attention.softmax_fp32 = on; }),
    on_off("no-masked-softmax-fusion", [](Draft& d, bool on) { d.run.model.attention.masked_softmax_fusion = !on; }),
    on_off("masked-softmax-fusion", [](Draft& d, bool on) { d.run.model.attention.masked_softmax_fusion = on; }),
    on_off("use-flash-attn", [](Draft& d, bool on) { d.run.model.attention.use_flash = on; }),
    text("attention-mask-type", set_mask),
    text("cp-attention-mask-type", set_mask),  // the same under an older name
    on_off("reset-attention-mask", [](Draft& d, bool on) { d.run.model.attention.reset_mask = on; }),
    on_off("reset-position-ids", [](Draft& d, bool on) { d.reset_positions = on; }),
};

}  // namespace

std::span<const ArgumentRow> attention_arguments() {
  return kRows;
}

}  // namespace tidemark::estimate
