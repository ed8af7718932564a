#pragma once
// Addresses that show granules of elsewhere, one piece behind the other: so a block of several pieces has one address
// (allocator/stitching.h), and a storage that is larger than its slot more memory (swap/dynamic_region.h). Its
// addresses are its owner's, and so is when it may be hidden. Threads: none.

#include "allocator/give_back.h"
#include "core/bytes.h"
#include "device/device.h"

namespace tidemark::allocator {

struct AliasWindow {
  Address base = 0;
  Bytes shown_bytes = 0;  ///< from the base on

  /// One piece more behind those shown. REQUIRES: whole granules, which have memory; addresses for them.
  [[nodiscard]] DeviceCode show(Device& device, Address source, Bytes bytes) {
    const DeviceCode code = device.alias(base + static_cast<Address>(shown_bytes), source, bytes);
    if (code == DeviceCode::ok) shown_bytes += bytes;
    return code;
  }
  /// Shows nothing any more; where the device refuses, what it did. REQUIRES: nothing that touches it is in flight.
  DeviceCode hide(Device& device) {
    if (shown_bytes == 0) return DeviceCode::ok;
    const DeviceCode code = give_back([&] { return device.unmap(base, shown_bytes); });
    if (code == DeviceCode::ok) shown_bytes = 0;
    return code;
  }
};

}  // namespace tidemark::allocator
