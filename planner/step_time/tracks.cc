#include "planner/step_time/tracks.h"

#include <algorithm>
#include <array>

namespace tidemark::step_time {
namespace {

constexpr std::array<std::string_view, 5> kShardedWeights = {"foundry", "titan", "fms", "internevo", "jax"};

bool is_blackwell(std::string_view device) {
  return device.starts_with("gb") || device.starts_with("b");
}

/// Of experiments that are tracks of their own; empty: none of them.
std::string_view own_track(std::string_view software) {
  if (software == "vtrain") return "1 vtrain single";
  if (software == "vtrain-multi") return "2 vtrain multi";
  if (software == "megatron-2022") return "2b korthikanti";
  if (software == "megatron-2021") return "2c sc21";
  return "";
}

}  // namespace

std::string track_of(const TrackWords& words) {
  if (const std::string_view own = own_track(words.software); !own.empty()) return std::string(own);
  if (words.device.starts_with("ascend")) return words.is_moe ? "6 ascend moe" : "6 ascend dense";
  if (is_blackwell(words.device)) return words.is_moe ? "9 blackwell moe" : "9 blackwell dense";
  if (words.is_moe) return words.precision.starts_with("fp8") ? "5 moe fp8" : "5 moe bf16";
  const bool is_bf16 = words.precision == "bf16";
  const bool is_sharded = std::ranges::find(kShardedWeights, words.software) != kShardedWeights.end();
  if (is_sharded) return is_bf16 ? "3 fsdp bf16" : "3 fsdp fp8";
  return is_bf16 ? "4 h100 bf16" : "4 h100 fp8";
}

}  // namespace tidemark::step_time
