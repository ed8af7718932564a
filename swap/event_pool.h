#pragma once
// Events, taken when a task is submitted and given back when the last wait on it has been, which is when it may be
// recorded anew (device.h). Never more than the device allows.
//
// When none is left the caller waits on the host for its oldest record: a completed task needs no event.
// Destroying gives all events back, used or not.

#include <cstdint>
#include <vector>

#include "device/device.h"

namespace tidemark::swap {

class EventPool {
 public:
  explicit EventPool(Device& device) : device_(device) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// no_resource: the device's limit is reached.
  [[nodiscard]] DeviceCode acquire(EventHandle& event);
  /// REQUIRES: every wait on its record has been submitted, or nobody will wait.
  void release(EventHandle event) { free_.push_back(event); }

  [[nodiscard]] std::int64_t in_use() const { return static_cast<std::int64_t>(all_.size() - free_.size()); }
  [[nodiscard]] std::int64_t peak() const { return peak_; }

 private:
  Device& device_;
  std::vector<EventHandle> all_, free_;
  std::int64_t peak_ = 0;
};

}  // namespace tidemark::swap
