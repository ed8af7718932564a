#pragma once
// The back ends that the conformance suite runs over, and its honest exceptions.
//
// To add a back end: one row in conformance_backends.cc. What it cannot by its nature goes to kUnsupported, what is
// still wrong with it to kExpectedFailures, each with a reason. An expected failure that passes is reported, so that
// the list shrinks.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"
#include "device/device.h"

namespace tidemark::conformance {

struct Backend {
  const char* name;
  /// Opens a device whose launches take their estimates. An Error fails the test unless may_be_absent.
  std::function<Result<std::unique_ptr<Device>>()> open;
  bool may_be_absent = false;  ///< needs hardware: opening may fail, and its tests are then skipped
  bool bounded = true;  ///< nobody else takes memory, so it can be filled up and memory_info() is exact to the granule
  /// Afterwards: races seen, things not given back. Empty: none, or the back end cannot tell.
  std::function<std::string(Device&)> complaints = {};
  /// When the device is gone: what it left behind. Empty: nothing, or the back end cannot tell.
  std::function<std::string()> left_behind = {};
  /// Makes the device lost. Empty: that cannot be provoked.
  std::function<void(Device&)> lose = {};
};

/// A test (or the beginning of its name, or "" for all of them) that is skipped or expected to fail on a back end.
struct Exception {
  std::string_view backend;
  std::string_view test;
  std::string_view reason;
};

[[nodiscard]] std::span<const Backend> backends();
/// nullptr: none. The longest matching name wins.
[[nodiscard]] const Exception* find_unsupported(std::string_view backend, std::string_view test);
[[nodiscard]] const Exception* find_expected_failure(std::string_view backend, std::string_view test);

}  // namespace tidemark::conformance
