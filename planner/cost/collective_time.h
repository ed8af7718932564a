#pragma once
// Seconds of collectives over a group of ranks, from where its ranks lie and what the links reach. Modelled.
//
// A group of ranks `stride` devices apart, four a node:
//
//   node 0            node 1
//   [0 . 1 . 2 . 3 .] [4 . 5 . 6 . 7 .]     inside a node a ring runs at the node's link; between nodes each of the
//                                           `per_node` rings that can run beside each other has a link of its own

#include <cstdint>

#include "core/chip.h"
#include "core/graph.h"

namespace tidemark::cost {

struct GroupSpan {
  std::int64_t ranks = 1;
  std::int64_t per_node = 1;  ///< of them in one node
  [[nodiscard]] double nodes() const { return static_cast<double>(ranks) / static_cast<double>(per_node); }
};

/// Of `ranks` ranks whose neighbours are `stride` devices apart; both >= 1.
[[nodiscard]] GroupSpan group_span(std::int64_t ranks, std::int64_t stride, const Chip& device);

/// The cluster's network, as a run has it.
struct Network {
  double share = 1;           ///< of the device file's link between nodes
  bool has_one_link = false;  ///< gradient rings of DeepSpeed's days: a ring for four devices of a node
};

/// Bytes a second and rank of a ring over the group.
[[nodiscard]] double ring_bytes_per_s(const GroupSpan& span, const Network& network, const Chip& device);

/// Of the hops of one collective: a tree inside the node, one hop a node between nodes.
[[nodiscard]] double collective_latency_s(const GroupSpan& span, const Chip& device);

/// Where this rank sends `bytes` in all: to one rank, in a ring, or to every rank evenly. Of an exchange inside the
/// node alone `per_node` is `ranks`. 0 for one rank.
[[nodiscard]] double sent_s(double bytes, GroupShape::Pattern pattern, const GroupSpan& span, const Network& network,
                            const Chip& chip);

/// All-gather or reduce-scatter (`passes` 1) or all-reduce (2) of `bytes` in full size; 0 for one rank or no bytes.
[[nodiscard]] double ring_s(double bytes, double passes, const GroupSpan& span, const Network& network,
                            const Chip& device);

/// All-to-all where each rank sends `bytes`, evenly; 0 for one rank. `remote_share`: of the bytes for other nodes,
/// those that are sent (1; fewer where a dispatcher sends a token once a node).
[[nodiscard]] double exchange_s(double bytes, double remote_share, const GroupSpan& span, const Network& network,
                                const Chip& device);

/// Bytes / rate of one send between neighbours of a ring, without latency: keys and values of context parallelism.
[[nodiscard]] inline double ring_send_s(double bytes, const GroupSpan& span, const Network& network,
                                        const Chip& device) {
  return bytes / ring_bytes_per_s(span, network, device);
}

}  // namespace tidemark::cost
