#pragma once
// Liveness of storages over a Graph, and the gaps a policy may decide. O(ops + accesses).

#include <vector>

#include "core/graph.h"
#include "core/liveness.h"

namespace tidemark::graph_build {

/// Live ranges, touches and live bytes with everything kept. What holds content before the step lives from op 0, what
/// lasts to the end.
[[nodiscard]] Liveness analyse_liveness(const Graph& graph);

/// Per storage: the gaps between consecutive touches with at least `min_ops` (and at least one) other ops in between,
/// in storage order. Only storages that are swappable or an output of a pure recipe, and that do not persist; not where
/// rows wait for other rows of one section (core/row_sections.h), which none may leave and be read in again.
[[nodiscard]] std::vector<Gap> find_gaps(const Graph& graph, const Liveness& liveness, std::int32_t min_ops);

/// For each op, the ops of *other* lanes it must wait for (data read after written, written after read or written), in
/// CSR form; waits implied by FIFO order, by an earlier wait of the same lane, or by another wait of the op are left
/// out, also where they are implied through a third lane: no wait in the result can be removed. Order of accesses
/// counts, not versions.
struct OpWaits {
  std::vector<std::int32_t> first;  ///< one more than ops
  std::vector<OpId> predecessors;
};
[[nodiscard]] OpWaits analyse_waits(const Graph& graph);

}  // namespace tidemark::graph_build
