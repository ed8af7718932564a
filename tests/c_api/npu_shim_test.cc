// The torch_npu shim against stand-in headers, through the addresses that torch_npu is given.

#include <c10/util/Exception.h>
#include <torch_npu/csrc/core/npu/NPUCachingAllocator.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>

#include <cstdio>
#include <functional>
#include <utility>

#include "include/tidemark/tidemark.h"

extern "C" {
void tidemark_npu_shim_record_stream(void* pointer, c10_npu::NPUStream stream);
void tidemark_npu_shim_erase_stream(void* pointer, c10_npu::NPUStream stream);
c10_npu::NPUCachingAllocator::DeviceStats tidemark_npu_shim_get_device_stats(c10::DeviceIndex device);
void tidemark_npu_shim_reset_peak_status(c10::DeviceIndex device);
void* tidemark_npu_shim_malloc(std::size_t size, int device, void* stream);
using MempoolId = std::pair<unsigned long long, unsigned long long>;
void tidemark_npu_shim_begin_allocate_to_pool(int device, MempoolId id, std::function<bool(void*)> filter);
void tidemark_npu_shim_end_allocate_to_pool(int device, MempoolId id);
void tidemark_npu_shim_release_pool(int device, MempoolId id);
}

namespace {

char captured_stream_ = 0;  // its address is a stream

/// The simulated device has 64 GiB.
bool throws_when_memory_runs_out() {
  try {
    (void)tidemark_npu_shim_malloc(std::size_t{1} << 40, 0, nullptr);
  } catch (const c10::OutOfMemoryError&) {
    return true;
  }
  return false;
}

bool keeps_a_graphs_memory_apart() {
  constexpr std::size_t kBytes = 4 << 20;
  void* const captured = &captured_stream_;
  tidemark_npu_shim_begin_allocate_to_pool(0, {3, 0}, [captured](void* stream) { return stream == captured; });
  void* const temporary = tidemark_npu_shim_malloc(kBytes, 0, captured);
  tidemark_npu_free(temporary, kBytes, 0, captured);
  tidemark_npu_shim_end_allocate_to_pool(0, {3, 0});
  void* const eager = tidemark_npu_shim_malloc(kBytes, 0, captured);
  tidemark_npu_shim_release_pool(0, {3, 0});
  tidemark_npu_free(eager, kBytes, 0, captured);
  return temporary != nullptr && eager != temporary;
}

}  // namespace

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
  const bool apart = keeps_a_graphs_memory_apart(), throws = throws_when_memory_runs_out();
  if (!apart) std::puts("eager work got what a graph uses");
  if (!throws) std::puts("memory ran out without an exception");
  return well && apart && throws ? 0 : 1;
}
