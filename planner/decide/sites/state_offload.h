#pragma once
// State that persists (Adam's moments and master weights), offloaded: at rest in host memory between steps, on the
// device from a copy in ahead of the ops that touch it to a copy out behind them. Storages come and go in the order in
// which they are touched, so many at a time as fit beside the rest of the step; where fewer fit than the links could
// carry, the ops wait, and that is the price. Between steps such a storage takes no device memory: it is made in host
// memory, and a checkpoint reads it there.

#include <cstdint>
#include <span>
#include <vector>

#include "core/graph.h"
#include "core/liveness.h"
#include "core/machine.h"
#include "core/plan.h"
#include "core/schedule.h"
#include "planner/simulate/simulator.h"

namespace tidemark::decide::sites {

struct StateOffload {
  Plan plan;                     ///< swaps alone, two rows for each storage (Plan::Swap)
  Bytes bytes = 0;               ///< at rest in host memory
  std::int64_t exposed_ns = 0;   ///< modelled: how much longer the step is for the copies
  std::int64_t overhead_ns = 0;  ///< launches and memory bandwidth of the copies
  [[nodiscard]] std::int64_t added_ns() const { return exposed_ns + overhead_ns; }
};

/// What may be offloaded, in the order of the first op that touches it: what persists, may be swapped and is touched in
/// less than half of the nominal step.
[[nodiscard]] std::vector<StorageId> offloadable_state(const Graph& graph, const Liveness& liveness,
                                                       const simulate::Timeline& nominal);

/// Which state to offload, and the device budget that its coming and going must respect.
struct OffloadChoice {
  std::vector<StorageId> storages;  ///< of offloadable_state, in its order
  Bytes device_budget = 0;
};

struct OffloadInput {
  const Graph& graph;
  const Liveness& liveness;
  const Machine& machine;
  const simulate::Timeline& nominal;          ///< per op, with everything kept
  std::span<const std::int64_t> op_ns;        ///< per op
  std::span<const std::int64_t> template_ns;  ///< per op template: what a recompute takes
  std::span<const OpId> compute_ops;          ///< ascending
  std::span<const Bytes> keep_all_bytes;  ///< per half-step of the compute clock, with everything kept on the device
};

/// Exposed time is an estimate from above, as if whatever is late delayed all that follows. Where the budget has no
/// room for a storage even alone it comes all the same, and the step overflows there. O(half-steps * storages) at
/// worst.
[[nodiscard]] StateOffload offload_state(const OffloadInput& input, const OffloadChoice& choice);

/// When a schedule ends if messages from other ranks arrive as in the nominal step. O(tasks + waits).
[[nodiscard]] std::int64_t finish_alone_ns(const OffloadInput& input, const Schedule& schedule);

}  // namespace tidemark::decide::sites
