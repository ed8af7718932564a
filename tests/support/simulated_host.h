#pragma once
// A host as a folder of the files that device/host_topology.h and device/process_places.h read.

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "device/cpu_list.h"

namespace tidemark::testing {

struct SimulatedNode {
  std::vector<CpuList> cores;  ///< hardware threads of each
  Bytes memory_bytes = 64 * kGiB;
};

struct SimulatedAccelerator {
  std::string pci_address;
  int node = -1;
  std::string vendor = "0x10de", kind = "0x030200";
};

struct SimulatedProcess {
  std::string cpus, memory_nodes, policy = "default";
  std::string parents_cpus;  ///< empty: there is no parent
};

/// The folder is gone when this is.
class SimulatedHost {
 public:
  SimulatedHost(const std::vector<SimulatedNode>& nodes, const std::vector<SimulatedAccelerator>& accelerators,
                const SimulatedProcess& process) {
    static std::atomic<int> count{0};
    root_ = std::filesystem::temp_directory_path() / fmt::format("tidemark_host_{}_{}", getpid(), count++);
    CpuList online, numbers;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      numbers.push_back(static_cast<int>(i));
      online = in_either(online, write_node(nodes, i));
    }
    write("sys/devices/system/cpu/online", text_of_list(online) + "\n");
    write("sys/devices/system/node/online", text_of_list(numbers) + "\n");
    for (const SimulatedAccelerator& a : accelerators) {
      const std::string folder = "sys/bus/pci/devices/" + a.pci_address;
      write(folder + "/class", a.kind + "\n");
      write(folder + "/vendor", a.vendor + "\n");
      write(folder + "/numa_node", fmt::format("{}\n", a.node));
    }
    write_process("self", process);
  }
  ~SimulatedHost() {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }
  SimulatedHost(const SimulatedHost&) = delete;
  SimulatedHost& operator=(const SimulatedHost&) = delete;

  [[nodiscard]] std::string root() const { return root_.string(); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  [[nodiscard]] std::string read(const std::string& path) const {
    std::ifstream file(root_ / path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void remove(const std::string& path) const { std::filesystem::remove_all(root_ / path); }

  void write_process(const std::string& id, const SimulatedProcess& process) const {
    constexpr int kParent = 40;
    const auto status = [](const std::string& cpus, const std::string& memory_nodes, int parent) {
      return fmt::format("Name:\tpython\nPPid:\t{}\nCpus_allowed_list:\t{}\nMems_allowed_list:\t{}\n", parent, cpus,
                         memory_nodes);
    };
    const bool has_parent = !process.parents_cpus.empty();
    write(fmt::format("proc/{}/status", id), status(process.cpus, process.memory_nodes, has_parent ? kParent : 0));
    write(
        fmt::format("proc/{}/numa_maps", id),
        fmt::format("55d0c0000000 {} file=/usr/bin/python3 mapped=3 N0=2 N1=1 kernelpagesize_kB=4\n", process.policy));
    if (has_parent)
      write(fmt::format("proc/{}/status", kParent), status(process.parents_cpus, process.memory_nodes, 1));
  }
  void write_thread(const std::string& process, int id, const std::string& name, const std::string& cpus) const {
    write(fmt::format("proc/{}/task/{}/status", process, id),
          fmt::format("Name:\t{}\nCpus_allowed_list:\t{}\n", name, cpus));
  }

 private:
  CpuList write_node(const std::vector<SimulatedNode>& nodes, std::size_t i) const {
    CpuList cpus;
    for (const CpuList& core : nodes[i].cores) {
      cpus = in_either(cpus, core);
      for (const int cpu : core)
        write(fmt::format("sys/devices/system/cpu/cpu{}/topology/core_cpus_list", cpu), text_of_list(core) + "\n");
    }
    const std::string folder = fmt::format("sys/devices/system/node/node{}", i);
    write(folder + "/cpulist", (cpus.empty() ? "" : text_of_list(cpus)) + "\n");
    write(folder + "/meminfo",
          fmt::format("Node {} MemTotal:       {} kB\nNode {} MemFree: 1 kB\n", i, nodes[i].memory_bytes / kKiB, i));
    std::string distances;
    for (std::size_t k = 0; k < nodes.size(); ++k)
      distances += fmt::format("{}{}", k == 0 ? "" : " ", k == i ? 10 : 21 + static_cast<int>(k > i ? k - i : i - k));
    write(folder + "/distance", distances + "\n");
    return cpus;
  }

  std::filesystem::path root_;
};

/// Two nodes of eight cores with two hardware threads each, as Linux numbers them: cores first, then their second
/// threads. Two accelerators a node.
inline std::vector<SimulatedNode> two_sockets() {
  std::vector<SimulatedNode> nodes(2);
  for (int core = 0; core < 16; ++core) nodes[core < 8 ? 0 : 1].cores.push_back({core, core + 16});
  return nodes;
}
inline std::vector<SimulatedAccelerator> two_a_socket() {
  return {{.pci_address = "0000:3b:00.0", .node = 0},
          {.pci_address = "0000:5e:00.0", .node = 0},
          {.pci_address = "0000:af:00.0", .node = 1},
          {.pci_address = "0000:d8:00.0", .node = 1}};
}

}  // namespace tidemark::testing
