// Tidemark's caching allocator as PyTorch's CPU allocator, so that a budget is a limit and not an estimate. What does
// not fit is torch.OutOfMemoryError with the names of the holders.
//
// Memory that PyTorch took before goes back to where it came from: every block remembers who frees it. Once installed,
// the allocator serves until the process ends.
//
// A forked process, as a worker of a DataLoader, goes on with an allocator and memory of its own (device/host_arena.h).
//
// Called from Python through ctypes, hence C functions. Thread rule: any thread; installing and removing while nobody
// allocates.

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <pthread.h>
#include <sys/resource.h>
#include <tidemark/tidemark.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "integrations/pytorch/csrc/make_room.h"
#include "integrations/pytorch/csrc/others_bytes.h"
#include "integrations/pytorch/csrc/phase_bytes.h"

namespace {

constexpr std::int64_t kUnitBytes = 512;  // blocks are multiples of it

tidemark_torch::PhaseBytes& phase_bytes() {
  static auto* instance = new tidemark_torch::PhaseBytes;  // asked for until the very end of the process
  return *instance;
}

tidemark_torch::OthersBytes& others_bytes() {
  static auto* instance = new tidemark_torch::OthersBytes;  // asked for until the very end of the process
  return *instance;
}

tidemark_device* device = nullptr;
tidemark_allocator* allocator = nullptr;
c10::Allocator* before = nullptr;  // PyTorch's own

std::mutex names_mutex;
std::vector<std::string>& owner_names() {
  static auto* names = new std::vector<std::string>{"no module"};  // asked for until the very end of the process
  return *names;
}

thread_local std::uint32_t current_owner = 0;

void write_owner_name(void*, std::uint32_t owner, char* name, std::size_t capacity) {
  const std::lock_guard lock(names_mutex);
  const auto& names = owner_names();
  std::snprintf(name, capacity, "%s", owner < names.size() ? names[owner].c_str() : "unknown");
}

/// Held by all that takes another lock here, and during a fork: the child must not find one of them taken.
std::mutex& no_fork() {
  static auto* instance = new std::mutex;  // asked for until the very end of the process
  return *instance;
}

/// Where the calling thread allocates. Empty: from no pool.
struct ThreadPool {
  std::string tag;
  std::int32_t plain = 0;
};
thread_local ThreadPool current_pool;

tidemark_status take_block(std::int64_t bytes, tidemark_address* address, tidemark_error** error) {
  if (current_pool.tag.empty()) return tidemark_allocator_allocate(allocator, bytes, 0, current_owner, address, error);
  tidemark_pool_options options{};
  options.struct_size = sizeof(options);
  options.plain = current_pool.plain;
  const char* tag = current_pool.tag.c_str();
  const auto made = tidemark_pool_create(allocator, tag, &options, error);
  if (made != TIDEMARK_STATUS_OK) return made;
  return tidemark_pool_allocate(allocator, tag, bytes, 0, current_owner, address, error);
}

void release(void* pointer) {
  const std::lock_guard lock(no_fork());
  phase_bytes().released(pointer);
  others_bytes().released(pointer);
  // A block that is not live is a fault of PyTorch's, which the allocator survives.
  (void)tidemark_allocator_release(allocator, reinterpret_cast<tidemark_address>(pointer), nullptr);
}

struct CpuAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release_nothing, c10::Device(c10::DeviceType::CPU)};
    tidemark_address address = 0;
    tidemark_error* error = nullptr;
    const auto size = static_cast<std::int64_t>(bytes);
    const auto status =
        tidemark_torch::allocate_with_room(size, tidemark_torch::kCpu, &error, [&](tidemark_error** refusal) {
          const std::lock_guard lock(no_fork());
          const auto taken = take_block(size, &address, refusal);
          if (taken == TIDEMARK_STATUS_OK) {
            const auto* block = reinterpret_cast<void*>(address);
            const auto rounded = (size + kUnitBytes - 1) / kUnitBytes * kUnitBytes;
            phase_bytes().allocated(block, rounded);
            others_bytes().allocated(block, rounded);
          }
          return taken;
        });
    if (status != TIDEMARK_STATUS_OK) {
      const std::string text = tidemark_error_message(error);
      tidemark_error_free(error);
      TORCH_CHECK(status != TIDEMARK_STATUS_INVALID, "tidemark: ", text);  // a pool that is released
      TORCH_CHECK_WITH(OutOfMemoryError, false, "tidemark: ", text);
    }
    void* pointer = reinterpret_cast<void*>(address);
    return {pointer, pointer, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  static void release_nothing(void*) {}
};

CpuAllocator& cpu_allocator() {
  static auto* instance = new CpuAllocator;
  return *instance;
}

/// What `ulimit -v` leaves of address space; INT64_MAX without such a limit.
std::int64_t address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  file >> pages;
  return static_cast<std::int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGESIZE);
}

/// The allocator lays blocks out in several times as many addresses as there is memory. Where those are limited, so is
/// the memory that it has to give: half of what is left is for it.
constexpr std::int64_t kAddressesPerByte = 2, kRegions = 2;
constexpr std::int64_t kLeastBytes = 64 << 20;

void write_text(const char* text, char* out, std::size_t capacity) {
  std::snprintf(out, capacity, "%s", text);
}

}  // namespace

extern "C" {

/// Opens the host device and the allocator at the first call; makes it PyTorch's. `limit_bytes` may be reserved at
/// most. Returns the allocator for the functions of the C interface, or NULL with the reason in `reason`.
__attribute__((visibility("default"))) tidemark_allocator* tidemark_torch_install(
    std::int64_t capacity_bytes, std::int64_t limit_bytes, char* reason, std::size_t reason_capacity) noexcept {
  tidemark_error* error = nullptr;
  if (allocator == nullptr) {
    const std::int64_t left = address_space_left();
    if (left != INT64_MAX) capacity_bytes = std::min(capacity_bytes, left / 2 / kRegions / kAddressesPerByte);
    if (capacity_bytes < kLeastBytes) {
      write_text("the limit of address space (ulimit -v) leaves too little; raise it by a GiB at least, or remove it",
                 reason, reason_capacity);
      return nullptr;
    }
    tidemark_device_options device_options{};
    device_options.struct_size = sizeof(device_options);
    device_options.capacity_bytes = capacity_bytes;
    if (tidemark_device_open("host", &device_options, &device, &error) == TIDEMARK_STATUS_OK) {
      tidemark_allocator_options options{};
      options.struct_size = sizeof(options);
      options.owner_name = &write_owner_name;
      // Models on a CPU have budgets of a few granules. The thread that calls runs forward and backward; others, as of
      // a communication library, ask for a little beside it, and not of the planned arena (PlannedFront::begin_step).
      // With a space for each thread, what one has left over would serve the others only in pieces, and small blocks
      // would lie all over.
      options.threads = 1;
      options.kept_bytes = 1;
      if (left != INT64_MAX) options.address_space_bytes = kAddressesPerByte * capacity_bytes;
      pthread_atfork([] { no_fork().lock(); }, [] { no_fork().unlock(); }, [] { no_fork().unlock(); });
      (void)tidemark_allocator_create(device, &options, &allocator, &error);
    }
  }
  if (allocator != nullptr) (void)tidemark_allocator_set_limit(allocator, limit_bytes, &error);
  if (error != nullptr) {
    write_text(tidemark_error_message(error), reason, reason_capacity);
    tidemark_error_free(error);
    return nullptr;
  }
  if (before == nullptr) {
    before = c10::GetAllocator(c10::DeviceType::CPU);
    c10::SetAllocator(c10::DeviceType::CPU, &cpu_allocator(), /*priority=*/100);
  }
  return allocator;
}

/// What is allocated from now on comes from PyTorch's own allocator again; blocks in use stay.
__attribute__((visibility("default"))) void tidemark_torch_remove() noexcept {
  if (before == nullptr) return;
  c10::SetAllocator(c10::DeviceType::CPU, before, /*priority=*/100);
  before = nullptr;
}

/// Blocks of the calling thread are counted to `owner` from now on. Returns the owner before.
__attribute__((visibility("default"))) std::uint32_t tidemark_torch_set_owner(std::uint32_t owner) noexcept {
  const auto last = current_owner;
  current_owner = owner;
  return last;
}

/// What the calling thread allocates from now on comes from the pool of this tag, `plain` or not. NULL: from none.
__attribute__((visibility("default"))) void tidemark_torch_set_pool(const char* tag, std::int32_t plain) noexcept {
  current_pool = {tag == nullptr ? "" : tag, plain};
}

/// Who is asked where memory runs out, on the CPU and on accelerators; nullptr: none.
__attribute__((visibility("default"))) void tidemark_torch_set_make_room(tidemark_torch::MakeRoom function) noexcept {
  tidemark_torch::make_room() = function;
}

/// A number for a name.
__attribute__((visibility("default"))) std::uint32_t tidemark_torch_add_owner(const char* name) noexcept {
  const std::scoped_lock lock(no_fork(), names_mutex);
  owner_names().emplace_back(name);
  return static_cast<std::uint32_t>(owner_names().size() - 1);
}

/// What is allocated from now on belongs to `phase`, a tidemark_torch::Phase. Returns the phase before.
__attribute__((visibility("default"))) std::int32_t tidemark_torch_set_phase(std::int32_t phase) noexcept {
  const std::lock_guard lock(no_fork());
  return static_cast<std::int32_t>(phase_bytes().set(static_cast<tidemark_torch::Phase>(phase)));
}

/// Live bytes by phase when their sum was largest, since the last reset; `bytes` has room for every phase.
__attribute__((visibility("default"))) void tidemark_torch_phases_at_peak(std::int64_t* bytes) noexcept {
  const std::lock_guard lock(no_fork());
  const auto peak = phase_bytes().at_peak();
  std::copy(peak.begin(), peak.end(), bytes);
}

/// From now on, until `watch` is 0, it is counted what other threads than the calling one hold.
__attribute__((visibility("default"))) void tidemark_torch_watch_others(std::int32_t watch) noexcept {
  const std::lock_guard lock(no_fork());
  watch != 0 ? others_bytes().begin() : others_bytes().end();
}

/// The most of it that was live at once since the last call.
__attribute__((visibility("default"))) std::int64_t tidemark_torch_take_others_peak() noexcept {
  const std::lock_guard lock(no_fork());
  return others_bytes().take_peak();
}

__attribute__((visibility("default"))) void tidemark_torch_reset_phases() noexcept {
  const std::lock_guard lock(no_fork());
  phase_bytes().reset_peak();
}
}
