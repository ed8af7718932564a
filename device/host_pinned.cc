#include "device/host_pinned.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

namespace tidemark {

DeviceCode HostPinned::refuse(DeviceCode code, std::string text) {
  errors_.set(std::move(text));
  return code;
}

DeviceCode HostPinned::book(Bytes bytes, Bytes whole) {
  const Bytes limit = limits_.capacity_bytes;
  const std::lock_guard lock(mutex_);
  if (limit > 0 && whole > limit - used_bytes_) {
    return refuse(DeviceCode::out_of_memory,
                  fmt::format("{} of pinned memory asked for, {} of {} taken", format_bytes(bytes),
                              format_bytes(used_bytes_), format_bytes(limit)));
  }
  used_bytes_ += whole;
  ++under_way_;
  return DeviceCode::ok;
}

DeviceCode HostPinned::allocate(Bytes bytes, Address& address) {
  if (bytes <= 0) return refuse(DeviceCode::invalid, "pinned memory needs a positive size");
  if (bytes > 1024 * kTiB) return refuse(DeviceCode::out_of_memory, "more than any machine has");
  if (limits_.largest_bytes > 0 && bytes > limits_.largest_bytes) {
    return refuse(DeviceCode::out_of_memory,
                  fmt::format("{} in one piece, at most {}", format_bytes(bytes), format_bytes(limits_.largest_bytes)));
  }
  const Bytes whole = round_up(bytes, sysconf(_SC_PAGESIZE));
  if (const DeviceCode code = book(bytes, whole); code != DeviceCode::ok) return code;  // before the slow part
  Result<HostPages> pages = bad_input("the host has no memory for its own records");
  try {
    pages = HostPages::allocate(
        {.bytes = bytes, .numa_node = limits_.numa_node, .touch_threads = limits_.touch_threads, .lock = true});
  } catch (const std::bad_alloc&) {  // a fork waits for every allocation that was booked
  }
  const std::lock_guard lock(mutex_);
  --under_way_;
  if (!pages) {
    used_bytes_ -= whole;
    return refuse(DeviceCode::out_of_memory, pages.error().message);
  }
  address = pages.value().address();
  blocks_.emplace(address, Block{bytes, std::move(pages).value()});
  return DeviceCode::ok;
}

DeviceCode HostPinned::free(Address address) {
  HostPages pages;  // unmapped outside the lock
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return refuse(DeviceCode::invalid, fmt::format("{:#x} is no pinned memory", address));
  pages = std::move(found->second.pages);
  used_bytes_ -= pages.bytes();
  blocks_.erase(found);
  return DeviceCode::ok;
}

PinnedFacts HostPinned::facts(Address address) const {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  return found == blocks_.end() ? PinnedFacts{} : found->second.pages.facts();
}

/// Looks again and again: a condition variable would have to be mended in the child.
void HostPinned::lock() {
  for (mutex_.lock(); under_way_ > 0; mutex_.lock()) {
    mutex_.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

bool HostPinned::contains(Address at, Bytes bytes) const {
  const std::lock_guard lock(mutex_);
  auto found = blocks_.upper_bound(at);
  if (found == blocks_.begin()) return false;
  --found;
  const Address offset = at - found->first, size = static_cast<Address>(found->second.bytes);
  return offset <= size && static_cast<Address>(bytes) <= size - offset;
}

}  // namespace tidemark
