#include <array>

#include "planner/framework/argument_rows.h"

namespace tidemark::framework {
namespace {

/// Bytes of a type's name, also as `torch.float32`; 0: unknown.
std::int64_t bytes_of(std::string_view word) {
  if (word.starts_with("torch.")) word.remove_prefix(6);
  if (word == "fp32" || word == "float32" || word == "float") return 4;
  if (word == "bf16" || word == "fp16" || word == "bfloat16" || word == "float16" || word == "half") return 2;
  if (word == "fp8" || word == "uint8") return 1;
  return 0;
}
constexpr std::string_view kTypes = "write fp32, bf16, fp16 or fp8";

std::string_view set_optimizer(Draft& draft, std::string_view word) {
  if (word == "adam" || word == "adamw") {
    draft.run.optimizer.kind = Optimizer::adam;
  } else if (word == "sgd") {
    draft.run.optimizer.kind = Optimizer::sgd;
  } else if (word.find("muon") != std::string_view::npos) {
    draft.run.optimizer.kind = Optimizer::muon;
  } else {
    return "adam, sgd and muon are modelled";
  }
  return {};
}

std::string_view set_sharding(Draft& draft, std::string_view word) {
  if (word != "no_shard" && word != "optim" && word != "optim_grads" && word != "optim_grads_params")
    return "write no_shard, optim, optim_grads or optim_grads_params";
  draft.sharding = word;
  return {};
}

template <std::int64_t OptimizerState::*kField>
std::string_view set_bytes(Draft& draft, std::string_view word) {
  const std::int64_t bytes = bytes_of(word);
  if (bytes == 0) return kTypes;
  draft.run.optimizer.*kField = bytes;
  return {};
}

std::string_view set_quantized(Draft& draft, std::string_view word) {
  if (word.empty()) return "write hybrid, e4m3 or e2m1";
  draft.quantized = true;
  return {};
}

constexpr std::array kRows = {
    on_off("bf16", [](Draft& d, bool on) { d.bf16 = on; }),
    on_off("fp16", [](Draft& d, bool on) { d.fp16 = on; }),
    text("optimizer", set_optimizer),
    on_off("use-distributed-optimizer", [](Draft& d, bool on) { d.run.optimizer.distributed |= on; }),
    on_off("use-megatron-fsdp", [](Draft& d, bool on) { d.fsdp |= on; }),
    on_off("use-custom-fsdp", [](Draft& d, bool on) { d.fsdp |= on; }),
    text("data-parallel-sharding-strategy", set_sharding),
    on_off("use-precision-aware-optimizer", [](Draft& d, bool on) { d.run.optimizer.precision_aware = on; }),
    text("main-params-dtype", set_bytes<&OptimizerState::main_bytes>),
    text("exp-avg-dtype", set_bytes<&OptimizerState::exp_avg_bytes>),
    text("exp-avg-sq-dtype", set_bytes<&OptimizerState::exp_avg_sq_bytes>),
    on_off("optimizer-cpu-offload", [](Draft& d, bool on) { d.offload_optimizer = on; }),
    real("optimizer-offload-fraction", 0, 1, [](Draft& d, double x) { d.offload_share = x; }),
    on_off("grad-reduce-in-bf16", [](Draft& d, bool on) { d.reduce_in_bf16 = on; }),
    on_off("overlap-grad-reduce", [](Draft& d, bool on) { d.run.optimizer.overlap_grad_reduce = on; }),
    on_off("no-gradient-accumulation-fusion", [](Draft& d, bool on) { d.run.optimizer.gradient_fusion = !on; }),
    on_off("gradient-accumulation-fusion", [](Draft& d, bool on) { d.run.optimizer.gradient_fusion = on; }),
    text("fp8-format", set_quantized),
    text("fp4-format", set_quantized),
    text("fp8-recipe",
         [](Draft& d, std::string_view t) -> std::string_view {
           d.fp8_recipe = t;
           return {};
         }),
    on_off("fp8-param-gather", [](Draft& d, bool on) { d.run.quantization.parameters |= on; }),
    on_off("fp4-param-gather", [](Draft& d, bool on) { d.run.quantization.parameters |= on; }),
    on_off("deterministic-mode", [](Draft& d, bool on) { d.run.deterministic = on; }),
};

}  // namespace

std::span<const ArgumentRow> optimizer_arguments() {
  return kRows;
}

}  // namespace tidemark::framework
