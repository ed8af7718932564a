#pragma once
// Nanoseconds of copies to host memory and back. Modelled.

#include <cstdint>

#include "core/graph.h"
#include "core/machine.h"

namespace tidemark::cost {

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
