#pragma once
// A device that gives pinned memory in small allocations only, and says so.

#include <algorithm>

#include "device/forwarding_device.h"

namespace tidemark::testing {

class SmallPinnedDevice : public ForwardingDevice {
 public:
  SmallPinnedDevice(Device& to, Bytes largest_bytes) : ForwardingDevice(to), traits_(to.traits()) {
    traits_.largest_pinned_bytes = largest_bytes;
  }

  [[nodiscard]] const DeviceTraits& traits() const override { return traits_; }
  DeviceCode allocate_pinned(Bytes bytes, Address& address) override {
    if (bytes > traits_.largest_pinned_bytes) return DeviceCode::out_of_memory;
    largest_taken_ = std::max(largest_taken_, bytes);
    return ForwardingDevice::allocate_pinned(bytes, address);
  }

  /// Of one allocation.
  [[nodiscard]] Bytes largest_taken() const { return largest_taken_; }

 private:
  DeviceTraits traits_;
  Bytes largest_taken_ = 0;
};

}  // namespace tidemark::testing
