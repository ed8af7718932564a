#pragma once
// Parameters and what they drag along, per pipeline rank.

#include <cstdint>

#include "core/bytes.h"
#include "core/machine.h"
#include "planner/graph_build/job_spec.h"
#include "planner/graph_build/parameter_count.h"

namespace tidemark::graph_build {

/// One device of a rank.
struct StaticMemory {
  std::int64_t dense_parameters = 0;   ///< elements on this device outside routed experts
  std::int64_t expert_parameters = 0;  ///< elements on this device in routed experts
  Bytes parameter_bytes = 0;
  Bytes gradient_bytes = 0;
  Bytes optimizer_bytes = 0;
  Bytes offloadable_bytes = 0;     ///< of these; the others are on the device all step
  Bytes largest_update_bytes = 0;  ///< of the offloadable ones, what one op touches at most
  [[nodiscard]] Bytes total() const { return parameter_bytes + gradient_bytes + optimizer_bytes; }
  /// No plan has less on the device at its peak that leaves up to `host_bytes` of this in host memory between steps:
  /// what an update touches is there while it runs.
  [[nodiscard]] Bytes least_device_bytes(Bytes host_bytes) const;
};
[[nodiscard]] StaticMemory static_memory(const JobSpec& job, std::int32_t rank);

/// Memory no plan places: context, workspace, collective buffers of `communicators`, what the framework keeps.
struct ReserveMemory {
  Bytes context_bytes = 0;
  Bytes workspace_bytes = 0;
  Bytes collective_bytes = 0;
  Bytes framework_bytes = 0;
  [[nodiscard]] Bytes total() const { return context_bytes + workspace_bytes + collective_bytes + framework_bytes; }
};
[[nodiscard]] ReserveMemory reserve_memory(const Machine& machine, const ParallelSpec& parallel);
/// Of a given step, of which nothing says what communicators it has.
[[nodiscard]] ReserveMemory reserve_memory(const Machine& machine);

/// Model FLOPs of one token, forward and backward, MTP included.
struct TokenFlops {
  double full_square =
      0;              ///< attention counted over the whole square, V padded to the query-key head (the report's way)
  double causal = 0;  ///< attention counted below the diagonal, V unpadded
  // Of layers with a window, the keys inside it alone, before the query and (the square) as many behind.
};
[[nodiscard]] TokenFlops flops_per_token(const ModelSpec& model);

}  // namespace tidemark::graph_build
