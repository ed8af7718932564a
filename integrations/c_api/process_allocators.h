#pragma once
// The allocators behind the framework hooks: one for each device index of a family, opened at the first use and kept
// until the process ends (at exit the vendor's runtime may be gone before static objects are, so nothing is torn down).
//
// TIDEMARK_ALLOCATOR_DEVICE=sim or host replaces the family's device, for tests; TIDEMARK_ALLOCATOR_TRACE_ENTRIES is
// the length of the history. Read here and nowhere else.
//
// Cost: one atomic load on top of the allocator's own. Threads: any.

#include <array>
#include <atomic>
#include <forward_list>
#include <memory>
#include <mutex>
#include <string>

#include "device/fork_handlers.h"
#include "integrations/c_api/handles.h"

namespace tidemark::c_api {

class ProcessAllocators {
 public:
  static constexpr int kMostDevices = 64;

  /// `device_name`: "cuda" or "ascend".
  explicit ProcessAllocators(const char* device_name) : device_name_(device_name) {}

  /// nullptr: no such index, or the device cannot be opened. Said in the log, once for each index, and once for all
  /// that are none.
  [[nodiscard]] tidemark_allocator* get(int index) {
    if (index < 0 || index >= kMostDevices) return refuse_index(index);
    tidemark_allocator* open = slots_[static_cast<std::size_t>(index)].load(std::memory_order_acquire);
    return open != nullptr ? open : open_slot(index);
  }
  /// The one that holds a live block at `address`; nullptr: none.
  [[nodiscard]] tidemark_allocator* owner_of(Address address) const;
  /// The live block around an address, which need not be its start. Slow: looks through a snapshot.
  struct Block {
    Address base = 0;
    Bytes bytes = 0;
  };
  [[nodiscard]] Block block_around(Address address) const;

  /// The framework queues its launches, or, nullptr, does not. For devices that are open as well.
  void set_submit_queued(tidemark_submit_queued submit_queued, void* user);

  template <class Body>
  void for_each(Body body) const {
    for (const auto& slot : slots_)
      if (tidemark_allocator* open = slot.load(std::memory_order_acquire)) body(*open);
  }

 private:
  tidemark_allocator* open_slot(int index);
  tidemark_allocator* refuse_index(int index);
  struct Submitting {
    tidemark_submit_queued submit_queued = nullptr;
    void* user = nullptr;
  };
  std::unique_ptr<Device> below_launches(std::unique_ptr<Device> device, int index) const;

  const char* device_name_;
  std::mutex mutex_;  // held while opening, and not by a fork: what is opened enters the list that the fork holds
  std::array<bool, kMostDevices> refused_{};
  std::atomic<bool> refused_an_index_{false};
  std::array<std::atomic<tidemark_allocator*>, kMostDevices> slots_{};
  std::forward_list<Submitting> was_set_;  // all of them, below `mutex_`: a call may be in one that was set before
  std::atomic<const Submitting*> submitting_{nullptr};
  /// What a thread of the parent was opening is not open in the child, which has a new lock and opens its own.
  const ForkHandlers at_fork_{ForkLevel::group, {.after_fork_in_child = [this] { std::construct_at(&mutex_); }}};
};

/// Never destroyed.
[[nodiscard]] ProcessAllocators& cuda_allocators();
[[nodiscard]] ProcessAllocators& npu_allocators();

/// One line to stderr.
void log_error(const std::string& text) noexcept;
void log_warning(const std::string& text) noexcept;

}  // namespace tidemark::c_api
