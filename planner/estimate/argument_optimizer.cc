#include <array>

#include "planner/estimate/argument_rows.h"

namespace tidemark::estimate {
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
  } else if (word == "sgd" || word == "lion") {  // one moment each
    draft.run.optimizer.kind = Optimizer::sgd;
  } else if (word == "muon" || word == "dist_muon") {
    draft.run.optimizer.kind = Optimizer::muon;
    draft.layer_wise = word == "dist_muon";
  } else {
    return "adam, sgd, lion and muon are modelled";
  }
  return {};
}

std::string_view set_sharding(Draft& draft, std::string_view word) {
  if (word != "no_shard" && word != "optim" && word != "optim_grads" && word != "optim_grads_params")
    return "write no_shard, optim, optim_grads or optim_grads_params";
  draft.sharding = word;
  if (word == "optim_grads") draft.doubt = "what is held of gradients until they are shared out is not modelled";
  return {};
}

template <std::int64_t OptimizerState::*kField>
std::string_view set_bytes(Draft& draft, std::string_view word) {
  const std::int64_t bytes = bytes_of(word);
  if (bytes == 0) return kTypes;
  draft.run.optimizer.*kField = bytes;
  return {};
}

/// A type of MindSpeed's 8-bit runs says nothing about what its kernels keep.
std::string_view doubt_of_quantized(const Draft& draft) {
  const bool ascend = draft.run.platform.framework == Framework::mindspeed_llm;
  return ascend ? "8-bit training of MindSpeed-LLM is taken as 16-bit: what it keeps is not modelled"
                : std::string_view();
}

std::string_view set_fp8(Draft& draft, std::string_view word) {
  if (word.empty()) return "write hybrid or e4m3";
  draft.quantized = true;
  draft.doubt = doubt_of_quantized(draft);
  return {};
}

std::string_view set_fp4(Draft& draft, std::string_view word) {
  if (word.empty()) return "write e2m1";
  draft.quantized = draft.run.quantization.four_bit = true;
  draft.doubt = doubt_of_quantized(draft);
  return {};
}

std::string_view set_main_gradients(Draft& draft, std::string_view word) {
  const std::int64_t bytes = bytes_of(word);
  if (bytes != 2 && bytes != 4) return "write fp32 or bf16";
  draft.main_gradient_bytes = bytes;
  return {};
}

std::string_view set_fsdp_gradients(Draft& draft, std::string_view word) {
  if (word == "auto") return {};
  const std::int64_t bytes = bytes_of(word);
  if (bytes != 2 && bytes != 4) return "write fp32, bf16, fp16 or auto";
  draft.fsdp_gradient_bytes = bytes;
  return {};
}

std::string_view set_fsdp_parameters(Draft& draft, std::string_view word) {
  if (word != "auto" && bytes_of(word) < 2) return "write fp32, bf16, fp16 or auto";
  if (word == "auto" || bytes_of(word) != 4) draft.doubt = "FSDP's main parameters are taken in fp32";
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
    on_off("accumulate-allreduce-grads-in-fp32", [](Draft& d, bool on) { d.accumulate_in_fp32 = on; }),
    text("main-grads-dtype", set_main_gradients),
    text("megatron-fsdp-main-grads-dtype", set_fsdp_gradients),
    text("megatron-fsdp-main-params-dtype", set_fsdp_parameters),
    count("ddp-bucket-size", 1, 1e15, [](Draft& d, std::int64_t n) { d.run.optimizer.bucket_elements = n; }),
    count("ddp-num-buckets", 1, kMostDegree, [](Draft& d, std::int64_t n) { d.run.optimizer.buckets = n; }),
    on_off("no-load-optim", [](Draft& d, bool on) { d.run.platform.resumed &= !on; }),
    count("eval-micro-batch-size", 1, kMostDegree, [](Draft& d, std::int64_t n) { d.evaluation_batch = n; }),
    on_off("overlap-grad-reduce", [](Draft& d, bool on) { d.run.optimizer.overlap_grad_reduce = on; }),
    on_off("no-gradient-accumulation-fusion", [](Draft& d, bool on) { d.run.optimizer.gradient_fusion = !on; }),
    on_off("gradient-accumulation-fusion", [](Draft& d, bool on) { d.run.optimizer.gradient_fusion = on; }),
    text("fp8-format", set_fp8),
    text("fp4-format", set_fp4),
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

}  // namespace tidemark::estimate
