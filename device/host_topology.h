#pragma once
// What a host is made of, as far as placing threads and pages goes: NUMA nodes, cores with their hardware threads,
// accelerators with the node they hang on. What a process of it may use is in device/process_places.h.
//
// Read from files alone (Documentation/ABI/stable/sysfs-devices-node, .../testing/sysfs-devices-system-cpu,
// .../testing/sysfs-bus-pci), below a folder that is a parameter: "" is this machine, any other a simulated
// one, and output about it says so. What a simulated one needs, with the same contents as on a machine:
//
//   sys/devices/system/cpu/online                         "0-15"
//   sys/devices/system/cpu/cpuN/topology/core_cpus_list   hardware threads of its core; thread_siblings_list on kernels
//                                                         before 5.3; neither: a core of its own
//   sys/devices/system/node/online                        no such file: one node that has everything
//   sys/devices/system/node/nodeN/cpulist, distance, meminfo
//   sys/bus/pci/devices/ADDRESS/class, vendor, numa_node
//
// A file that says something else is an Error with its name: a machine that cannot be read is not guessed at. So is a
// simulated host that cannot exist (device/topology_check.h).
// Cost: a file a CPU, about 10 us each. Threads: any.

#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "device/cpu_list.h"

namespace tidemark {

struct HostNode {
  int number = 0;
  CpuList cpus;                ///< online; none: a node of memory alone
  Bytes memory_bytes = 0;      ///< 0: a node without memory
  std::vector<int> distances;  ///< to each of HostTopology::nodes, 10 for itself (ACPI SLIT); empty: not said
};

/// A core and its hardware threads.
struct HostCore {
  CpuList cpus;   ///< at least one
  int node = -1;  ///< -1: of no node
};

/// A PCI device that computes.
struct HostAccelerator {
  std::string pci_address;  ///< as sysfs names it: "0000:3b:00.0"
  int vendor = 0;           ///< PCI-SIG's number
  int node = -1;            ///< -1: the firmware does not say
};

struct HostTopology {
  std::string root;                           ///< "": this machine; else simulated
  std::vector<HostNode> nodes;                ///< by number, at least one
  std::vector<HostCore> cores;                ///< by their first CPU, at least one
  std::vector<HostAccelerator> accelerators;  ///< by PCI address

  [[nodiscard]] bool simulated() const { return !root.empty(); }
  /// nullptr: there is none.
  [[nodiscard]] const HostNode* find_node(int number) const;
  [[nodiscard]] const HostAccelerator* find_accelerator(std::string_view pci_address) const;
};

/// `root` as described above. Errors (bad_input): no such machine, a file that is malformed, files of a simulated one
/// that contradict each other.
[[nodiscard]] Result<HostTopology> read_host_topology(const std::string& root = "");

/// PCI-SIG's numbers of those whose devices Tidemark runs on.
inline constexpr int kNvidiaVendor = 0x10de, kHuaweiVendor = 0x19e5;

/// The node that all accelerators hang on, or all of a vendor; -1: there are none, on several, or one that is not
/// known.
[[nodiscard]] int node_of_all(const HostTopology& host, int vendor = 0);

/// MemTotal of "Node 0 MemTotal:  4679884 kB" lines; `place` names the file in errors. Errors (bad_input): no such
/// line.
[[nodiscard]] Result<Bytes> read_node_memory(std::string_view text, std::string_view place);

/// "0000:3b:00.0" of what drivers print: any case, a domain of more digits or none. Empty: no PCI address.
[[nodiscard]] std::string plain_pci_address(std::string_view address);

}  // namespace tidemark
