#pragma once
// Releasing something to the device where no caller can be told: a failure has changed nothing and may be tried again,
// and the call that finds the device lost is to be repeated (device/device.h). So once more, and no more than that.

#include "device/device.h"

namespace tidemark::allocator {

/// The answer of `call`, or of its repetition if it fails.
template <class Call>
DeviceCode give_back(const Call& call) {
  const DeviceCode code = call();
  return code == DeviceCode::ok ? code : call();
}

}  // namespace tidemark::allocator
