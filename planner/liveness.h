#pragma once
// Liveness of storages over a Graph, and the gaps a policy may decide. O(ops + accesses).

#include <vector>

#include "core/graph.h"
#include "core/liveness.h"

namespace tidemark {

/// Live ranges, touches and live bytes with everything kept. Storages of role parameter, gradient and optimizer_state live
/// from op 0 to the end.
[[nodiscard]] Liveness analyse_liveness(const Graph& graph);

/// Per storage: the gaps between consecutive touches that are at least `min_ops` ops long, in storage order. Only storages that
/// are swappable or an output of a recipe, and that do not live all step.
[[nodiscard]] std::vector<Gap> find_gaps(const Graph& graph, const Liveness& liveness, std::int32_t min_ops);

/// For each op, the ops of *other* lanes it must wait for (data read after written, written after read or written), in CSR form;
/// waits implied by FIFO order or by an earlier wait of the same lane are left out.
struct OpWaits {
  std::vector<std::int32_t> first;  ///< one more than ops
  std::vector<OpId> predecessors;
};
[[nodiscard]] OpWaits analyse_waits(const Graph& graph);

}  // namespace tidemark
