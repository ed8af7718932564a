// Compiled, never run: the shim's hooks have the types that torch_npu's own header gives them, to which its Module.cpp
// casts the addresses it is given.

#include <torch_npu/csrc/npu/NPUPluggableAllocator.h>

#include <functional>
#include <type_traits>
#include <utility>

#include "include/tidemark/tidemark.h"

using Pool = std::pair<unsigned long long, unsigned long long>;

extern "C" {
void tidemark_npu_shim_record_stream(void* pointer, c10_npu::NPUStream stream);
void tidemark_npu_shim_erase_stream(void* pointer, c10_npu::NPUStream stream);
c10_npu::NPUCachingAllocator::DeviceStats tidemark_npu_shim_get_device_stats(c10::DeviceIndex device);
void tidemark_npu_shim_reset_peak_status(c10::DeviceIndex device);
void* tidemark_npu_shim_malloc(std::size_t size, int device, void* stream);
void tidemark_npu_shim_begin_allocate_to_pool(int device, Pool id, std::function<bool(void*)> filter);
void tidemark_npu_shim_end_allocate_to_pool(int device, Pool id);
void tidemark_npu_shim_release_pool(int device, Pool id);
}

namespace {

using Allocator = torch::npu::NPUPluggableAllocator::NPUPluggableAllocator;

template <class Setter>
struct HookOf;
template <class Hook>
struct HookOf<void (Allocator::*)(std::function<Hook>)> {
  using Type = Hook;
};

template <auto setter, class Function>
constexpr bool fits = std::is_same_v<typename HookOf<decltype(setter)>::Type*, Function>;

static_assert(fits<&Allocator::set_record_stream_fn, decltype(&tidemark_npu_shim_record_stream)>);
static_assert(fits<&Allocator::set_erase_stream_fn, decltype(&tidemark_npu_shim_erase_stream)>);
static_assert(fits<&Allocator::set_get_device_stats_fn, decltype(&tidemark_npu_shim_get_device_stats)>);
static_assert(fits<&Allocator::set_reset_peak_status_fn, decltype(&tidemark_npu_shim_reset_peak_status)>);
static_assert(fits<&Allocator::set_begin_allocate_to_pool, decltype(&tidemark_npu_shim_begin_allocate_to_pool)>);
static_assert(fits<&Allocator::set_end_allocate_to_pool_fn, decltype(&tidemark_npu_shim_end_allocate_to_pool)>);
static_assert(fits<&Allocator::set_release_pool, decltype(&tidemark_npu_shim_release_pool)>);
static_assert(std::is_constructible_v<Allocator, decltype(&tidemark_npu_shim_malloc), decltype(&tidemark_npu_free)>);
static_assert(noexcept(tidemark_npu_init(0)) && std::is_invocable_v<decltype(&tidemark_npu_reset), bool>);
static_assert(std::is_invocable_r_v<void*, decltype(&tidemark_npu_base_alloc), void*, std::size_t*>);

}  // namespace
