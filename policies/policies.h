#pragma once
// Every decision rule, in the order of policies/CMakeLists.txt. A rule is one file.

#include <span>
#include <string_view>

#include "planner/policy.h"

namespace tidemark {

[[nodiscard]] std::span<const Policy> policies();

/// nullptr: no policy of that name. `optimal` is the default.
[[nodiscard]] const Policy* find_policy(std::string_view name);

}  // namespace tidemark
