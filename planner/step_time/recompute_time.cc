#include "planner/step_time/recompute_time.h"

#include <string>
#include <string_view>

namespace tidemark::step_time {
namespace {

/// A module by its name, and wrappers of it in a layer: each norm has one, an activation a lighter one.
struct ModuleName {
  std::string_view name;
  PassCost LayerModules::*cost;
  double wrappers;
};
constexpr ModuleName kModuleNames[] = {{"core_attn", &LayerModules::core_attention, 1},
                                       {"mla_up_proj", &LayerModules::up_projection, 1},
                                       {"mlp", &LayerModules::feed_forward, 1},
                                       {"moe", &LayerModules::moe, 1},
                                       {"shared_experts", &LayerModules::shared_experts, 1},
                                       {"layernorm", &LayerModules::norms, 2},
                                       {"moe_act", &LayerModules::activation, 0.4}};

PassCost module_again(const StepSetting& setting, const LayerCost& layer, std::string_view name) {
  if (layer.kind == LayerKind::moe && name == "mlp") return {};  // it is that of dense layers only
  for (const ModuleName& module : kModuleNames) {
    if (module.name != name) continue;
    PassCost again = layer.modules.*module.cost;
    again.launches += setting.software.wrapper_launches * module.wrappers;
    return again;
  }
  return {};
}

PassCost modules_again(const StepSetting& setting, const LayerCost& layer) {
  PassCost again;
  for (const std::string& name : setting.run.recomputed_modules) again += module_again(setting, layer, name);
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
  switch (setting.run.recompute) {
    case RecomputeKind::none:
      return {};
    case RecomputeKind::full:
      return setting.run.recomputed_share * layer.passes.forward;
    case RecomputeKind::modules:
      return modules_again(setting, layer);
    case RecomputeKind::half_of_products:
      return half_of_products(layer.passes.forward);
  }
  return {};
}

}  // namespace tidemark::step_time
