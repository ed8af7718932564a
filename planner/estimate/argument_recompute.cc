#include <algorithm>
#include <array>
#include <span>

#include "planner/estimate/argument_rows.h"
#include "planner/estimate/argument_value.h"

namespace tidemark::estimate {
namespace {

std::string_view set_granularity(Draft& draft, std::string_view word) {
  if (word != "full" && word != "selective") return "write full or selective";
  draft.granularity_given = true;
  draft.run.recompute.granularity = word == "full" ? Recompute::Granularity::full : Recompute::Granularity::selective;
  return {};
}

std::string_view set_method(Draft& draft, std::string_view word) {
  if (word != "uniform" && word != "block") return "write uniform or block";
  draft.run.recompute.method = word == "uniform" ? Recompute::Method::uniform : Recompute::Method::block;
  return {};
}

std::string_view set_loss_implementation(Draft& draft, std::string_view word) {
  if (word != "native" && word != "te" && word != "linear") return "write native or te";
  draft.loss_by_te = word == "te";
  return {};
}

bool are_among(const std::vector<std::string>& modules, std::span<const std::string_view> known) {
  return std::ranges::all_of(modules,
                             [known](const std::string& m) { return std::ranges::find(known, m) != known.end(); });
}

std::string_view set_recompute_modules(Draft& draft, std::string_view list) {
  constexpr std::array<std::string_view, 7> kModelled = {"core_attn", "layernorm", "mla_up_proj",   "mlp",
                                                         "moe",       "moe_act",   "shared_experts"};
  draft.run.recompute.modules = list_items(list);
  if (!are_among(draft.run.recompute.modules, kModelled))
    draft.doubt = "of modules core_attn, layernorm, mla_up_proj, mlp, moe, moe_act and shared_experts are modelled";
  return {};
}

std::string_view set_offload_modules(Draft& draft, std::string_view list) {
  constexpr std::array<std::string_view, 7> kModelled = {"attn_norm", "attn_proj",  "core_attn", "expert_fc1",
                                                         "mlp_norm",  "qkv_linear", "moe_act"};
  draft.offload_modules = list_items(list);
  if (!are_among(draft.offload_modules, kModelled))
    draft.doubt =
        "of modules attn_norm, attn_proj, core_attn, expert_fc1, mlp_norm, moe_act and qkv_linear are modelled";
  return {};
}

constexpr std::array kRows = {
    text("recompute-granularity", set_granularity),
    text("recompute-method", set_method),
    count("recompute-num-layers", 0, 100'000, [](Draft& d, std::int64_t n) { d.run.recompute.layers = n; }),
    text("recompute-modules", set_recompute_modules),
    on_off("recompute-activations", [](Draft& d, bool on) { d.recompute_activations = on; }),
    on_off("moe-layer-recompute", [](Draft& d, bool on) { d.recompute_moe = on; }),
    on_off("fine-grained-activation-offloading", [](Draft& d, bool on) { d.offload_activations = on; }),
    text("offload-modules", set_offload_modules),
    real("activation-offload-fraction", 0, 1, [](Draft& d, double x) { d.run.offload.share = x; }),
    on_off("cross-entropy-loss-fusion", [](Draft& d, bool on) { d.fused_loss = on; }),
    text("cross-entropy-fusion-impl", set_loss_implementation),
    on_off("defer-embedding-wgrad-compute", [](Draft& d, bool on) { d.run.loss.deferred_embedding_gradient = on; }),
    count("wgrad-deferral-limit", 0, kMostDegree, [](Draft& d, std::int64_t n) { d.run.loss.deferral_limit = n; }),
};

}  // namespace

std::span<const ArgumentRow> recompute_arguments() {
  return kRows;
}

}  // namespace tidemark::estimate
