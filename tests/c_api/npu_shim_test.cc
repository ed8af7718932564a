// The torch_npu shim against stand-in headers, through the addresses that torch_npu is given.

#include <torch_npu/csrc/core/npu/NPUCachingAllocator.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>

#include <cstdio>

#include "include/tidemark/tidemark.h"

extern "C" {
void tidemark_npu_shim_record_stream(void* pointer, c10_npu::NPUStream stream);
void tidemark_npu_shim_erase_stream(void* pointer, c10_npu::NPUStream stream);
c10_npu::NPUCachingAllocator::DeviceStats tidemark_npu_shim_get_device_stats(c10::DeviceIndex device);
void tidemark_npu_shim_reset_peak_status(c10::DeviceIndex device);
}

int main() {
  void* block = tidemark_npu_malloc(1 << 20, 0, nullptr);
  const c10_npu::NPUStream stream(nullptr);
  tidemark_npu_shim_record_stream(block, stream);
  tidemark_npu_shim_erase_stream(block, stream);
  const auto held = tidemark_npu_shim_get_device_stats(0);
  tidemark_npu_free(block, 1 << 20, 0, nullptr);
  tidemark_npu_shim_reset_peak_status(0);
  const auto after = tidemark_npu_shim_get_device_stats(0);
  const bool well = block != nullptr && held.allocation[0].current == 1 && held.allocated_bytes[0].current >= 1 << 20 &&
                    held.reserved_bytes[2].current >= 1 << 20 && after.allocated_bytes[0].peak == 0 &&
                    after.allocation[0].current == 0 && tidemark_npu_shim_get_device_stats(-1).num_ooms == 0;
  std::puts(well ? "all well" : "the shim does not say what the allocator counted");
  return well ? 0 : 1;
}
