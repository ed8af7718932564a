#include <fmt/format.h>

#include <optional>

#include "planner/estimate/argument_value.h"
#include "planner/estimate/run_derive.h"

namespace tidemark::estimate {
namespace {

constexpr std::int64_t kMostDevices = std::int64_t{1} << 24;
constexpr std::int64_t kMostBufferMib = 1 << 20;

/// `:4096:8`, or several pairs of KiB and count.
bool is_workspace_config(std::string_view text) {
  int numbers = 0;
  while (!text.empty()) {
    if (text.front() == ':') text.remove_prefix(1);
    const std::size_t end = std::min(text.find(':'), text.size());
    const auto number = whole_number(text.substr(0, end));
    if (!number || *number < 0 || *number > (1 << 24) || ++numbers > 32) return false;
    text.remove_prefix(end);
  }
  return numbers % 2 == 0;
}

struct Launch {
  std::optional<std::int64_t> nodes, per_node, world;
};

bool read_count(std::string_view text, std::optional<std::int64_t>& out) {
  out = whole_number(text);
  return out && *out >= 1 && *out <= kMostDevices;
}

/// Switches of Transformer Engine that rule an attention kernel out.
struct Kernels {
  bool flash = true;
  bool fused = true;
};

AttentionBackend backend_of(const Kernels& kernels, AttentionBackend asked) {
  if (asked != AttentionBackend::automatic || (kernels.flash && kernels.fused)) return asked;
  if (kernels.flash) return AttentionBackend::flash;
  return kernels.fused ? AttentionBackend::fused : AttentionBackend::unfused;
}

}  // namespace

Problem read_environment(Draft& draft, const std::vector<Argument>& environment) {
  Platform& platform = draft.run.platform;
  Launch launch;
  Kernels kernels;
  for (const Argument& variable : environment) {
    const std::string& name = variable.name;
    const std::string& value = variable.value;
    bool right = true;
    if (name == "CUBLAS_WORKSPACE_CONFIG") {
      right = is_workspace_config(value);
      platform.cublas_workspace_config = value;
    } else if (name == "NVTE_ALLOW_NONDETERMINISTIC_ALGO") {
      platform.allow_nondeterministic = value != "0";
    } else if (name == "NVTE_FLASH_ATTN") {
      kernels.flash = value != "0";
    } else if (name == "NVTE_FUSED_ATTN") {
      kernels.fused = value != "0";
    } else if (name == "PYTORCH_CUDA_ALLOC_CONF" || name == "PYTORCH_NPU_ALLOC_CONF" || name == "PYTORCH_ALLOC_CONF") {
      platform.expandable_segments |= lower_case(value).find("expandable_segments:true") != std::string::npos;
    } else if (name == "HCCL_BUFFSIZE") {
      const auto mib = whole_number(value);
      right = mib && *mib >= 0 && *mib <= kMostBufferMib;
      if (right) platform.collective_buffer_bytes = *mib << 20;
    } else if (name == "NNODES") {
      right = read_count(value, launch.nodes);
    } else if (name == "NPUS_PER_NODE" || name == "GPUS_PER_NODE" || name == "NPROC_PER_NODE") {
      right = read_count(value, launch.per_node);
    } else if (name == "WORLD_SIZE") {
      right = read_count(value, launch.world);
    }
    if (!right) return RunProblem{name, fmt::format("{} is not a value this variable takes", quoted(value))};
  }
  draft.run.model.attention.backend = backend_of(kernels, draft.run.model.attention.backend);
  if (draft.devices_per_node) launch.per_node = draft.devices_per_node;
  if (draft.nodes) launch.nodes = draft.nodes;
  if (platform.devices == 0) {
    if (launch.per_node) {
      platform.devices = *launch.per_node * launch.nodes.value_or(1);
    } else {
      platform.devices = launch.world.value_or(0);
    }
  }
  if (platform.devices < 0 || platform.devices > kMostDevices)
    return RunProblem{"nnodes",
                      fmt::format("{} devices are more than the {} that are modelled", platform.devices, kMostDevices)};
  return std::nullopt;
}

}  // namespace tidemark::estimate
