#include "swap/device_error.h"

#include <fmt/format.h>

namespace tidemark::swap {

Error device_error(Device& device, DeviceCode code, std::string_view what) {
  const std::string words = device.last_error();
  std::string message = fmt::format("{}: {} on device {}", what, name_of(code), device.traits().name);
  if (!words.empty()) message += " (" + words + ")";
  // A call the back end calls wrong is our fault, except that a deadlock of the whole step is reported the same way.
  return infeasible(std::move(message));
}

}  // namespace tidemark::swap
