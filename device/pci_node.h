#pragma once
// Which NUMA node a PCI device hangs on, as the kernel says in /sys/bus/pci/devices/<id>/numa_node.

#include <string>

namespace tidemark {

/// `bus_id` like 0000:3B:00.0. -1: unknown, or the machine has one node only.
[[nodiscard]] int pci_numa_node(std::string bus_id);

}  // namespace tidemark
