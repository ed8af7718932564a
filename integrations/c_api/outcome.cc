#include "integrations/c_api/outcome.h"

#include "integrations/c_api/handles.h"
#include "integrations/formats/shown.h"

namespace tidemark::c_api {
namespace {

/// For when there is no memory to say so. Never freed; constant.
tidemark_error& memory_error() {
  // Short enough to need no memory of its own.
  static tidemark_error error{.status = TIDEMARK_STATUS_OUT_OF_HOST_MEMORY, .message = "no host memory"};
  return error;
}

}  // namespace

Outcome outcome_of(const Error& error) {
  switch (error.code) {
    case Error::Code::bad_input:
      return {.status = TIDEMARK_STATUS_BAD_INPUT, .text = error.message};
    case Error::Code::infeasible:
      return {.status = TIDEMARK_STATUS_INFEASIBLE, .text = error.message};
    case Error::Code::internal:
      break;
  }
  return {.status = TIDEMARK_STATUS_INTERNAL, .text = error.message};
}

tidemark_status status_of(DeviceCode code) {
  switch (code) {
    case DeviceCode::ok:
      return TIDEMARK_STATUS_OK;
    case DeviceCode::not_ready:
      return TIDEMARK_STATUS_NOT_READY;
    case DeviceCode::out_of_memory:
      return TIDEMARK_STATUS_OUT_OF_MEMORY;
    case DeviceCode::no_resource:
      return TIDEMARK_STATUS_NO_RESOURCE;
    case DeviceCode::unsupported:
      return TIDEMARK_STATUS_UNSUPPORTED;
    case DeviceCode::invalid:
      return TIDEMARK_STATUS_INVALID;
    case DeviceCode::copy_failed:
      return TIDEMARK_STATUS_COPY_FAILED;
    case DeviceCode::lost:
      return TIDEMARK_STATUS_DEVICE_LOST;
  }
  return TIDEMARK_STATUS_INTERNAL;
}

Outcome outcome_of(DeviceCode code, const char* what, const std::string& detail) {
  if (code == DeviceCode::ok) return {};
  return {.status = status_of(code), .text = std::string(what) + ": " + (detail.empty() ? name_of(code) : detail)};
}

tidemark_status report(const Outcome& outcome, tidemark_error** error) noexcept {
  if (error == nullptr) return outcome.status;
  try {
    *error = new tidemark_error{.status = outcome.status, .message = formats::printable(outcome.text)};
  } catch (...) {
    *error = &memory_error();
  }
  return outcome.status;
}

tidemark_status report_exception(tidemark_error** error) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    if (error != nullptr) *error = &memory_error();
    return TIDEMARK_STATUS_OUT_OF_HOST_MEMORY;
  } catch (const std::exception& exception) {
    try {
      return report({.status = TIDEMARK_STATUS_INTERNAL, .text = exception.what()}, error);
    } catch (...) {
      if (error != nullptr) *error = &memory_error();
    }
  } catch (...) {
    try {
      return report({.status = TIDEMARK_STATUS_INTERNAL, .text = "a fault without a text"}, error);
    } catch (...) {
      if (error != nullptr) *error = &memory_error();
    }
  }
  return TIDEMARK_STATUS_INTERNAL;
}

}  // namespace tidemark::c_api

extern "C" {

int32_t tidemark_abi_version(void) noexcept {
  return TIDEMARK_ABI_VERSION;
}

const char* tidemark_version(void) noexcept {
  return TIDEMARK_VERSION_TEXT;
}

const char* tidemark_status_name(tidemark_status status) noexcept {
  switch (status) {
    case TIDEMARK_STATUS_OK:
      return "ok";
    case TIDEMARK_STATUS_INVALID:
      return "invalid";
    case TIDEMARK_STATUS_BAD_INPUT:
      return "bad_input";
    case TIDEMARK_STATUS_INFEASIBLE:
      return "infeasible";
    case TIDEMARK_STATUS_OUT_OF_MEMORY:
      return "out_of_memory";
    case TIDEMARK_STATUS_NO_RESOURCE:
      return "no_resource";
    case TIDEMARK_STATUS_UNSUPPORTED:
      return "unsupported";
    case TIDEMARK_STATUS_NOT_READY:
      return "not_ready";
    case TIDEMARK_STATUS_COPY_FAILED:
      return "copy_failed";
    case TIDEMARK_STATUS_DEVICE_LOST:
      return "device_lost";
    case TIDEMARK_STATUS_OUT_OF_HOST_MEMORY:
      return "out_of_host_memory";
    case TIDEMARK_STATUS_INTERNAL:
      return "internal";
    case TIDEMARK_STATUS_PEER_LOST:
      return "peer_lost";
    default:
      return "unknown";
  }
}

tidemark_status tidemark_error_status(const tidemark_error* error) noexcept {
  return error == nullptr ? TIDEMARK_STATUS_OK : error->status;
}

const char* tidemark_error_message(const tidemark_error* error) noexcept {
  return error == nullptr ? "" : error->message.c_str();
}

void tidemark_error_free(tidemark_error* error) noexcept {
  if (error != &tidemark::c_api::memory_error()) delete error;
}

const void* tidemark_buffer_data(const tidemark_buffer* buffer) noexcept {
  return buffer == nullptr ? nullptr : buffer->bytes.c_str();
}

int64_t tidemark_buffer_size(const tidemark_buffer* buffer) noexcept {
  return buffer == nullptr ? 0 : static_cast<int64_t>(buffer->bytes.size());
}

void tidemark_buffer_free(tidemark_buffer* buffer) noexcept {
  delete buffer;
}

}  // extern "C"
