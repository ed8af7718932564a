#include <array>

#include "planner/estimate/argument_rows.h"

namespace tidemark::estimate {
namespace {

std::string_view set_dispatcher(Draft& draft, std::string_view word) {
  if (word == "allgather") {
    draft.run.model.moe.dispatcher = Dispatcher::allgather;
  } else if (word == "alltoall" || word == "alltoall_seq") {
    draft.run.model.moe.dispatcher = Dispatcher::alltoall;
  } else if (word == "flex") {
    draft.run.model.moe.dispatcher = Dispatcher::flex;
  } else {
    return "write allgather, alltoall, alltoall_seq or flex";
  }
  return {};
}

std::string_view set_zero_memory(Draft& draft, std::string_view word) {
  if (word == "disable" || word == "level0" || word == "level1") {
    draft.run.model.moe.zero_memory = word == "level0"   ? ZeroMemory::level0
                                      : word == "level1" ? ZeroMemory::level1
                                                         : ZeroMemory::off;
    return {};
  }
  return "write disable, level0 or level1";
}

constexpr std::array kRows = {
    count("num-experts", 0, kMostCount, [](Draft& d, std::int64_t n) { d.run.model.moe.experts = n; }),
    count("num-moe-experts", 0, kMostCount, [](Draft& d, std::int64_t n) { d.run.model.moe.experts = n; }),
    count("moe-router-topk", 1, kMostCount, [](Draft& d, std::int64_t n) { d.run.model.moe.top_k = n; }),
    count("moe-ffn-hidden-size", 1, kMostWidth, [](Draft& d, std::int64_t n) { d.expert_width = n; }),
    count("moe-intermediate-size", 1, kMostWidth,
          [](Draft& d, std::int64_t n) {
            if (!d.expert_width) d.expert_width = n;
          }),
    count("moe-shared-expert-intermediate-size", 0, kMostWidth, [](Draft& d, std::int64_t n) { d.shared_width = n; }),
    count("n-shared-experts", 0, kMostCount, [](Draft& d, std::int64_t n) { d.shared_experts = n; }),
    on_off("shared-expert-gate", [](Draft& d, bool on) { d.run.model.moe.shared_gate = on; }),
    on_off("moe-shared-expert-gate", [](Draft& d, bool on) { d.run.model.moe.shared_gate = on; }),
    count("moe-latent-size", 0, kMostWidth, [](Draft& d, std::int64_t n) { d.run.model.moe.latent = n; }),
    on_off("moe-grouped-gemm", [](Draft& d, bool on) { d.run.model.moe.grouped_gemm = on; }),
    text("moe-token-dispatcher-type", set_dispatcher),
    real("moe-expert-capacity-factor", -1, 1e6,
         [](Draft& d, double x) { d.run.model.moe.capacity_factor = x > 0 ? x : 0; }),
    on_off("moe-pad-expert-input-to-capacity", [](Draft& d, bool on) { d.run.model.moe.pad_to_capacity = on; }),
    on_off("moe-router-force-load-balancing", [](Draft& d, bool on) { d.run.model.moe.forced_balance = on; }),
    on_off("moe-permute-fusion", [](Draft& d, bool on) { d.run.model.moe.permute_fusion |= on; }),
    on_off("moe-use-legacy-grouped-gemm", [](Draft& d, bool on) { d.run.model.moe.legacy_grouped_gemm = on; }),
    on_off("use-fused-weighted-squared-relu",
           [](Draft& d, bool on) { d.run.model.moe.fused_weighted_squared_relu = on; }),
    on_off("moe-allgather-overlap-comm", [](Draft& d, bool on) { d.run.model.moe.allgather_overlap = on; }),
    text("moe-zero-memory", set_zero_memory),
    count("moe-zero-memory-num-layers", 0, 100'000,
          [](Draft& d, std::int64_t n) { d.run.model.moe.zero_memory_layers = n; }),
    text("moe-layer-freq",
         [](Draft& d, std::string_view t) -> std::string_view {
           d.moe_pattern = t;
           return {};
         }),
    text("expert-interval",
         [](Draft& d, std::string_view t) -> std::string_view {
           d.moe_pattern = t;
           return {};
         }),
    count("first-k-dense-replace", -1, 100'000, [](Draft& d, std::int64_t n) { d.first_dense = n; }),
};

}  // namespace

std::span<const ArgumentRow> expert_arguments() {
  return kRows;
}

}  // namespace tidemark::estimate
