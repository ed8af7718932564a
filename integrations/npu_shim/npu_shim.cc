// The part of torch_npu's NPUPluggableAllocator hooks that has C++ types in its signatures. Everything else is plain C
// in libtidemark.so (tidemark_npu_*). A library of its own, since it must be compiled against the torch_npu it is used
// with; not built by default (README.md here).
//
// Signatures as torch_npu's Module.cpp casts the addresses it is given:
//   set_record_stream_fn       void(void*, c10_npu::NPUStream)
//   set_erase_stream_fn        void(void*, c10_npu::NPUStream)
//   set_get_device_stats_fn    c10_npu::NPUCachingAllocator::DeviceStats(c10::DeviceIndex)
//   set_reset_peak_status_fn   void(c10::DeviceIndex)
//   set_begin_allocate_to_pool   void(int, c10_npu::MempoolId_t, std::function<bool(aclrtStream)>)
//   set_end_allocate_to_pool_fn, set_release_pool    void(int, c10_npu::MempoolId_t)
// and the allocation itself, which throws: like PyTorch, torch_npu takes NULL for memory.
//
// What is noted on a stream here is noted in the order of the calls, not of torch_npu's queue of launches: the
// allocator has the queue submitted before it records an event there (npu_queue.cc), or there is no queue.

#include <tidemark/tidemark.h>
#include <torch_npu/csrc/core/npu/NPUCachingAllocator.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>

#include "integrations/pytorch/csrc/make_room.h"
#include "integrations/pytorch/csrc/torch_hooks.h"

#define TIDEMARK_SHIM_API __attribute__((visibility("default")))

namespace {

using c10_npu::NPUCachingAllocator::DeviceStats;
using NpuGraphPool = tidemark_torch::GraphPool<void*>;  // an aclrtStream is a void*
using tidemark_torch::MempoolId;

// Tidemark has one pool for all sizes: everything is "all", and for those who add up, "large".
template <class StatArray>
void set(StatArray& stats, int64_t current, int64_t peak) {
  for (const std::size_t pool : {std::size_t{0}, std::size_t{2}}) {
    stats[pool].current = current;
    stats[pool].peak = peak;
  }
}

}  // namespace

extern "C" {

TIDEMARK_SHIM_API void tidemark_npu_shim_record_stream(void* pointer, c10_npu::NPUStream stream) {
  tidemark_npu_record_stream(pointer, stream.stream(false));
}

TIDEMARK_SHIM_API void tidemark_npu_shim_erase_stream(void* pointer, c10_npu::NPUStream stream) {
  tidemark_npu_erase_stream(pointer, stream.stream(false));
}

// Always to be installed: without it torch_npu falls off the end of a function that returns a value.
TIDEMARK_SHIM_API DeviceStats tidemark_npu_shim_get_device_stats(c10::DeviceIndex device) {
  tidemark_allocator_statistics counted{};
  counted.struct_size = sizeof counted;
  DeviceStats stats{};
  if (tidemark_npu_get_statistics(device, &counted) != TIDEMARK_STATUS_OK) return stats;
  set(stats.allocation, counted.allocations, counted.allocations);
  set(stats.allocated_bytes, counted.allocated_bytes, counted.allocated_peak_bytes);
  set(stats.active_bytes, counted.active_bytes, counted.active_peak_bytes);
  set(stats.reserved_bytes, counted.reserved_bytes, counted.reserved_peak_bytes);
  stats.num_alloc_retries = counted.allocation_retries;
  stats.num_ooms = counted.out_of_memory_count;
  return stats;
}

TIDEMARK_SHIM_API void* tidemark_npu_shim_malloc(std::size_t size, int device, void* stream) {
  void* pointer = nullptr;
  tidemark_error* error = nullptr;
  const auto status = tidemark_torch::allocate_with_room(
      static_cast<std::int64_t>(size), device, &error, [&](tidemark_error** refusal) {
        return tidemark_npu_allocate(static_cast<ssize_t>(size), device, stream, &pointer, refusal);
      });
  tidemark_torch::throw_unless_ok(status, error);
  return pointer;
}

/// Of whom room is asked where memory runs out; nullptr: nobody.
TIDEMARK_SHIM_API void tidemark_npu_shim_set_make_room(tidemark_torch::MakeRoom function) {
  tidemark_torch::make_room() = function;
}

TIDEMARK_SHIM_API void tidemark_npu_shim_begin_allocate_to_pool(int device, MempoolId id,
                                                                std::function<bool(void*)> filter) {
  NpuGraphPool::begin(tidemark_torch::needed(tidemark_npu_allocator(device), device), id, std::move(filter));
}

TIDEMARK_SHIM_API void tidemark_npu_shim_end_allocate_to_pool(int device, MempoolId id) {
  NpuGraphPool::end(tidemark_torch::needed(tidemark_npu_allocator(device), device), id);
}

TIDEMARK_SHIM_API void tidemark_npu_shim_release_pool(int device, MempoolId id) {
  NpuGraphPool::release(tidemark_npu_allocator(device), id);
}

TIDEMARK_SHIM_API void tidemark_npu_shim_reset_peak_status(c10::DeviceIndex device) {
  tidemark_npu_reset_peaks(device);
}

}  // extern "C"
