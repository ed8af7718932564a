#include "device/cuda_driver.h"

#include <fmt/format.h>

#include <utility>

namespace tidemark::cuda {
namespace {

void read_device_calls(SymbolReader& symbols, Driver& driver) {
  symbols.need(driver.init, "cuInit");
  symbols.need(driver.error_name, "cuGetErrorName");
  symbols.need(driver.error_string, "cuGetErrorString");
  symbols.need(driver.device_get, "cuDeviceGet");
  symbols.need(driver.device_count, "cuDeviceGetCount");
  symbols.need(driver.device_name, "cuDeviceGetName");
  symbols.need(driver.device_attribute, "cuDeviceGetAttribute");
  symbols.need(driver.device_bus_id, "cuDeviceGetPCIBusId");
  symbols.need(driver.can_access_peer, "cuDeviceCanAccessPeer");
  symbols.need(driver.context_retain, "cuDevicePrimaryCtxRetain");
  symbols.need(driver.context_release, "cuDevicePrimaryCtxRelease_v2");
  symbols.need(driver.context_get, "cuCtxGetCurrent");
  symbols.need(driver.context_set, "cuCtxSetCurrent");
  symbols.need(driver.context_synchronize, "cuCtxSynchronize");
  symbols.need(driver.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  symbols.need(driver.stream_priorities, "cuCtxGetStreamPriorityRange");
}

void read_memory_calls(SymbolReader& symbols, Driver& driver) {
  symbols.need(driver.memory_info, "cuMemGetInfo_v2");
  symbols.need(driver.allocate, "cuMemAlloc_v2");
  symbols.need(driver.free, "cuMemFree_v2");
  symbols.need(driver.host_allocate, "cuMemHostAlloc");
  symbols.need(driver.host_free, "cuMemFreeHost");
  symbols.need(driver.host_register, "cuMemHostRegister_v2");
  symbols.need(driver.host_unregister, "cuMemHostUnregister");
  symbols.need(driver.granularity, "cuMemGetAllocationGranularity");
  symbols.need(driver.address_reserve, "cuMemAddressReserve");
  symbols.need(driver.address_free, "cuMemAddressFree");
  symbols.need(driver.create, "cuMemCreate");
  symbols.need(driver.release, "cuMemRelease");
  symbols.need(driver.map, "cuMemMap");
  symbols.need(driver.unmap, "cuMemUnmap");
  symbols.need(driver.set_access, "cuMemSetAccess");
}

void read_stream_calls(SymbolReader& symbols, Driver& driver) {
  symbols.need(driver.stream_create, "cuStreamCreateWithPriority");
  symbols.need(driver.stream_destroy, "cuStreamDestroy_v2");
  symbols.need(driver.stream_synchronize, "cuStreamSynchronize");
  symbols.need(driver.stream_wait_event, "cuStreamWaitEvent");
  symbols.need(driver.event_create, "cuEventCreate");
  symbols.need(driver.event_destroy, "cuEventDestroy_v2");
  symbols.need(driver.event_record, "cuEventRecord");
  symbols.need(driver.event_query, "cuEventQuery");
  symbols.need(driver.event_synchronize, "cuEventSynchronize");
  symbols.need(driver.copy_to_device, "cuMemcpyHtoDAsync_v2");
  symbols.need(driver.copy_to_host, "cuMemcpyDtoHAsync_v2");
  symbols.need(driver.copy_in_device, "cuMemcpyDtoDAsync_v2");
  symbols.need(driver.copy_to_host_now, "cuMemcpyDtoH_v2");
  symbols.need(driver.fill_now, "cuMemsetD8_v2");
  symbols.need(driver.module_load, "cuModuleLoadData");
  symbols.need(driver.module_unload, "cuModuleUnload");
  symbols.need(driver.module_function, "cuModuleGetFunction");
  symbols.need(driver.launch_kernel, "cuLaunchKernel");
}

/// 709 to 719 but for the two about registration and peer access, and what else leaves the context unusable.
bool is_sticky(Code code) {
  switch (code) {
    case kNotInitialized:
    case kDeinitialized:
    case kDeviceUnavailable:
    case kEccUncorrectable:
    case kNvlinkUncorrectable:
    case kIllegalAddress:
    case kLaunchTimeout:
    case kUnknown:
      return true;
    default:
      return code >= kContextIsDestroyed && code <= kLaunchFailed && code != kHostMemoryAlreadyRegistered &&
             code != kHostMemoryNotRegistered && code != 711;  // 711: out of peer mappings
  }
}

}  // namespace

std::string Driver::text_of(Code code) const {
  const char* name = nullptr;
  const char* meaning = nullptr;
  if (error_name(code, &name) != kSuccess || name == nullptr) name = "unknown CUDA error";
  if (error_string(code, &meaning) != kSuccess || meaning == nullptr) meaning = "no description";
  return fmt::format("{} ({}): {}", name, code, meaning);
}

Result<Driver> load_driver(const std::string& path) {
  Result<SharedLibrary> library = SharedLibrary::open(path);
  if (!library) return infeasible("no CUDA driver: " + library.error().message);
  Driver driver;
  driver.libraries.push_back(std::move(library).value());
  SymbolReader symbols(driver.libraries);
  read_device_calls(symbols, driver);
  read_memory_calls(symbols, driver);
  read_stream_calls(symbols, driver);
  if (!symbols.missing().empty()) {
    return infeasible(
        fmt::format("the CUDA driver {} is older than 10.2 or no driver: {}", path, missing_text(symbols.missing())));
  }
  if (const Code code = driver.init(0); code != kSuccess) {
    return infeasible(fmt::format("the CUDA driver {} does not start: {}", path, driver.text_of(code)));
  }
  return driver;
}

DeviceCode device_code_of(Code code, VendorCall call) {
  if (is_sticky(code)) return DeviceCode::lost;
  switch (code) {
    case kSuccess:
      return DeviceCode::ok;
    case kNotReady:
      return not_yet_from(call);
    case kOutOfMemory:
      return out_of_memory_from(call);
    case kMapFailed:        // the system's tables or
    case kOperatingSystem:  // its limit on locked pages are full
      return call == VendorCall::memory ? DeviceCode::out_of_memory : failure_of(call);
    case kLaunchOutOfResources:
      return no_resource_from(call);
    case kNotSupported:
    case kNoBinaryForGpu:
    case kInvalidPtx:
    case kJitCompilerNotFound:
    case kUnsupportedPtxVersion:
      return DeviceCode::unsupported;
    case kInvalidValue:
    case kNoDevice:
    case kInvalidDevice:
    case kInvalidContext:
    case kInvalidHandle:
    case kIllegalState:
    case kNotFound:
    case kHostMemoryAlreadyRegistered:
    case kHostMemoryNotRegistered:
      return DeviceCode::invalid;
    default:
      return failure_of(call);
  }
}

ContextScope::ContextScope(const Driver& driver, Context context) : driver_(driver) {
  exchanged_ = driver_.exchange_capture_mode(&capture_mode_) == kSuccess;
  code_ = driver_.context_get(&before_);
  if (code_ != kSuccess || before_ == context) return;
  code_ = driver_.context_set(context);
  changed_ = code_ == kSuccess;
}

ContextScope::~ContextScope() {
  if (changed_) driver_.context_set(before_);
  if (exchanged_) driver_.exchange_capture_mode(&capture_mode_);
}

}  // namespace tidemark::cuda
