// The entry points that frameworks look up by name. Two families with the same bodies; where the signatures differ,
// PyTorch's CUDAPluggableAllocator.h and torch_npu's NPUPluggableAllocator.h say why.

#include <atomic>
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

/// Where the calling thread allocates, whatever the family. Empty: no pool.
struct ThreadPool {
  std::string tag;
  bool plain = false;
};

ThreadPool& thread_pool() {
  thread_local ThreadPool pool;
  return pool;
}

Outcome take_block(AllocatorGroup& group, Bytes bytes, StreamHandle stream, Address& address) {
  if (const ThreadPool& pool = thread_pool(); !pool.tag.empty()) {
    if (Outcome made = group.create_pool(pool.tag, pool.plain); !made.ok()) return made;
    return group.allocate_in(pool.tag, bytes, stream, address, 0);
  }
  const DeviceCode code = group.allocate(bytes, stream, address, 0);
  if (code == DeviceCode::ok) return {};
  return {.status = status_of(code), .text = group.error_text(code)};
}

Outcome allocate(ProcessAllocators& family, ssize_t size, int device, void* stream, void*& pointer) {
  if (size < 0) return invalid("malloc of " + std::to_string(size) + " bytes");
  tidemark_allocator* a = family.get(device);
  if (a == nullptr) return invalid("there is no allocator for device " + std::to_string(device) + "; stderr says why");
  Address address = 0;
  Outcome taken = take_block(a->group, size, stream_of(stream), address);
  if (taken.ok()) pointer = pointer_of(address);
  return taken;
}

void warn_of_null() {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  log_warning(
      "malloc answers NULL, which PyTorch and torch_npu take for memory: give them tidemark_torch_cuda_malloc or "
      "tidemark_npu_shim_malloc, which throw (docs/c_api.md)");
}

void* allocate_or_log(ProcessAllocators& family, ssize_t size, int device, void* stream) noexcept {
  void* result = nullptr;
  hook("malloc", [&] {
    if (size >= 0 && family.get(device) == nullptr) return;  // has been said
    const Outcome taken = allocate(family, size, device, stream, result);
    if (taken.ok()) return;
    log_error(taken.text);
    if (taken.status == TIDEMARK_STATUS_OUT_OF_MEMORY) warn_of_null();
  });
  return result;
}

tidemark_status allocate_or_tell(ProcessAllocators& family, ssize_t size, int device, void* stream, void** pointer,
                                 tidemark_error** error) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (pointer == nullptr) return invalid("pointer is NULL");
    return allocate(family, size, device, stream, *pointer);
  });
}

void* allocate_plain(ProcessAllocators& family, ssize_t size, int device, void* stream) noexcept {
  void* result = nullptr;
  hook("malloc_plain", [&] {
    if (size < 0) return log_error("malloc_plain of " + std::to_string(size) + " bytes");
    tidemark_allocator* a = family.get(device);
    if (a == nullptr) return;
    Address address = 0;
    const DeviceCode code = a->group.allocate_plain(size, stream_of(stream), address, 0);
    if (code == DeviceCode::ok) {
      result = pointer_of(address);
    } else {
      log_error(a->group.error_text(code));
    }
  });
  return result;
}

tidemark_allocator* behind(ProcessAllocators& family, int device) noexcept {
  tidemark_allocator* found = nullptr;
  hook("allocator", [&] { found = family.get(device); });
  return found;
}

void give_back(ProcessAllocators& family, void* pointer, int device) noexcept {
  if (pointer == nullptr) return;
  hook("free", [&] {
    tidemark_allocator* a = family.get(device);
    if (a == nullptr) return;
    const DeviceCode code = a->group.free(address_of(pointer));
    if (code != DeviceCode::ok) log_error("free: " + a->group.error_text(code));
  });
}

void empty_caches(const ProcessAllocators& family) noexcept {
  hook("reset", [&] { family.for_each([](tidemark_allocator& a) { (void)a.group.empty_cache(); }); });
}

void set_fraction(ProcessAllocators& family, double fraction, int device) noexcept {
  hook("set_memory_fraction", [&] {
    if (!(fraction > 0 && fraction <= 1)) return log_error("set_memory_fraction: not a part of the memory");
    tidemark_allocator* a = family.get(device);
    if (a == nullptr) return;
    MemoryInfo info;
    if (a->group.device().memory_info(info) != DeviceCode::ok) return log_error(a->group.device().last_error());
    a->group.set_limit(static_cast<Bytes>(std::floor(fraction * static_cast<double>(info.total_bytes))));
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
    const DeviceCode code = a->group.note_use(address_of(pointer), stream_of(stream));
    if (code != DeviceCode::ok) log_error("record_stream: " + a->group.error_text(code));
  });
}

}  // namespace

extern "C" {

void tidemark_hooks_set_pool(const char* tag, int32_t plain) noexcept {
  hook("set_pool", [&] { thread_pool() = {.tag = tag == nullptr ? "" : tag, .plain = plain != 0}; });
}

void* tidemark_cuda_malloc(ssize_t size, int device, void* stream) noexcept {
  return allocate_or_log(cuda_allocators(), size, device, stream);
}
void* tidemark_cuda_malloc_plain(ssize_t size, int device, void* stream) noexcept {
  return allocate_plain(cuda_allocators(), size, device, stream);
}
tidemark_status tidemark_cuda_allocate(ssize_t size, int device, void* stream, void** pointer,
                                       tidemark_error** error) noexcept {
  return allocate_or_tell(cuda_allocators(), size, device, stream, pointer, error);
}
tidemark_allocator* tidemark_cuda_allocator(int device) noexcept {
  return behind(cuda_allocators(), device);
}
void tidemark_cuda_free(void* pointer, ssize_t, int device, void*) noexcept {
  give_back(cuda_allocators(), pointer, device);
}
// Frameworks say how many devices the machine has. A process uses few of them, and each that is opened costs a context
// of hundreds of megabytes on it: the first use opens it.
void tidemark_cuda_init(int) noexcept {}
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
  return allocate_or_log(npu_allocators(), size, device, stream);
}
void* tidemark_npu_malloc_plain(ssize_t size, int device, void* stream) noexcept {
  return allocate_plain(npu_allocators(), size, device, stream);
}
tidemark_status tidemark_npu_allocate(ssize_t size, int device, void* stream, void** pointer,
                                      tidemark_error** error) noexcept {
  return allocate_or_tell(npu_allocators(), size, device, stream, pointer, error);
}
tidemark_allocator* tidemark_npu_allocator(int device) noexcept {
  return behind(npu_allocators(), device);
}
void tidemark_npu_free(void* pointer, size_t, int device, void*) noexcept {
  give_back(npu_allocators(), pointer, device);
}
void tidemark_npu_init(int) noexcept {}
void tidemark_npu_reset(bool) noexcept {
  empty_caches(npu_allocators());
}
void tidemark_npu_set_submit_queued(tidemark_submit_queued submit_queued, void* user) noexcept {
  hook("set_submit_queued", [&] { npu_allocators().set_submit_queued(submit_queued, user); });
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
    if (tidemark_allocator* a = npu_allocators().get(device)) a->group.reset_peaks();
  });
}
tidemark_status tidemark_npu_get_statistics(int device, tidemark_allocator_statistics* statistics) noexcept {
  return guarded(nullptr, [&]() -> Outcome {
    const tidemark_allocator* a = npu_allocators().get(device);
    if (a == nullptr) return invalid("no such device");
    return write_result(to_c(a->group.statistics()), "statistics", statistics);
  });
}

}  // extern "C"
