#include "device/topology_check.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string>

namespace tidemark {
namespace {

std::string system_file(const HostTopology& host, std::string_view path) {
  return (std::filesystem::path(host.root) / "sys" / path).string();
}

std::string cpulist_file(const HostTopology& host, int node) {
  return system_file(host, fmt::format("devices/system/node/node{}/cpulist", node));
}

std::string cpu_words(const CpuList& cpus) {
  return fmt::format("CPU{} {}", cpus.size() == 1 ? "" : "s", text_of_list(cpus));
}

Status check_nodes(const HostTopology& host) {
  CpuList of_nodes, online;
  for (const HostCore& core : host.cores) online = in_either(online, core.cpus);
  for (std::size_t i = 0; i < host.nodes.size(); ++i) {
    const HostNode& node = host.nodes[i];
    for (std::size_t k = 0; k < i; ++k)
      if (const CpuList both = in_both(host.nodes[k].cpus, node.cpus); !both.empty())
        return bad_input(fmt::format("{}:1: {} {} of node {} as well; each CPU in the list of one node would be right",
                                     cpulist_file(host, node.number), cpu_words(both), both.size() == 1 ? "is" : "are",
                                     host.nodes[k].number));
    of_nodes = in_either(of_nodes, node.cpus);
  }
  const CpuList homeless = in_first_only(online, of_nodes);
  if (homeless.empty()) return {};
  return bad_input(fmt::format("{}:1: {} {} of no node; in the cpulist of one node each would be right",
                               system_file(host, "devices/system/cpu/online"), cpu_words(homeless),
                               homeless.size() == 1 ? "is" : "are"));
}

Status check_cores(const HostTopology& host) {
  for (const HostCore& core : host.cores) {
    const HostNode* const node = host.find_node(core.node);
    if (node == nullptr || in_both(core.cpus, node->cpus) == core.cpus) continue;
    return bad_input(fmt::format("{}: its hardware threads {} are of several nodes; those of one would be right",
                                 system_file(host, fmt::format("devices/system/cpu/cpu{}/topology", core.cpus.front())),
                                 text_of_list(core.cpus)));
  }
  return {};
}

Status check_accelerators(const HostTopology& host) {
  CpuList nodes;
  for (const HostNode& node : host.nodes) nodes.push_back(node.number);
  for (const HostAccelerator& accelerator : host.accelerators) {
    if (accelerator.node < 0 || holds(nodes, accelerator.node)) continue;
    return bad_input(
        fmt::format("{}:1: there is no node {} online; one of {}, or -1 where it is not known, would be right",
                    system_file(host, fmt::format("bus/pci/devices/{}/numa_node", accelerator.pci_address)),
                    accelerator.node, text_of_list(nodes)));
  }
  return {};
}

}  // namespace

Status check_topology(const HostTopology& host) {
  if (Status nodes = check_nodes(host); !nodes) return nodes;
  if (Status cores = check_cores(host); !cores) return cores;
  return check_accelerators(host);
}

Status check_rank_devices(const HostTopology& host, const std::vector<RankDevice>& ranks) {
  std::map<const HostAccelerator*, std::size_t> rank_of;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const HostAccelerator* const device = host.find_accelerator(ranks[rank].name);
    if (device == nullptr) continue;
    const auto [first, is_new] = rank_of.emplace(device, rank);
    if (is_new) continue;
    return bad_input(fmt::format("device '{}': given to ranks {} and {}; a device of its own for each would be right",
                                 device->pci_address, first->second, rank));
  }
  for (const RankDevice& rank : ranks) {
    const HostNode* const node = host.find_node(rank.node);
    if (node == nullptr || !node->cpus.empty()) continue;
    return bad_input(
        fmt::format("{}:1: no CPU of node {} is online, and the rank of device {} needs its CPUs; CPUs there, or a "
                    "device on a node that has some, would be right",
                    cpulist_file(host, node->number), node->number, rank.name));
  }
  return {};
}

}  // namespace tidemark
