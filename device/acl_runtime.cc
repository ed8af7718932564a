#include "device/acl_runtime.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace tidemark::acl {
namespace {

void read_device_calls(SymbolReader& symbols, Runtime& runtime) {
  symbols.need(runtime.init, "aclInit");
  symbols.need(runtime.recent_message, "aclGetRecentErrMsg");
  symbols.need(runtime.device_count, "aclrtGetDeviceCount");
  symbols.need(runtime.set_device, "aclrtSetDevice");
  symbols.need(runtime.get_context, "aclrtGetCurrentContext");
  symbols.need(runtime.set_context, "aclrtSetCurrentContext");
  symbols.need(runtime.synchronize_device, "aclrtSynchronizeDevice");
  symbols.need(runtime.memory_info, "aclrtGetMemInfo");
  symbols.want(runtime.soc_name, "aclrtGetSocName");
  symbols.want(runtime.package_version, "aclsysGetCANNVersion");
}

void read_memory_calls(SymbolReader& symbols, Runtime& runtime) {
  symbols.need(runtime.allocate, "aclrtMalloc");
  symbols.want(runtime.allocate_exact, "aclrtMallocAlign32");
  symbols.need(runtime.free, "aclrtFree");
  symbols.need(runtime.host_allocate, "aclrtMallocHost");
  symbols.need(runtime.host_free, "aclrtFreeHost");
  symbols.want(runtime.host_register, "aclrtHostRegisterV2");
  symbols.want(runtime.host_unregister, "aclrtHostUnregister");
  symbols.want(runtime.granularity, "aclrtMemGetAllocationGranularity");
  symbols.want(runtime.address_reserve, "aclrtReserveMemAddress");
  symbols.want(runtime.address_release, "aclrtReleaseMemAddress");
  symbols.want(runtime.physical_allocate, "aclrtMallocPhysical");
  symbols.want(runtime.physical_free, "aclrtFreePhysical");
  symbols.want(runtime.map, "aclrtMapMem");
  symbols.want(runtime.unmap, "aclrtUnmapMem");
}

void read_stream_calls(SymbolReader& symbols, Runtime& runtime) {
  symbols.need(runtime.stream_create, "aclrtCreateStream");
  symbols.need(runtime.stream_destroy, "aclrtDestroyStream");
  symbols.need(runtime.stream_synchronize, "aclrtSynchronizeStream");
  symbols.need(runtime.stream_wait_event, "aclrtStreamWaitEvent");
  symbols.need(runtime.event_create, "aclrtCreateEventExWithFlag");
  symbols.need(runtime.event_destroy, "aclrtDestroyEvent");
  symbols.need(runtime.event_record, "aclrtRecordEvent");
  symbols.need(runtime.event_status, "aclrtQueryEventStatus");
  symbols.need(runtime.event_synchronize, "aclrtSynchronizeEvent");
  symbols.need(runtime.event_synchronize_limit, "aclrtSynchronizeEventWithTimeout");
  symbols.need(runtime.copy, "aclrtMemcpyAsync");
  symbols.want(runtime.launch_host_function, "aclrtLaunchHostFunc");
}

const char* meaning_of(Code code) {
  switch (code) {
    case kInvalidParameter:
    case kRuntimeParameter:
      return "invalid parameter";
    case kUninitialised:
      return "not initialised";
    case kInvalidDevice:
      return "no such device";
    case kNullContext:
      return "no current context";
    case kStreamNotInContext:
      return "the stream is not of this context";
    case kUnsupported:
      return "not supported";
    case kOutOfMemory:
    case kDeviceOutOfMemory:
    case kBadAlloc:
      return "out of memory";
    case kResourceAllocation:
    case kNoEventResource:
    case kNoStreamResource:
    case kNoNotifyResource:
    case kNoModelResource:
    case kNoInternalResource:
    case kOverLimit:
    case kQueueFull:
      return "no event, stream or other resource left";
    case kMemoryFree:
      return "memory could not be given back";
    case kNoDevice:
      return "the device is not available";
    case kNoPermission:
      return "no permission";
    case kCopyEngine:
      return "copy engine error";
    default:
      return code >= 507000 && code < 508000 ? "device error" : "see the error codes of ACL";
  }
}

}  // namespace

std::string Runtime::text_of(const char* call, Code code) const {
  const char* const own = recent_message();
  if (own == nullptr || *own == '\0') return fmt::format("{}: {} ({})", call, code, meaning_of(code));
  return fmt::format("{}: {} ({}); {}", call, code, meaning_of(code), own);
}

Result<Runtime> load_runtime(const std::string& first, const std::string& second) {
  Runtime runtime;
  std::string why;
  for (const std::string& path : {first, second}) {
    if (path.empty()) continue;
    Result<SharedLibrary> library = SharedLibrary::open(path);
    if (library) {
      runtime.libraries.push_back(std::move(library).value());
    } else if (why.empty()) {
      why = library.error().message;
    }
  }
  if (runtime.libraries.empty()) return infeasible("no Ascend runtime: " + why);
  SymbolReader symbols(runtime.libraries);
  read_device_calls(symbols, runtime);
  read_memory_calls(symbols, runtime);
  read_stream_calls(symbols, runtime);
  if (!symbols.missing().empty()) {
    return infeasible(
        fmt::format("the ACL in {} and {} is too old or no ACL: {}", first, second, missing_text(symbols.missing())));
  }
  const Code code = runtime.init(nullptr);
  if (code != kSuccess && code != kRepeatInit) return infeasible(runtime.text_of("aclInit", code));
  return runtime;
}

DeviceCode device_code_of(Code code, VendorCall call) {
  switch (code) {
    case kSuccess:
      return DeviceCode::ok;
    case kOutOfMemory:
    case kDeviceOutOfMemory:
    case kBadAlloc:
      return out_of_memory_from(call);
    case kResourceAllocation:
    case kNoEventResource:
    case kNoStreamResource:
    case kNoNotifyResource:
    case kNoModelResource:
    case kNoInternalResource:
    case kOverLimit:
    case kQueueFull:
    case kStreamTaskFull:
      return no_resource_from(call);
    case kEventNotComplete:
    case kWaitTimeout:
    case kStreamSyncTimeout:
    case kEventSyncTimeout:
      return not_yet_from(call);
    case kUnsupported:
    case kNoPermission:
      return DeviceCode::unsupported;
    case kTaskTimeout:
    case kNoDevice:
      return DeviceCode::lost;
    default:
      break;
  }
  if (code >= 507000 && code < 508000) return DeviceCode::lost;
  return code >= 100000 && code < 110000 ? DeviceCode::invalid : failure_of(call);
}

Bytes tail_pad_of(const std::string& soc_name, const std::string& cann_version) {
  int major = 0, minor = 0;
  const char* const end = cann_version.data() + cann_version.size();
  const auto [after, error] = std::from_chars(cann_version.data(), end, major);
  if (error == std::errc() && after != end && *after == '.') std::from_chars(after + 1, end, minor);
  const bool needs_none = soc_name.rfind("Ascend950", 0) == 0 && (major > 9 || (major == 9 && minor >= 1));
  return needs_none ? 0 : 32;
}

ContextScope::ContextScope(const Runtime& runtime, Context context) : runtime_(runtime) {
  // A thread that never used ACL has no context, which is an error code and no reason to stop.
  if (runtime_.get_context(&before_) != kSuccess) before_ = nullptr;
  if (before_ == context) return;
  code_ = runtime_.set_context(context);
  restore_ = code_ == kSuccess && before_ != nullptr;
}

ContextScope::~ContextScope() {
  if (restore_) runtime_.set_context(before_);
}

}  // namespace tidemark::acl
