#pragma once
// Devices by name.

#include <memory>
#include <string_view>

#include "core/result.h"
#include "device/device.h"
#include "include/tidemark/tidemark.h"

namespace tidemark::c_api {

/// Errors: bad_input, no such name; what the back end says.
[[nodiscard]] Result<std::unique_ptr<Device>> open_device(std::string_view name,
                                                          const tidemark_device_options& options);

}  // namespace tidemark::c_api
