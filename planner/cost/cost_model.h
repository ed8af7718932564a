#pragma once
// Nanoseconds from work: the only place where a Machine's rates meet an op's FLOPs, bytes and link traffic. Modelled.

#include <cstdint>
#include <vector>

#include "core/graph.h"
#include "core/machine.h"

namespace tidemark::cost {

/// Time of one op on its lane at expert load `load`: what its kernels take, or the host's launch where that is longer;
/// of collectives their hops and the transfer. `given` costs are taken as they are, a quantum for a nanosecond.
/// Receives take no lane time.
[[nodiscard]] std::int64_t op_ns(const OpTemplate& op, const Machine& machine, double load);
/// Of one of so many chunks of its rows, unrounded: what is launched, or has latency, takes that in each.
[[nodiscard]] double chunk_ns(const OpTemplate& op, const Machine& machine, double load, std::int32_t chunks);

/// Per op of the graph; `time_scale` multiplies compute-lane times (1: as modelled).
[[nodiscard]] std::vector<std::int64_t> op_durations(const Graph& graph, const Machine& machine,
                                                     double time_scale = 1.0);

struct CopyCost {
  std::int64_t link_ns = 0;     ///< occupation of the D2H or H2D lane
  std::int64_t compute_ns = 0;  ///< taken from the compute lane: launch + a share of device memory bandwidth
};
[[nodiscard]] CopyCost copy_out_cost(Bytes bytes, const Machine& machine);
[[nodiscard]] CopyCost copy_in_cost(Bytes bytes, const Machine& machine);
/// Of a storage of a graph: what its source gives (StorageTemplate::given_copies), or what the machine takes.
[[nodiscard]] CopyCost copy_out_cost(const Graph& graph, StorageId storage, const Machine& machine);
[[nodiscard]] CopyCost copy_in_cost(const Graph& graph, StorageId storage, const Machine& machine);

}  // namespace tidemark::cost
