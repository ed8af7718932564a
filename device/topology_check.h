#pragma once
// Whether a simulated host could exist. The kernel of a real machine is believed: read_host_topology() asks here only
// about hosts made of files.

#include "core/result.h"
#include "device/binding_plan.h"
#include "device/host_topology.h"

namespace tidemark {

/// Every online CPU is of one node, every core lies on one, every accelerator names a node that is there. Nodes of
/// memory alone are hosts as any others. Errors (bad_input): `file:line: what, and what would be right`. Threads: any.
[[nodiscard]] Status check_topology(const HostTopology& host);

/// What a binding of these ranks needs of a simulated host: a device of its own for each, and CPUs on its node. Two
/// ranks that name a node share it, and are no mistake. Errors and threads as above.
[[nodiscard]] Status check_rank_devices(const HostTopology& host, const std::vector<RankDevice>& ranks);

}  // namespace tidemark
