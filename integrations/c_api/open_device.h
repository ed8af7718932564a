#pragma once
// Devices by name.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"
#include "device/device.h"
#include "include/tidemark/tidemark.h"

namespace tidemark::c_api {

/// Errors: bad_input, no such name; what the back end says.
[[nodiscard]] Result<std::unique_ptr<Device>> open_device(std::string_view name,
                                                          const tidemark_device_options& options);

/// A tidemark_submit_queued as device/launch_queue_device.h wants it.
[[nodiscard]] DeviceCode submit_through(tidemark_submit_queued submit_queued, void* user, std::int32_t ordinal,
                                        std::string& why);

}  // namespace tidemark::c_api
