#include "integrations/configs/own_keys.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tidemark::configs {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kAlike = {
    {{"activation_checkpoint.mode", "recompute-granularity"},
     {"activation_checkpoint.selective_ac_option", "recompute-num-layers"},
     {"parallelism.data_parallel_shard_degree", "use-distributed-optimizer"},
     {"parallelism.disable_loss_parallel", "cross-entropy-loss-fusion"},
     {"training.mixed_precision_reduce", "grad-reduce-in-bf16"},
     {"mixed_precision.grad_reduce_in_fp32", "grad-reduce-in-bf16"},
     {"ddp.grad_reduce_in_fp32", "grad-reduce-in-bf16"},
     {"recompute_config.recompute", "recompute-granularity"}}};

}  // namespace

std::string_view argument_like(std::string_view path) {
  const auto* const found = std::ranges::find(kAlike, path, &std::pair<std::string_view, std::string_view>::first);
  return found != kAlike.end() ? found->second : std::string_view();
}

}  // namespace tidemark::configs
