#include "planner/step_time/recompute_time.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace tidemark::step_time {
namespace {

/// MindSpeed's moe-zero-memory: tokens are sent to their experts again, results are not, activations are computed
/// again; level 1 keeps not even what first products wrote (the router's, a hundredth, is counted with the experts').
PassCost zero_memory(const LayerModules& modules, double first_product_share) {
  PassCost again = modules.activation;
  again.vector_s += modules.shared_experts.vector_s;
  again.expert_s += modules.moe.expert_s / 2;
  again.matmul_s += first_product_share * (modules.moe.matmul_s + modules.shared_experts.matmul_s);
  return again;
}

/// A module by its name, and wrappers of it in a layer: each norm has one, an activation a lighter one.
struct ModuleName {
  std::string_view name;
  PassCost LayerModules::*cost;
  double wrappers;
};
constexpr ModuleName kModuleNames[] = {{"core_attn", &LayerModules::core_attention, 1},
                                       {"mla_up_proj", &LayerModules::up_projection, 1},
                                       {"mla_attention", &LayerModules::attention, 1},
                                       {"mlp", &LayerModules::feed_forward, 1},
                                       {"moe", &LayerModules::moe, 1},
                                       {"shared_experts", &LayerModules::shared_experts, 1},
                                       {"layernorm", &LayerModules::norms, 2},
                                       {"moe_act", &LayerModules::activation, 0.4},
                                       {"activation", &LayerModules::activation, 0.4}};

PassCost module_again(const StepSetting& setting, const LayerCost& layer, std::string_view name) {
  const bool is_moe = layer.kind == LayerKind::moe;
  if (is_moe && name == "mlp") return {};  // it is that of dense layers only
  if (!is_moe && name == "moe_act") return {.launches = 0.4 * setting.software.wrapper_launches};
  if (is_moe && name == "zero_memory_level0") return zero_memory(layer.modules, 0);
  if (is_moe && name == "zero_memory_level1")
    return zero_memory(layer.modules, setting.rank.gates / (setting.rank.gates + 1));
  for (const ModuleName& module : kModuleNames) {
    if (module.name != name) continue;
    PassCost again = layer.modules.*module.cost;
    again.launches += setting.software.wrapper_launches * module.wrappers;
    return again;
  }
  return {};
}

bool has_module(const TimedModel& model, std::string_view name) {
  if (name == "mla_up_proj" || name == "mla_attention") return model.is_mla;
  if (name == "shared_experts") return model.shared_ffn > 0;
  return name != "moe" || model.experts > 0;
}

/// A name that was given before adds nothing, nor does what lies inside a module that is run again whole.
bool is_counted(const std::vector<RecomputedModule>& modules, std::size_t i) {
  const auto is_named = [&modules](std::string_view name, std::size_t end) {
    return std::ranges::find(modules.begin(), modules.begin() + static_cast<std::ptrdiff_t>(end), name,
                             &RecomputedModule::name) != modules.begin() + static_cast<std::ptrdiff_t>(end);
  };
  if (modules[i].name == "moe_act" && is_named("moe", modules.size())) return false;
  return !is_named(modules[i].name, i);
}

PassCost modules_again(const StepSetting& setting, const LayerCost& layer) {
  const std::vector<RecomputedModule>& modules = setting.run.recomputed.modules;
  PassCost again;
  for (std::size_t i = 0; i < modules.size(); ++i)
    if (has_module(setting.run.model, modules[i].name) && is_counted(modules, i))
      again += modules[i].share * module_again(setting, layer, modules[i].name);
  return again;
}

/// Attention and expert exchange are kept; a collective goes with every second product.
PassCost half_of_products(const PassCost& forward) {
  return {.matmul_s = forward.matmul_s / 2,
          .vector_s = forward.vector_s,
          .tensor_s = forward.tensor_s / 2,
          .launches = forward.launches};
}

}  // namespace

PassCost recompute_cost(const StepSetting& setting, const LayerCost& layer) {
  const Recomputed& recomputed = setting.run.recomputed;
  PassCost of_others = modules_again(setting, layer);
  if (recomputed.is_half_of_products) of_others += half_of_products(layer.passes.forward);
  return recomputed.layers * layer.passes.forward + (1 - recomputed.layers) * of_others;
}

}  // namespace tidemark::step_time
