// Functions of ACL that torch_npu calls beside those that our back end does, over the stand-in for ACL. It is no NPU.
//
// torch_npu knows chips by name and refuses others, so the chip has the name of one here.

#include <atomic>
#include <cstdint>

#include "device/acl_runtime.h"
#include "tests/support/stand_in/controls.h"
#include "tests/support/stand_in/machine.h"

using tidemark::acl::Code;
using tidemark::acl::Stream;

namespace {

const bool has_name = (stand_in_set("chip", 9101), true);

constexpr int kSystemOptions = 8;
std::atomic<std::int64_t> system_options[kSystemOptions];

}  // namespace

extern "C" {

// Of the stand-in.
Code aclrtCreateStream(Stream* stream);
Code aclrtSynchronizeStream(Stream stream);
Code aclrtDestroyStream(Stream stream);

/// No function of ACL's: a kernel that touches these ranges, which the stand-in looks at as at those of copies.
Code stand_in_launch(Stream stream, void (*run)(void*), void* argument, const void* const* addresses,
                     const std::size_t* bytes, int count) {
  stand_in::Stream* const on = stand_in::machine().find_stream(stream);
  if (on == nullptr) return tidemark::acl::kRuntimeParameter;
  stand_in::Operation operation{.run = [=] { run(argument); }};
  for (int i = 0; i < count; ++i)
    operation.device_ranges.push_back({reinterpret_cast<stand_in::Place>(addresses[i]), bytes[i]});
  stand_in::machine().submit(on, std::move(operation));
  return tidemark::acl::kSuccess;
}

Code aclrtCreateStreamWithConfig(Stream* stream, std::uint32_t /*priority*/, std::uint32_t /*flags*/) {
  return aclrtCreateStream(stream);
}

Code aclrtSynchronizeStreamWithTimeout(Stream stream, std::int32_t /*timeout_ms*/) {
  return aclrtSynchronizeStream(stream);
}

/// Work that was not done yet may be left undone; here it is done.
Code aclrtDestroyStreamForce(Stream stream) {
  const Code code = aclrtSynchronizeStream(stream);
  const Code destroyed = aclrtDestroyStream(stream);
  return code != tidemark::acl::kSuccess ? code : destroyed;
}

Code aclrtResetDevice(std::int32_t /*device*/) {
  return tidemark::acl::kSuccess;
}

Code aclrtSetDeviceSatMode(int /*mode*/) {
  return tidemark::acl::kSuccess;
}

Code aclSetCompileopt(int /*option*/, const char* /*value*/) {
  return tidemark::acl::kSuccess;
}

/// Kept, and without any effect: nothing is computed here.
Code aclrtSetSysParamOpt(int option, std::int64_t value) {
  if (option < 0 || option >= kSystemOptions) return tidemark::acl::kInvalidParameter;
  system_options[option] = value;
  return tidemark::acl::kSuccess;
}

Code aclrtCtxSetSysParamOpt(int option, std::int64_t value) {
  return aclrtSetSysParamOpt(option, value);
}

Code aclrtGetSysParamOpt(int option, std::int64_t* value) {
  if (option < 0 || option >= kSystemOptions || value == nullptr) return tidemark::acl::kInvalidParameter;
  *value = system_options[option];
  return tidemark::acl::kSuccess;
}

Code aclrtSetOpExecuteTimeOut(std::uint32_t /*seconds*/) {
  return tidemark::acl::kSuccess;
}

Code aclrtSetOpWaitTimeout(std::uint32_t /*seconds*/) {
  return tidemark::acl::kSuccess;
}

Code aclFinalize() {
  return tidemark::acl::kSuccess;
}

}  // extern "C"
