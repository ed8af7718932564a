#pragma once
// What is wrong with where a process may run and where its pages go, given its devices: a function of what was read.
// Each finding says what would be right. A host of one node has no wrong place; it may have too few cores.
// Threads: any.

#include <cstdint>
#include <string>
#include <vector>

#include "device/binding_plan.h"

namespace tidemark {

struct BindingProblem {
  std::string what;
  std::string right;  ///< what would be right
};

enum class DevicesMeant : std::uint8_t {
  all,  ///< these are the process's: each must be near
  any,  ///< the host's, of which the process uses some: wrong is only what is wrong for every one
};

/// `plan` is plan_binding() of the same arguments. Threads of `places` are looked at where it has them.
[[nodiscard]] std::vector<BindingProblem> check_binding(const HostTopology& host, const ProcessPlaces& places,
                                                        const std::vector<RankDevice>& ranks, const BindingPlan& plan,
                                                        DevicesMeant meant);

/// "local", "bound to nodes 0-1".
[[nodiscard]] std::string text_of_policy(const MemoryPolicy& policy);

}  // namespace tidemark
