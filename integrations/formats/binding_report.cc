#include "integrations/formats/binding_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/bytes.h"
#include "integrations/formats/utf8.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::pair<std::string, std::string>>;

/// "" for one list, "nodes 0-1"; "node 0".
std::string nodes_text(const CpuList& nodes) {
  return (nodes.size() == 1 ? "node " : "nodes ") + text_of_list(nodes);
}

std::string counted(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string vendor_text(int vendor) {
  if (vendor == kNvidiaVendor) return "NVIDIA";
  if (vendor == kHuaweiVendor) return "Huawei";
  return fmt::format("vendor {:#06x}", vendor);
}

std::string node_text(int node) {
  return node < 0 ? "node not known" : fmt::format("node {}", node);
}

/// A kernel without nodes does not say what its only one holds.
std::string memory_text(const HostNode& node) {
  if (node.memory_bytes == 0) return "no memory";
  return node.memory_bytes == 1 ? "all memory" : format_bytes(node.memory_bytes);
}

void add_host(const HostTopology& host, Rows& rows) {
  std::size_t cpus = 0;
  for (const HostCore& core : host.cores) cpus += core.cpus.size();
  rows.emplace_back("topology",
                    fmt::format("{}, {}, {}{}", counted(host.nodes.size(), "node"), counted(host.cores.size(), "core"),
                                counted(cpus, "CPU"), host.simulated() ? "; simulated: " + host.root : ""));
  for (const HostNode& node : host.nodes) {
    rows.emplace_back(
        fmt::format("node {}", node.number),
        fmt::format("CPUs {}; {}{}", text_of_list(node.cpus), memory_text(node),
                    node.distances.size() < 2 ? "" : fmt::format("; distances {}", fmt::join(node.distances, ", "))));
  }
  for (const HostAccelerator& a : host.accelerators)
    rows.emplace_back("accelerator",
                      fmt::format("{} ({}), {}", a.pci_address, vendor_text(a.vendor), node_text(a.node)));
}

void add_threads(const ProcessPlaces& places, Rows& rows) {
  std::map<CpuList, std::vector<const ProcessThread*>> by_cpus;
  for (const ProcessThread& thread : places.threads) by_cpus[thread.cpus].push_back(&thread);
  for (const auto& [cpus, threads] : by_cpus) {
    std::set<std::string> names;
    for (const ProcessThread* const thread : threads) names.insert(thread->name);
    rows.emplace_back("threads",
                      fmt::format("{} on CPUs {}: {}", threads.size(), text_of_list(cpus), fmt::join(names, ", ")));
  }
  std::string pages;
  for (const auto& [node, bytes] : places.memory_bytes)
    pages += fmt::format("{}{} on node {}", pages.empty() ? "" : ", ", format_bytes(bytes), node);
  if (!pages.empty()) rows.emplace_back("pages", pages);
}

void add_ranks(const BindingReport& report, Rows& rows) {
  for (std::size_t i = 0; i < report.plan.ranks.size(); ++i) {
    const RankBinding& rank = report.plan.ranks[i];
    rows.emplace_back(
        fmt::format("rank {}", i),
        fmt::format(
            "{}, {}: CPUs {}, copies on {}, {}{}", report.ranks[i].name, node_text(rank.device_node),
            text_of_list(rank.main_cpus), text_of_list(rank.copy_cpus),
            rank.memory_node < 0 ? "memory left to the kernel" : fmt::format("memory of node {}", rank.memory_node),
            rank.shares_cores ? "; shares cores with other ranks" : ""));
  }
}

/// null for what is not known.
Json number_or_null(int number) {
  return number < 0 ? Json() : Json(number);
}

Json host_json(const HostTopology& host) {
  Json nodes = Json::array(), accelerators = Json::array();
  for (const HostNode& node : host.nodes) {
    nodes.push_back({{"node", node.number},
                     {"cpus", text_of_list(node.cpus)},
                     {"memory_bytes", node.memory_bytes},
                     {"distances", node.distances}});
  }
  for (const HostAccelerator& a : host.accelerators)
    accelerators.push_back({{"pci_address", utf8_text(a.pci_address)},
                            {"vendor", vendor_text(a.vendor)},
                            {"node", number_or_null(a.node)}});
  return {{"nodes", nodes}, {"cores", host.cores.size()}, {"accelerators", accelerators}};
}

Json process_json(const ProcessPlaces& places) {
  Json threads = Json::array(), pages = Json::array();
  for (const ProcessThread& thread : places.threads)
    threads.push_back({{"id", thread.id}, {"name", thread.name}, {"cpus", text_of_list(thread.cpus)}});
  for (const auto& [node, bytes] : places.memory_bytes) pages.push_back({{"node", node}, {"bytes", bytes}});
  return {{"cpus", text_of_list(places.cpus)},
          {"memory_nodes", text_of_list(places.memory_nodes)},
          {"policy", text_of_policy(places.policy)},
          {"threads", threads},
          {"pages", pages}};
}

}  // namespace

BindingReport make_binding_report(HostTopology host, ProcessPlaces places, std::vector<RankDevice> ranks,
                                  DevicesMeant meant) {
  BindingReport report{
      .host = std::move(host), .places = std::move(places), .ranks = std::move(ranks), .plan = {}, .problems = {}};
  report.plan = plan_binding(report.host, report.places, report.ranks);
  report.problems = check_binding(report.host, report.places, report.ranks, report.plan, meant);
  return report;
}

Rows binding_rows(const BindingReport& report) {
  Rows rows;
  add_host(report.host, rows);
  const ProcessPlaces& places = report.places;
  rows.emplace_back("process", fmt::format("CPUs {} of {}; memory of {}; unplaced pages {}", text_of_list(places.cpus),
                                           nodes_text(nodes_of(report.host, places.cpus)),
                                           places.memory_nodes.empty() ? "any node" : nodes_text(places.memory_nodes),
                                           text_of_policy(places.policy)));
  add_threads(places, rows);
  add_ranks(report, rows);
  return rows;
}

std::string text_of_problem(const BindingProblem& problem) {
  return fmt::format("{}; right: {}", problem.what, problem.right);
}

Json rank_json(const RankDevice& device, const RankBinding& rank) {
  return {{"device", utf8_text(device.name)},          {"device_node", number_or_null(rank.device_node)},
          {"home", number_or_null(rank.home)},         {"main_cpus", text_of_list(rank.main_cpus)},
          {"copy_cpus", text_of_list(rank.copy_cpus)}, {"memory_node", number_or_null(rank.memory_node)},
          {"shares_cores", rank.shares_cores}};
}

Json problems_json(const std::vector<BindingProblem>& problems) {
  Json list = Json::array();
  for (const BindingProblem& problem : problems)
    list.push_back({{"what", utf8_text(problem.what)}, {"right", utf8_text(problem.right)}});
  return list;
}

Json binding_json(const BindingReport& report) {
  Json ranks = Json::array();
  for (std::size_t i = 0; i < report.plan.ranks.size(); ++i)
    ranks.push_back(rank_json(report.ranks[i], report.plan.ranks[i]));
  Json json = {{"simulated", report.host.simulated()}};
  json.update(host_json(report.host));
  json["process"] = process_json(report.places);
  json["ranks"] = ranks;
  json["problems"] = problems_json(report.problems);
  return json;
}

}  // namespace tidemark::formats
