// MindSpeed at 028de58c and MindSpeed-LLM at c77308a1: switches for all layers, some with a count of layers, the first
// of every chunk.
//   recompute  docs/features/{recompute,activation-function-recompute,norm-recompute}.md
//   MLA        mindspeed_llm/features_manager/transformer/multi_latent_attention/mla_feature.py
//   experts    mindspeed/core/transformer/moe/moe_feature, docs/features/megatron_moe/megatron-moe-zero-memory.md
//   swap       mindspeed/core/memory/swap_attention/prefetch.py

#include "integrations/formats/export_words.h"

namespace tidemark::formats {
namespace {

constexpr const char* kMla = "mindspeed_llm/features_manager/transformer/multi_latent_attention/mla_feature.py";
constexpr const char* kExperts = "mindspeed/core/transformer/moe/moe_feature";

void add_attention(WordList& words, const PlanFile& plan) {
  if (plan.job.model.attention.kind != graph_build::AttentionSpec::Kind::mla) return;
  words.add("--recompute-mla-up-proj", "", Action::recompute,
            {"self_attention.latent_q_norm", "self_attention.latent_kv_norm", "self_attention.q", "self_attention.k",
             "self_attention.v", "self_attention.kv"},
            kMla);
  words.add(
      "--mla-zero-memory", "", Action::recompute,
      {"self_attention.latent_q_norm", "self_attention.latent_kv_norm", "self_attention.q", "self_attention.k",
       "self_attention.v", "self_attention.kv", "self_attention.attention_out_core", "self_attention.softmax_stats"},
      kMla);
}

}  // namespace

void add_mindspeed_words(ExportVocabulary& vocabulary, const PlanFile& plan) {
  WordList words(vocabulary, plan);
  const bool overlap = plan.job.parallel.overlap_forward_backward;
  const std::int32_t layers = words.add_layers("--recompute-num-layers", "docs/features/recompute.md");
  words.add("--recompute-activation-function", "", Action::recompute,
            {"mlp.act_out", "mlp.experts.act_out", "mlp.shared_experts.shared_act_out"},
            "docs/features/activation-function-recompute.md", {.layers = {}, .counted = true});
  words.add("--recompute-norm", "", Action::recompute, {"input_norm.y1", "mlp_norm.y2"},
            "docs/features/norm-recompute.md", {.layers = {}, .counted = true});
  add_attention(words, plan);
  words.exclude(
      layers, words.add("--moe-zero-memory", "level0", Action::recompute,
                        {"mlp.experts.fc1_in", "mlp.experts.act_out", "mlp.shared_experts.shared_act_out"}, kExperts));
  if (overlap) words.add("--moe-unperm2-mem-optim-swap", "", Action::swap, {"mlp.experts.unpermute_in"}, kExperts);
  if (!overlap)
    words.add("--swap-attention", "", Action::swap,
              {"layer.x", "input_norm.y1", "self_attention.latent", "self_attention.q", "self_attention.k",
               "self_attention.v", "self_attention.kv", "self_attention.qkv", "self_attention.attention_out_core",
               "self_attention.softmax_stats", "layer.x1"},
              "mindspeed/core/memory/swap_attention/prefetch.py");
  words.exclude_overlaps(true);
  vocabulary.remarks = {
      "switches hold for every layer, rank and micro-batch; where a count is given it is of the first layers of every "
      "chunk",
      "there is no switch for keys and values without queries, and none for expert inputs or outputs that swaps them "
      "beside forward/backward overlap",
      "--mla-swap-core-attn-out works with the dualpipev schedule alone, which plans do not have",
      "swapped tensors come back at one fixed point of the same layer's backward pass, into host memory that is pinned "
      "anew each time: the evaluation fetches in time from one pinned arena"};
  if (overlap)
    vocabulary.remarks.emplace_back("--swap-attention is not proposed: it does not go with --moe-fb-overlap");
}

}  // namespace tidemark::formats
