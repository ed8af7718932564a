#pragma once
// The skeleton a new back end is cloned from. It has no memory, no streams and no time: every call that would need one
// answers `unsupported`, everything else trivially. It passes the conformance suite by skipping what it cannot.
//
// To add a back end: docs/design/back_ends.md. In short: copy null_device.{h,cc}, rename, fill in traits(), then the
// calls in the order memory, streams and events, copies, launches; add one line to tests/conformance and run it after
// each. What the hardware cannot is said in traits(), never emulated silently.
//
// Threads: any; it has no state but the thread's last error text.

#include <memory>

#include "device/device.h"

namespace tidemark {

[[nodiscard]] std::unique_ptr<Device> open_null_device();

}  // namespace tidemark
