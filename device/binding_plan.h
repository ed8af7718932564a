#pragma once
// Which CPUs and which memory node each rank of a host gets: a function of the topology, of what the processes may use,
// and of the ranks' devices.
//
// The rules.
//   - A rank's home is the node of its device. Where that has no CPU that may be used, it is the nearest node that has;
//     where the device's node is not known, the node with the most cores to a rank, after all others have a home.
//   - The cores of a home are dealt to its ranks in rank order, in equal consecutive shares, whole cores with all their
//     hardware threads: ranks never share a core while there is one for each. With more ranks than cores, rank by rank
//     in turn, and the plan says so (`shares_cores`).
//   - Of a share of two cores or more the last quarter, one to four cores, is for copy threads, the rest for the thread
//     that trains and what it starts; of a single core with two hardware threads each gets one. Four threads copy as
//     fast as a node's memory lets them, eight are hardly faster (mori issue 392: 54.8 against 57.2 GiB/s).
//   - Memory is the home's where it has some that may be used, else the nearest node's; with a device whose node is not
//     known, nowhere in particular.
// Every rank of a host that asks with the same list gets the same plan, so that no rank need ask another.
// Threads: any.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "device/host_topology.h"
#include "device/process_places.h"

namespace tidemark {

/// What is known about where a rank's device hangs.
struct RankDevice {
  std::string name;  ///< as given: a PCI address, "node1", "unknown", "none"
  int node = -1;     ///< -1: not known
};

/// "0000:3b:00.0,node1,unknown,none": a device a rank, in rank order; `none`: the rank has no device, `unknown`: one of
/// the host's accelerators. An accelerator's node is the topology's, of an unknown one where all hang on one; a host of
/// one node has all devices on it. Errors (bad_input): none of these, no such device or node on this host.
[[nodiscard]] Result<std::vector<RankDevice>> read_rank_devices(std::string_view text, const HostTopology& host);
/// Every accelerator of the host, one a rank.
[[nodiscard]] std::vector<RankDevice> all_accelerators(const HostTopology& host);

struct RankBinding {
  int device_node = -1;   ///< the device's; -1: not known
  int home = -1;          ///< whose CPUs these are
  CpuList main_cpus;      ///< for the thread that trains and all it starts
  CpuList copy_cpus;      ///< for threads that copy or get pinned memory; the main thread's where there are no others
  int memory_node = -1;   ///< -1: left to the kernel
  int ranks_at_home = 0;  ///< that divide the home's cores, this one included
  bool shares_cores = false;  ///< with other ranks: they are more than there are cores
};

struct BindingPlan {
  std::vector<RankBinding> ranks;
};

/// REQUIRES: the topology is that of places. A rank gets no CPUs only where `places` has none of this host.
[[nodiscard]] BindingPlan plan_binding(const HostTopology& host, const ProcessPlaces& places,
                                       const std::vector<RankDevice>& ranks);

/// Nodes of the host that have one of these CPUs.
[[nodiscard]] CpuList nodes_of(const HostTopology& host, const CpuList& cpus);

}  // namespace tidemark
