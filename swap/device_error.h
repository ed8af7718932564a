#pragma once
// A back end's refusal as an Error for people.

#include <string_view>

#include "core/result.h"
#include "device/device.h"

namespace tidemark::swap {

/// `what` says what was tried and for whom: "rank 3: pinning 12.00 GiB". The device's own words follow.
[[nodiscard]] Error device_error(Device& device, DeviceCode code, std::string_view what);

}  // namespace tidemark::swap
