// What is known of a kernel; kernels.py says it, once for each.

#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace tidemark_torch {

enum class KernelKind { passes, counts, changes };

struct KernelTraits {
  KernelKind kind = KernelKind::counts;
  const std::string* name = nullptr;  // interned: equal names have equal addresses
  std::vector<std::size_t> changed;   // arguments that are changed in place
  bool is_random = false;
  bool is_process_group_call = false;
  bool may_last = false;  // fills or copies, as an optimizer's state is begun: what it makes may outlive the step
  std::optional<std::array<std::size_t, 3>> running_statistics;  // arguments: mean, variance, and whether they change
};

}  // namespace tidemark_torch
