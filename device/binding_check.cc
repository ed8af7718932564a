#include "device/binding_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace tidemark {
namespace {

std::string node_words(const CpuList& nodes) {
  return (nodes.size() == 1 ? "node " : "nodes ") + text_of_list(nodes);
}

/// "device 0000:3b:00.0", "devices 0000:3b:00.0, 0000:5e:00.0": each once, in order.
std::string device_words(const std::vector<const RankDevice*>& devices) {
  std::vector<std::string> names;
  for (const RankDevice* const device : devices)
    if (std::find(names.begin(), names.end(), device->name) == names.end()) names.push_back(device->name);
  return fmt::format("{} {}", names.size() == 1 ? "device" : "devices", fmt::join(names, ", "));
}

class Check {
 public:
  Check(const HostTopology& host, const ProcessPlaces& places, const std::vector<RankDevice>& ranks,
        const BindingPlan& plan, DevicesMeant meant)
      : host_(host), places_(places), ranks_(ranks), plan_(plan), meant_(meant) {
    for (const RankDevice& device : ranks_)
      if (device.node >= 0) on_node_[device.node].push_back(&device);
    for (const auto& [node, devices] : on_node_) device_nodes_.push_back(node);
  }

  std::vector<BindingProblem> run() {
    if (!may_run()) return std::move(problems_);
    if (host_.nodes.size() > 1) {
      look_for_unknown_nodes();
      look_for_far_cpus();
      look_for_far_memory();
      look_for_policy();
      look_for_far_threads();
    }
    look_for_few_cores();
    return std::move(problems_);
  }

 private:
  void add(std::string what, std::string right) { problems_.push_back({std::move(what), std::move(right)}); }

  /// Of nodes that are wrong for their devices, those to be told of.
  [[nodiscard]] CpuList counted(CpuList wrong) const {
    if (meant_ == DevicesMeant::any && wrong.size() < device_nodes_.size()) wrong.clear();
    return wrong;
  }

  /// False, and told: on no CPU at all.
  [[nodiscard]] bool may_run() {
    for (const HostCore& core : host_.cores)
      if (!in_both(core.cpus, places_.cpus).empty()) return true;
    add(fmt::format("the process may run on CPUs {}, of which none is online", text_of_list(places_.cpus)),
        "an affinity mask within sys/devices/system/cpu/online");
    return false;
  }

  void look_for_unknown_nodes() {
    std::vector<const RankDevice*> unknown;
    for (const RankDevice& device : ranks_)
      if (device.node < 0 && device.name != "none") unknown.push_back(&device);
    if (unknown.empty()) return;
    add(fmt::format("the node of {} is not known", device_words(unknown)),
        "firmware or a hypervisor that says it in sysfs (numa_node), or the node named instead, as node0");
  }

  void look_for_far_cpus() {
    CpuList far;
    for (const int node : device_nodes_) {
      const CpuList& near = host_.find_node(node)->cpus;
      if (!near.empty() && in_both(near, places_.cpus).empty()) far.push_back(node);
    }
    for (const int node : counted(far)) {
      const std::string cpus = text_of_list(host_.find_node(node)->cpus);
      add(fmt::format("the process may run on CPUs {} of {} alone, and {} hang{} on node {}",
                      text_of_list(places_.cpus), node_words(nodes_of(host_, places_.cpus)),
                      device_words(on_node_[node]), on_node_[node].size() == 1 ? "s" : "", node),
          fmt::format("CPUs of node {}: taskset -c {}, or that cpuset for the container", node, cpus));
    }
  }

  [[nodiscard]] bool may_use_memory_of(int node) const {
    return places_.memory_nodes.empty() || holds(places_.memory_nodes, node);
  }

  void look_for_far_memory() {
    CpuList forbidden, without;
    for (const int node : device_nodes_) {
      if (host_.find_node(node)->memory_bytes == 0) {
        without.push_back(node);
      } else if (!may_use_memory_of(node)) {
        forbidden.push_back(node);
      }
    }
    for (const int node : without) {
      const auto rank = std::find_if(plan_.ranks.begin(), plan_.ranks.end(),
                                     [&](const RankBinding& r) { return r.device_node == node; });
      add(fmt::format("node {} of {} has no memory; pinned pages go to node {}", node, device_words(on_node_[node]),
                      rank->memory_node),
          fmt::format("memory modules on node {}", node));
    }
    for (const int node : counted(forbidden)) {
      add(fmt::format("the cpuset allows memory of {} alone, and {} hang{} on node {}",
                      node_words(places_.memory_nodes), device_words(on_node_[node]),
                      on_node_[node].size() == 1 ? "s" : "", node),
          fmt::format("cpuset.mems with node {}", node));
    }
  }

  void look_for_policy() {
    const MemoryPolicy& policy = places_.policy;
    if (device_nodes_.empty() || policy.nodes.empty()) return;
    if (policy.kind == MemoryPolicy::Kind::interleaved && policy.nodes.size() > 1) {
      add(fmt::format("unplaced pages are {}", text_of_policy(policy)),
          fmt::format("pages of {} first: no numactl --interleave", node_words(device_nodes_)));
      return;
    }
    CpuList away;
    for (const int node : device_nodes_)
      if (!holds(policy.nodes, node)) away.push_back(node);
    for (const int node : counted(away)) {
      add(fmt::format("unplaced pages are {}, and {} hang{} on node {}", text_of_policy(policy),
                      device_words(on_node_[node]), on_node_[node].size() == 1 ? "s" : "", node),
          fmt::format("numactl --preferred={} or none", node));
    }
  }

  /// Threads that can reach the CPUs of no device; those with the mask of the process are told of already.
  void look_for_far_threads() {
    CpuList near;
    for (const int node : device_nodes_) near = in_either(near, host_.find_node(node)->cpus);
    const ProcessThread* first = nullptr;
    std::size_t count = 0;
    for (const ProcessThread& thread : places_.threads) {
      if (near.empty() || thread.cpus == places_.cpus || !in_both(thread.cpus, near).empty()) continue;
      if (count++ == 0) first = &thread;
    }
    if (count == 0) return;
    add(fmt::format("thread {} ({}){} may run on CPUs {} alone, and the devices hang on {}", first->id, first->name,
                    count == 1 ? "" : fmt::format(" and {} other{}", count - 1, count == 2 ? "" : "s"),
                    text_of_list(first->cpus), node_words(device_nodes_)),
        fmt::format("CPUs within {}", text_of_list(near)));
  }

  void look_for_few_cores() {
    std::map<int, int> ranks_at;
    for (const RankBinding& rank : plan_.ranks)
      if (rank.shares_cores) ranks_at[rank.home] = rank.ranks_at_home;
    for (const auto& [home, ranks] : ranks_at) {
      std::size_t cores = 0;
      for (const HostCore& core : host_.cores)
        cores += core.node == home && !in_both(core.cpus, places_.cpus).empty() ? 1U : 0U;
      add(fmt::format("{} core{} for {} devices{}", cores, cores == 1 ? "" : "s", ranks,
                      host_.nodes.size() > 1 ? fmt::format(" on node {}", home) : ""),
          fmt::format("{} cores at least, and {} to keep copies apart from training", ranks, 2 * ranks));
    }
  }

  const HostTopology& host_;
  const ProcessPlaces& places_;
  const std::vector<RankDevice>& ranks_;
  const BindingPlan& plan_;
  const DevicesMeant meant_;
  std::map<int, std::vector<const RankDevice*>> on_node_;  ///< devices by their node, where that is known
  CpuList device_nodes_;
  std::vector<BindingProblem> problems_;
};

}  // namespace

std::vector<BindingProblem> check_binding(const HostTopology& host, const ProcessPlaces& places,
                                          const std::vector<RankDevice>& ranks, const BindingPlan& plan,
                                          DevicesMeant meant) {
  return Check(host, places, ranks, plan, meant).run();
}

std::string text_of_policy(const MemoryPolicy& policy) {
  using Kind = MemoryPolicy::Kind;
  switch (policy.kind) {
    case Kind::local:
      return "local";
    case Kind::preferred:
      return "preferred on " + node_words(policy.nodes);
    case Kind::bound:
      return "bound to " + node_words(policy.nodes);
    case Kind::interleaved:
      return "interleaved over " + node_words(policy.nodes);
    case Kind::unknown:
      break;
  }
  return "not known";
}

}  // namespace tidemark
