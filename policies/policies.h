#pragma once
// Every decision rule, in the order of policies/CMakeLists.txt. A rule is one file.

#include <span>
#include <string_view>

#include "planner/policy.h"

namespace tidemark::policies {

[[nodiscard]] std::span<const plan::Policy> policies();

/// nullptr: no policy of that name. `optimal` is the default.
[[nodiscard]] const plan::Policy* find_policy(std::string_view name);

}  // namespace tidemark::policies
