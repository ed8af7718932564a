#pragma once
// Stands in for torch_npu's header of this name: what integrations/npu_shim uses of it, no more.

#include <array>
#include <cstdint>

namespace c10_npu::NPUCachingAllocator {
struct Stat {
  std::int64_t current = 0;
  std::int64_t peak = 0;
};
using StatArray = std::array<Stat, 3>;
struct DeviceStats {
  StatArray allocation, allocated_bytes, active_bytes, reserved_bytes;
  std::int64_t num_alloc_retries = 0;
  std::int64_t num_ooms = 0;
};
}  // namespace c10_npu::NPUCachingAllocator
