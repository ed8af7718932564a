#pragma once
// A host, a process on it and the plan for its ranks, for people and as JSON.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "device/binding_check.h"

namespace tidemark::formats {

struct BindingReport {
  HostTopology host;
  ProcessPlaces places;
  std::vector<RankDevice> ranks;
  BindingPlan plan;
  std::vector<BindingProblem> problems;
};

/// What was read and what is wrong with it, planned for these ranks.
[[nodiscard]] BindingReport make_binding_report(HostTopology host, ProcessPlaces places, std::vector<RankDevice> ranks,
                                                DevicesMeant meant);

/// Names and values, a line each; without the problems.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> binding_rows(const BindingReport& report);
/// "the node of device x is not known; right: ..."
[[nodiscard]] std::string text_of_problem(const BindingProblem& problem);

/// {simulated, nodes: [...], devices: [...], process: {...}, ranks: [...], problems: [...]}; CPUs and nodes as in
/// "0-3,8".
[[nodiscard]] nlohmann::ordered_json binding_json(const BindingReport& report);
/// {device, device_node, home, main_cpus, copy_cpus, memory_node, shares_cores}
[[nodiscard]] nlohmann::ordered_json rank_json(const RankDevice& device, const RankBinding& rank);
/// [{what, right}]
[[nodiscard]] nlohmann::ordered_json problems_json(const std::vector<BindingProblem>& problems);

}  // namespace tidemark::formats
