#include <array>

#include "planner/framework/argument_rows.h"

namespace tidemark::framework {
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

constexpr std::array kRows = {
    on_off("reuse-fp32-param", [](Draft& d, bool on) { d.run.optimizer.reuse_fp32_parameter = on; }),
    on_off("o2-optimizer", [](Draft& d, bool on) { d.run.optimizer.moments_16bit = on; }),
    on_off("swap-optimizer", [](Draft& d, bool on) { d.run.optimizer.on_host = on; }),
    on_off("gemm-gradient-accumulation-fusion", [](Draft& d, bool on) { d.run.optimizer.npu_gradient_fusion = on; }),
    on_off("swap-attention", [](Draft& d, bool on) { d.run.offload.attention = on; }),
    on_off("enable-recompute-layers-per-pp-rank", [](Draft& d, bool on) { d.run.recompute.layers_per_rank = on; }),
    on_off("recompute-in-advance", [](Draft& d, bool on) { d.run.recompute.in_advance = on; }),
    on_off("recompute-activation-function", [](Draft& d, bool on) { d.run.recompute.activation_function = on; }),
    count("recompute-activation-function-num-layers", 0, 100'000,
          [](Draft& d, std::int64_t n) { d.run.recompute.activation_function_layers = n; }),
    on_off("recompute-norm", [](Draft& d, bool on) { d.run.recompute.norms = on; }),
    count("recompute-norm-num-layers", 0, 100'000, [](Draft& d, std::int64_t n) { d.run.recompute.norm_layers = n; }),
    count("output-layer-slice-num", 1, kMostCount, [](Draft& d, std::int64_t n) { d.run.loss.output_slices = n; }),
    count("cla-share-factor", 1, 100'000, [](Draft& d, std::int64_t n) { d.run.model.attention.share_factor = n; }),
    on_off("post-norm", [](Draft& d, bool on) { d.run.model.output_norms |= on; }),
    on_off("sandwich-norm", [](Draft& d, bool on) { d.run.model.output_norms |= on; }),
    on_off("mla-fa-without-pad", [](Draft& d, bool on) { d.run.model.attention.v_without_padding = on; }),
    on_off("use-ascend-coc", [](Draft& d, bool on) { d.run.fused_coc = on; }),
    on_off("no-pad-to-seq-lengths", [](Draft& d, bool on) { d.unpadded_samples = on; }),
    on_off("neat-pack", [](Draft& d, bool on) { d.packed_samples = on; }),
    text("stage", set_stage),
};

}  // namespace

std::span<const ArgumentRow> mindspeed_arguments() {
  return kRows;
}

}  // namespace tidemark::framework
