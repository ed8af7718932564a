#include "device/binding_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>

namespace tidemark {
namespace {

/// Copy threads get a quarter of a share, to so many cores (the header has the source).
constexpr std::size_t kCopyPart = 4, kMostCopyCores = 4;

/// A core as far as it may be used: at least one CPU.
using UsableCores = std::map<int, std::vector<CpuList>>;  ///< by node, in the order of the topology

UsableCores usable_cores(const HostTopology& host, const CpuList& allowed) {
  UsableCores usable;
  for (const HostCore& core : host.cores) {
    CpuList cpus = in_both(core.cpus, allowed);
    if (!cpus.empty()) usable[core.node].push_back(std::move(cpus));
  }
  return usable;
}

/// SLIT distances where the firmware gives them; else one's own node before all others.
int distance(const HostTopology& host, int from, int to) {
  // ACPI 6.5, 5.2.17: 10 is local, 255 out of reach. Linux takes 20 for what is not said.
  constexpr int kOwn = 10, kOther = 20, kUnreachable = 255;
  const HostNode* const node = host.find_node(from);
  if (to < 0) return kUnreachable;
  for (std::size_t i = 0; node != nullptr && i < node->distances.size(); ++i)
    if (host.nodes[i].number == to) return node->distances[i];
  return from == to ? kOwn : kOther;
}

/// The nearest of `candidates`, the lowest number among equals. REQUIRES: there is one.
int nearest(const HostTopology& host, int from, const CpuList& candidates) {
  return *std::min_element(candidates.begin(), candidates.end(), [&](int a, int b) {
    return std::tuple(distance(host, from, a), a) < std::tuple(distance(host, from, b), b);
  });
}

CpuList keys_of(const UsableCores& usable) {
  CpuList keys;
  for (const auto& [node, cores] : usable) keys.push_back(node);
  return keys;
}

/// The node with the most cores to a rank, this one included; the lowest number among equals.
int emptiest(const UsableCores& usable, const std::map<int, std::size_t>& ranks_on) {
  const auto per_rank = [&](int node) {
    const auto found = ranks_on.find(node);
    return static_cast<double>(usable.at(node).size()) /
           static_cast<double>(1 + (found == ranks_on.end() ? 0 : found->second));
  };
  const CpuList nodes = keys_of(usable);
  return *std::max_element(nodes.begin(), nodes.end(), [&](int a, int b) { return per_rank(a) < per_rank(b); });
}

/// Homes of the ranks, by rank. REQUIRES: there is a core.
std::vector<int> find_homes(const HostTopology& host, const UsableCores& usable, const std::vector<RankDevice>& ranks) {
  std::vector<int> homes(ranks.size(), -1);
  std::map<int, std::size_t> ranks_on;
  for (const bool known : {true, false}) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if ((ranks[rank].node >= 0) != known) continue;
      homes[rank] = known ? nearest(host, ranks[rank].node, keys_of(usable)) : emptiest(usable, ranks_on);
      ++ranks_on[homes[rank]];
    }
  }
  return homes;
}

CpuList joined(const std::vector<CpuList>& cores, std::size_t first, std::size_t last) {
  CpuList cpus;
  for (std::size_t i = first; i < last; ++i) cpus = in_either(cpus, cores[i]);
  return cpus;
}

/// [first, last) of a node's cores between the main thread and copies.
void divide_share(const std::vector<CpuList>& cores, std::size_t first, std::size_t last, RankBinding& rank) {
  const std::size_t count = last - first;
  if (count > 1) {
    const std::size_t copy = std::clamp<std::size_t>(count / kCopyPart, 1, kMostCopyCores);
    rank.main_cpus = joined(cores, first, last - copy);
    rank.copy_cpus = joined(cores, last - copy, last);
    return;
  }
  const CpuList& threads = cores[first];
  rank.main_cpus = {threads.front()};
  rank.copy_cpus = {threads.back()};
}

/// The ranks of one home take its cores.
void deal(const std::vector<CpuList>& cores, const std::vector<RankBinding*>& ranks) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    RankBinding& rank = *ranks[i];
    rank.ranks_at_home = static_cast<int>(ranks.size());
    rank.shares_cores = ranks.size() > cores.size();
    if (rank.shares_cores) {
      divide_share(cores, i % cores.size(), i % cores.size() + 1, rank);
    } else {
      divide_share(cores, i * cores.size() / ranks.size(), (i + 1) * cores.size() / ranks.size(), rank);
    }
  }
}

/// Nodes of memory alone are a device's own (HBM behind NVLink-C2C, CXL) and taken only where there are no others.
int memory_node_of(const HostTopology& host, const ProcessPlaces& places, const RankBinding& rank) {
  if (rank.device_node < 0) return -1;
  CpuList with_cpus, all;
  for (const HostNode& node : host.nodes) {
    const bool may = places.memory_nodes.empty() || holds(places.memory_nodes, node.number);
    if (!may || node.memory_bytes == 0) continue;
    all.push_back(node.number);
    if (!node.cpus.empty()) with_cpus.push_back(node.number);
  }
  if (all.empty()) return -1;
  return nearest(host, rank.device_node, with_cpus.empty() ? all : with_cpus);
}

/// The only node where there is one; else the accelerator's, if it is online.
int node_of_device(const HostTopology& host, int node) {
  if (host.nodes.size() == 1) return host.nodes.front().number;
  return host.find_node(node) != nullptr ? node : -1;
}

Result<RankDevice> read_rank_device(std::string_view text, const HostTopology& host) {
  RankDevice device{.name = std::string(text)};
  if (text == "none" || text == "unknown") {
    device.node = node_of_device(host, text == "none" ? -1 : node_of_all(host));
    return device;
  }
  if (const HostAccelerator* const found = host.find_accelerator(text); found != nullptr) {
    device.node = node_of_device(host, found->node);
    return device;
  }
  const std::string_view number = text.starts_with("node") ? text.substr(4) : std::string_view();
  const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), device.node);
  const bool read = !number.empty() && error == std::errc{} && stop == number.data() + number.size();
  if (read && host.find_node(device.node) != nullptr) return device;
  std::string nodes, known;
  for (const HostNode& node : host.nodes) nodes += fmt::format(", node{}", node.number);
  for (const HostAccelerator& accelerator : host.accelerators) known += accelerator.pci_address + ", ";
  return bad_input(fmt::format("device '{}': not on this host; one of {}unknown, none{} would be right",
                               text.substr(0, 60), known, nodes));
}

}  // namespace

Result<std::vector<RankDevice>> read_rank_devices(std::string_view text, const HostTopology& host) {
  std::vector<RankDevice> devices;
  for (std::size_t comma = 0; comma != std::string_view::npos; text.remove_prefix(std::min(comma + 1, text.size()))) {
    comma = text.find(',');
    Result<RankDevice> device = read_rank_device(text.substr(0, comma), host);
    if (!device) return device.error();
    devices.push_back(std::move(device).value());
    if (comma == std::string_view::npos) break;
  }
  return devices;
}

std::vector<RankDevice> all_accelerators(const HostTopology& host) {
  std::vector<RankDevice> devices;
  for (const HostAccelerator& accelerator : host.accelerators)
    devices.push_back({.name = accelerator.pci_address, .node = node_of_device(host, accelerator.node)});
  return devices;
}

BindingPlan plan_binding(const HostTopology& host, const ProcessPlaces& places, const std::vector<RankDevice>& ranks) {
  BindingPlan plan{.ranks = std::vector<RankBinding>(ranks.size())};
  const UsableCores usable = usable_cores(host, places.cpus);
  const std::vector<int> homes = usable.empty() ? std::vector<int>(ranks.size(), -1) : find_homes(host, usable, ranks);
  std::map<int, std::vector<RankBinding*>> by_home;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    RankBinding& rank = plan.ranks[i];
    rank.device_node = ranks[i].node;
    rank.home = homes[i];
    rank.memory_node = memory_node_of(host, places, rank);
    if (!usable.empty()) by_home[homes[i]].push_back(&rank);
  }
  for (const auto& [home, members] : by_home) deal(usable.at(home), members);
  return plan;
}

CpuList nodes_of(const HostTopology& host, const CpuList& cpus) {
  CpuList nodes;
  for (const HostNode& node : host.nodes)
    if (!in_both(node.cpus, cpus).empty()) nodes.push_back(node.number);
  return nodes;
}

}  // namespace tidemark
