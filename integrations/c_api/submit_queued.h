#pragma once
// What a framework that queues its launches is asked, through the C interface.

#include <array>
#include <cstdint>
#include <string>

#include "device/device.h"
#include "include/tidemark/tidemark.h"

namespace tidemark::c_api {

/// As device/launch_queue_device.h wants it.
[[nodiscard]] inline DeviceCode submit_through(tidemark_submit_queued submit_queued, void* user, std::int32_t ordinal,
                                               std::string& why) {
  constexpr std::size_t kMostText = 2048;
  std::array<char, kMostText> text{};
  const std::int32_t answer = submit_queued(user, ordinal, text.data(), static_cast<std::int64_t>(text.size()));
  if (answer == TIDEMARK_SUBMITTED) return DeviceCode::ok;
  text.back() = '\0';
  const bool is_later = answer == TIDEMARK_SUBMIT_LATER;
  why = is_later ? "what the framework has queued cannot be waited for here"
                 : "the framework cannot submit what it has queued";
  if (text.front() != '\0') why.append(": ").append(text.data());
  return is_later ? DeviceCode::no_resource : DeviceCode::lost;
}

}  // namespace tidemark::c_api
