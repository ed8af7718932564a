#pragma once
// The pinned memory of the host back end: host pages (device/host_pages.h) by address, against bounds of its own.
// Threads: any; one lock over the books, pages are touched and unmapped outside it.

#include <map>
#include <mutex>
#include <string>

#include "device/device.h"
#include "device/error_texts.h"
#include "device/host_pages.h"

namespace tidemark {

class HostPinned {
 public:
  struct Limits {
    Bytes capacity_bytes = 0;  ///< of all together; 0: only the machine's limit
    Bytes largest_bytes = 0;   ///< of one; 0: none
    int numa_node = -1;        ///< -1: none
    int touch_threads = 1;
  };
  /// `errors` outlives this.
  HostPinned(const Limits& limits, ErrorTexts& errors) : limits_(limits), errors_(errors) {}

  [[nodiscard]] DeviceCode allocate(Bytes bytes, Address& address);
  [[nodiscard]] DeviceCode free(Address address);
  [[nodiscard]] PinnedFacts facts(Address address) const;
  /// Whether all of [at, at + bytes) lies in one allocation.
  [[nodiscard]] bool contains(Address at, Bytes bytes) const;

  // Around a fork. lock() waits for allocations that are under way: the child would have the pages and not know of
  // them.
  void lock();
  void unlock() { mutex_.unlock(); }

 private:
  struct Block {
    Bytes bytes = 0;  ///< as asked for
    HostPages pages;
  };
  DeviceCode refuse(DeviceCode code, std::string text);
  [[nodiscard]] DeviceCode book(Bytes bytes, Bytes whole);

  const Limits limits_;
  ErrorTexts& errors_;
  mutable std::mutex mutex_;
  std::map<Address, Block> blocks_;
  Bytes used_bytes_ = 0;  ///< whole pages
  int under_way_ = 0;     ///< allocations that are booked and have no block yet
};

}  // namespace tidemark
