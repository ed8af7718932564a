// The entry points that frameworks look up by name. Two families with the same bodies; where the signatures differ,
// PyTorch's CUDAPluggableAllocator.h and torch_npu's NPUPluggableAllocator.h say why.

#include <cmath>
#include <cstring>
#include <string>

#include "integrations/c_api/process_allocators.h"
#include "integrations/c_api/structs.h"

using namespace tidemark;         // NOLINT: the functions below have the C interface's names
using namespace tidemark::c_api;  // NOLINT

namespace {

Address address_of(const void* pointer) {
  return static_cast<Address>(reinterpret_cast<std::uintptr_t>(pointer));
}

void* pointer_of(Address address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

StreamHandle stream_of(const void* stream) {
  return static_cast<StreamHandle>(reinterpret_cast<std::uintptr_t>(stream));
}

/// Nothing may leave a hook; what goes wrong is logged.
template <class Body>
void hook(const char* name, Body body) noexcept {
  try {
    body();
  } catch (const std::exception& exception) {
    log_error(std::string(name) + ": " + exception.what());
  } catch (...) {
    log_error(std::string(name) + ": a fault without a text");
  }
}

void* allocate(ProcessAllocators& family, ssize_t size, int device, void* stream) noexcept {
  void* result = nullptr;
  hook("malloc", [&] {
    if (size < 0) return log_error("malloc of " + std::to_string(size) + " bytes");
    tidemark_allocator* a = family.get(device);
    if (a == nullptr) return;
    Address address = 0;
    const DeviceCode code = a->allocator.allocate(size, stream_of(stream), address);
    if (code == DeviceCode::ok) {
      result = pointer_of(address);
    } else {
      log_error(a->allocator.last_error());
    }
  });
  return result;
}

void give_back(ProcessAllocators& family, void* pointer, int device) noexcept {
  if (pointer == nullptr) return;
  hook("free", [&] {
    tidemark_allocator* a = family.get(device);
    if (a == nullptr) return;
    if (a->allocator.free(address_of(pointer)) != DeviceCode::ok) log_error("free: " + a->allocator.last_error());
  });
}

void open(ProcessAllocators& family, int device_count) noexcept {
  hook("init", [&] {
    for (int i = 0; i < device_count && i < ProcessAllocators::kMostDevices; ++i) (void)family.get(i);
  });
}

void empty_caches(const ProcessAllocators& family) noexcept {
  hook("reset", [&] { family.for_each([](tidemark_allocator& a) { (void)a.allocator.empty_cache(); }); });
}

void set_fraction(ProcessAllocators& family, double fraction, int device) noexcept {
  hook("set_memory_fraction", [&] {
    if (!(fraction > 0 && fraction <= 1)) return log_error("set_memory_fraction: not a part of the memory");
    tidemark_allocator* a = family.get(device);
    if (a == nullptr) return;
    MemoryInfo info;
    if (a->device->memory_info(info) != DeviceCode::ok) return log_error(a->device->last_error());
    a->allocator.set_limit(static_cast<Bytes>(std::floor(fraction * static_cast<double>(info.total_bytes))));
  });
}

void* base_of(const ProcessAllocators& family, void* pointer, size_t* size) noexcept {
  ProcessAllocators::Block block;
  hook("base_alloc", [&] { block = family.block_around(address_of(pointer)); });
  if (size != nullptr) *size = static_cast<size_t>(block.bytes);
  return pointer_of(block.base);
}

void note_use(const ProcessAllocators& family, void* pointer, void* stream) noexcept {
  if (pointer == nullptr) return;
  hook("record_stream", [&] {
    tidemark_allocator* a = family.owner_of(address_of(pointer));
    if (a == nullptr) return log_error("record_stream of memory that is not a block of this allocator");
    if (a->allocator.note_use(address_of(pointer), stream_of(stream)) != DeviceCode::ok)
      log_error("record_stream: " + a->allocator.last_error());
  });
}

}  // namespace

extern "C" {

void* tidemark_cuda_malloc(ssize_t size, int device, void* stream) noexcept {
  return allocate(cuda_allocators(), size, device, stream);
}
void tidemark_cuda_free(void* pointer, ssize_t, int device, void*) noexcept {
  give_back(cuda_allocators(), pointer, device);
}
void tidemark_cuda_init(int device_count) noexcept {
  open(cuda_allocators(), device_count);
}
void tidemark_cuda_reset(void) noexcept {
  empty_caches(cuda_allocators());
}
void tidemark_cuda_set_memory_fraction(double fraction, int device) noexcept {
  set_fraction(cuda_allocators(), fraction, device);
}
void* tidemark_cuda_base_alloc(void* pointer, size_t* size) noexcept {
  return base_of(cuda_allocators(), pointer, size);
}
void tidemark_cuda_record_stream(void* pointer, void* stream) noexcept {
  note_use(cuda_allocators(), pointer, stream);
}

void* tidemark_npu_malloc(ssize_t size, int device, void* stream) noexcept {
  return allocate(npu_allocators(), size, device, stream);
}
void tidemark_npu_free(void* pointer, size_t, int device, void*) noexcept {
  give_back(npu_allocators(), pointer, device);
}
void tidemark_npu_init(int device_count) noexcept {
  open(npu_allocators(), device_count);
}
void tidemark_npu_reset(bool) noexcept {
  empty_caches(npu_allocators());
}
void tidemark_npu_set_memory_fraction(double fraction, int device) noexcept {
  set_fraction(npu_allocators(), fraction, device);
}
void* tidemark_npu_base_alloc(void* pointer, size_t* size) noexcept {
  return base_of(npu_allocators(), pointer, size);
}
void tidemark_npu_record_stream(void* pointer, void* stream) noexcept {
  note_use(npu_allocators(), pointer, stream);
}
// A use that is over only makes a block reusable earlier; keeping it noted is always right.
void tidemark_npu_erase_stream(void*, void*) noexcept {}
void tidemark_npu_reset_peaks(int device) noexcept {
  hook("reset_peak_status", [&] {
    if (tidemark_allocator* a = npu_allocators().get(device)) a->allocator.reset_peaks();
  });
}
tidemark_status tidemark_npu_get_statistics(int device, tidemark_allocator_statistics* statistics) noexcept {
  return guarded(nullptr, [&]() -> Outcome {
    const tidemark_allocator* a = npu_allocators().get(device);
    if (a == nullptr) return invalid("no such device");
    return write_result(to_c(a->allocator.statistics()), "statistics", statistics);
  });
}

}  // extern "C"
