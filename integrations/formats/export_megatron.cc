// Megatron-LM at d98e8a64: --recompute-modules and --offload-modules, one list for every layer and rank, or whole
// layers with --recompute-method block, the first N of every chunk.
//   recompute  megatron/core/transformer/transformer_config.py
//   offload    megatron/core/pipeline_parallel/fine_grained_activation_offload.py

#include "integrations/formats/export_words.h"

namespace tidemark::formats {
namespace {

constexpr const char* kConfig = "megatron/core/transformer/transformer_config.py";
constexpr const char* kOffload = "megatron/core/pipeline_parallel/fine_grained_activation_offload.py";

/// Layers with experts. Their norm is a module of its own, others are fused into the product that follows.
std::vector<std::int32_t> expert_layers(const PlanFile& plan) {
  std::vector<std::int32_t> layers;
  for (std::size_t i = 0; i < plan.job.model.layers.size(); ++i)
    if (plan.job.model.layers[i] == graph_build::LayerKind::moe) layers.push_back(static_cast<std::int32_t>(i));
  return layers;
}

void add_recompute(WordList& words, const PlanFile& plan) {
  const char* option = "--recompute-modules";
  const Action action = Action::recompute;
  if (plan.job.model.attention.kind == graph_build::AttentionSpec::Kind::mla) {
    words.add(option, "layernorm", action, {"input_norm.y1", "mlp_norm.y2"}, kConfig);
  } else if (const std::vector<std::int32_t> layers = expert_layers(plan); !layers.empty()) {
    words.add(option, "layernorm", action, {"mlp_norm.y2"}, kConfig, {.layers = layers});
  }
  if (plan.job.model.attention.kind == graph_build::AttentionSpec::Kind::mla)
    words.add(option, "mla_up_proj", action,
              {"self_attention.latent_q_norm", "self_attention.latent_kv_norm", "self_attention.q", "self_attention.k",
               "self_attention.v", "self_attention.kv"},
              kConfig);
  words.add(option, "mlp", action, {"mlp.fc1_out", "mlp.act_out"}, kConfig);
  words.add(option, "moe_act", action, {"mlp.experts.act_out"}, kConfig);
  words.add(option, "shared_experts", action,
            {"mlp.shared_experts.shared_fc1_out", "mlp.shared_experts.shared_act_out"}, kConfig);
  words.add(option, "moe", action,
            {"mlp.experts.fc1_in", "mlp.experts.fc1_out", "mlp.experts.act_out", "mlp.experts.unpermute_in",
             "mlp.shared_experts.shared_fc1_out", "mlp.shared_experts.shared_act_out"},
            kConfig);
}

void add_offload(WordList& words) {
  const char* option = "--offload-modules";
  const Action action = Action::swap;
  words.add(option, "attn_norm", action, {"layer.x"}, kOffload);
  words.add(option, "qkv_linear", action, {"input_norm.y1"}, kOffload);
  const std::int32_t core =
      words.add(option, "core_attn", action,
                {"self_attention.q", "self_attention.k", "self_attention.v", "self_attention.kv", "self_attention.qkv"},
                kOffload);
  const std::int32_t projection =
      words.add(option, "attn_proj", action, {"self_attention.attention_out_core"}, kOffload);
  words.needs(projection, core);
  words.add(option, "mlp_norm", action, {"layer.x1"}, kOffload);
  words.add(option, "expert_fc1", action, {"mlp.experts.fc1_in"}, kOffload);
  words.add(option, "moe_act", action, {"mlp.experts.fc1_out"}, kOffload);
}

}  // namespace

void add_megatron_words(ExportVocabulary& vocabulary, const PlanFile& plan) {
  WordList words(vocabulary, plan);
  words.add_layers("--recompute-num-layers", kConfig);
  add_recompute(words, plan);
  add_offload(words);
  words.exclude_overlaps(true);
  vocabulary.remarks = {
      "recompute and offload modules hold for every layer, rank and micro-batch; only --recompute-num-layers counts "
      "layers",
      "core_attn is not proposed for recomputation: fused kernels keep only statistics, and the projection keeps their "
      "output all the same",
      "offloading leaves the last groups of a pass on the device and fetches one group ahead (" +
          std::string(kOffload) + "): the evaluation offloads all and fetches in time",
      "--activation-offload-fraction and --delta-offload-bytes-across-pp-ranks are left at their defaults"};
  if (words.has("mlp.experts.unpermute_in"))
    vocabulary.remarks.emplace_back(
        "this job keeps expert rows for the router's gradient (probabilities: at_unpermute); Megatron-LM folds "
        "probabilities into the activation: plan with probabilities: in_activation for its sizes");
}

}  // namespace tidemark::formats
