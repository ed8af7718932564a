#pragma once
// From the inside to the C interface: results of Tidemark's functions as status and error object, with every exception
// caught on the way out.

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "core/result.h"
#include "device/device.h"
#include "include/tidemark/tidemark.h"

namespace tidemark::c_api {

/// What a function came to. The text is for a person and empty on success.
struct Outcome {
  tidemark_status status = TIDEMARK_STATUS_OK;
  std::string text;
  [[nodiscard]] bool ok() const { return status == TIDEMARK_STATUS_OK; }
};

[[nodiscard]] inline Outcome invalid(std::string text) {
  return {.status = TIDEMARK_STATUS_INVALID, .text = std::move(text)};
}
[[nodiscard]] Outcome outcome_of(const Error& error);
[[nodiscard]] tidemark_status status_of(DeviceCode code);
/// `what` was being done; `detail` may be empty.
[[nodiscard]] Outcome outcome_of(DeviceCode code, const char* what, const std::string& detail);

/// Sets *error (where asked for) and returns the status. Never throws: out of host memory it sets an error object that
/// is always there.
tidemark_status report(const Outcome& outcome, tidemark_error** error) noexcept;
tidemark_status report_exception(tidemark_error** error) noexcept;

/// Runs `body`, which returns an Outcome, and reports what it comes to.
template <class Body>
tidemark_status guarded(tidemark_error** error, Body body) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    const Outcome outcome = body();
    return outcome.ok() ? TIDEMARK_STATUS_OK : report(outcome, error);
  } catch (...) {
    return report_exception(error);
  }
}

}  // namespace tidemark::c_api
