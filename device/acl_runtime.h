#pragma once
// The functions of Ascend's ACL that the ascend back end calls, and the few types they need, declared here after
// acl_rt.h and acl.h of the CANN runtime (version 1.17). CANN ships them in libascendcl.so, libacl_rt.so or both, so
// each is looked up across the two.
//
// Mind: aclrtStreamWaitEvent takes the stream first, aclrtRecordEvent the event; aclrtQueryEventStatus says 1 for
// complete, where the older aclrtQueryEvent said 0.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"
#include "device/device.h"
#include "device/shared_library.h"
#include "device/vendor_call.h"

namespace tidemark::acl {

using Code = int;  ///< aclError
using Context = void*;
using Stream = void*;
using Event = void*;
using PhysicalHandle = void*;  ///< aclrtDrvMemHandle
using HostFunction = void (*)(void* argument);

inline constexpr Code kSuccess = 0, kInvalidParameter = 100000, kUninitialised = 100001, kRepeatInit = 100002,
                      kRuntimeParameter = 107000, kInvalidDevice = 107001, kNullContext = 107002,
                      kStreamNotInContext = 107003, kWaitTimeout = 107019, kTaskTimeout = 107020, kBadAlloc = 200000,
                      kUnsupported = 207000, kOutOfMemory = 207001, kMemoryFree = 207002, kNoDevice = 207004,
                      kResourceAllocation = 207005, kNoPermission = 207006, kNoEventResource = 207007,
                      kNoStreamResource = 207008, kNoNotifyResource = 207009, kNoModelResource = 207010,
                      kNoInternalResource = 207011, kOverLimit = 207012, kQueueFull = 207014,
                      kDeviceOutOfMemory = 207018, kStreamTaskFull = 507002, kEventNotComplete = 507006,
                      kCopyEngine = 507013, kStreamSyncTimeout = 507046, kEventSyncTimeout = 507047;

inline constexpr int kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3;  ///< aclrtMemcpyKind
inline constexpr int kHugeFirst = 0;                                             ///< aclrtMemMallocPolicy
inline constexpr int kHbm = 1, kHbmHuge = 4;                                     ///< aclrtMemAttr
inline constexpr int kEventComplete = 1;                                         ///< aclrtEventRecordedStatus
inline constexpr std::uint32_t kEventSync = 1;                                   ///< ACL_EVENT_SYNC
inline constexpr int kLocationDevice = 1;                                        ///< ACL_MEM_LOCATION_TYPE_DEVICE
inline constexpr std::uint64_t kReserveHugePages = 1;  ///< flag of aclrtReserveMemAddress, as torch_npu passes it
inline constexpr int kGranularityMinimum = 0;
inline constexpr std::uint32_t kRegisterPinned = 0x10000000;
inline constexpr int kPackageCann = 0;  ///< ACL_PKG_NAME_CANN

struct PhysicalProperties {  ///< aclrtPhysicalMemProp
  int handle_type = 0;       ///< ACL_MEM_HANDLE_TYPE_NONE
  int allocation_type = 0;   ///< ACL_MEM_ALLOCATION_TYPE_PINNED
  int attribute = kHbmHuge;
  std::uint32_t location_id = 0;
  int location_type = kLocationDevice;
  std::uint64_t reserved = 0;
};
static_assert(sizeof(PhysicalProperties) == 32);

struct PackageVersion {  ///< begins as aclCANNPackageVersion does; larger than it
  char version[128] = {};
  char rest[896] = {};
};

/// Null are only the functions marked optional. Each returns Code but recent_message.
struct Runtime {
  std::vector<SharedLibrary> libraries;

  Code (*init)(const char* configuration_path) = nullptr;
  const char* (*recent_message)() = nullptr;
  Code (*device_count)(std::uint32_t* count) = nullptr;
  Code (*set_device)(std::int32_t device) = nullptr;
  Code (*get_context)(Context* context) = nullptr;
  Code (*set_context)(Context context) = nullptr;
  Code (*synchronize_device)() = nullptr;
  Code (*memory_info)(int attribute, std::size_t* free, std::size_t* total) = nullptr;

  Code (*allocate)(void** pointer, std::size_t bytes, int policy) = nullptr;        ///< adds 32 bytes itself
  Code (*allocate_exact)(void** pointer, std::size_t bytes, int policy) = nullptr;  ///< Align32, optional; adds none
  Code (*free)(void* pointer) = nullptr;
  Code (*host_allocate)(void** pointer, std::size_t bytes) = nullptr;
  Code (*host_free)(void* pointer) = nullptr;
  Code (*host_register)(void* pointer, std::uint64_t bytes, std::uint32_t flags) = nullptr;  ///< V2, optional
  Code (*host_unregister)(void* pointer) = nullptr;                                          ///< optional

  // Optional, all or none: virtual memory.
  Code (*granularity)(const PhysicalProperties* properties, int option, std::size_t* bytes) = nullptr;
  Code (*address_reserve)(void** base, std::size_t bytes, std::size_t alignment, void* wish,
                          std::uint64_t flags) = nullptr;
  Code (*address_release)(void* base) = nullptr;
  Code (*physical_allocate)(PhysicalHandle* handle, std::size_t bytes, const PhysicalProperties* properties,
                            std::uint64_t flags) = nullptr;
  Code (*physical_free)(PhysicalHandle handle) = nullptr;
  Code (*map)(void* at, std::size_t bytes, std::size_t offset, PhysicalHandle handle, std::uint64_t flags) = nullptr;
  Code (*unmap)(void* at) = nullptr;

  Code (*stream_create)(Stream* stream) = nullptr;
  Code (*stream_destroy)(Stream stream) = nullptr;
  Code (*stream_synchronize)(Stream stream) = nullptr;
  Code (*stream_wait_event)(Stream stream, Event event) = nullptr;
  Code (*event_create)(Event* event, std::uint32_t flags) = nullptr;  ///< the extended ones
  Code (*event_destroy)(Event event) = nullptr;
  Code (*event_record)(Event event, Stream stream) = nullptr;
  Code (*event_status)(Event event, int* status) = nullptr;
  Code (*event_synchronize)(Event event) = nullptr;
  Code (*event_synchronize_limit)(Event event, std::int32_t timeout_ms) = nullptr;

  Code (*copy)(void* to, std::size_t room, const void* from, std::size_t bytes, int kind, Stream stream) = nullptr;
  Code (*launch_host_function)(Stream stream, HostFunction function, void* argument) = nullptr;  ///< optional

  const char* (*soc_name)() = nullptr;                                      ///< optional
  Code (*package_version)(int package, PackageVersion* version) = nullptr;  ///< optional

  /// `aclrtMalloc: 207001 (out of memory); EE1001 ...`: the call, what the code means, ACL's own text if it has one.
  [[nodiscard]] std::string text_of(const char* call, Code code) const;
};

/// Loads both libraries and initialises ACL if nobody has. Errors (infeasible): none of them, functions missing, ACL
/// does not start.
[[nodiscard]] Result<Runtime> load_runtime(const std::string& first, const std::string& second);

/// What a code from such a call means for the caller of Device. The 507000s, in which the device or its context failed,
/// are `lost` whoever tells of them; the few of them that only say "full" or "not yet" are not.
[[nodiscard]] DeviceCode device_code_of(Code code, VendorCall call);

/// Readable bytes that must follow every block on this chip with this version of CANN ("9.1.0", "8.3.RC1").
[[nodiscard]] Bytes tail_pad_of(const std::string& soc_name, const std::string& cann_version);

/// Makes `context` current on the calling thread and restores what was there at the end of the scope.
class ContextScope {
 public:
  ContextScope(const Runtime& runtime, Context context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  [[nodiscard]] Code code() const { return code_; }

 private:
  const Runtime& runtime_;
  Context before_ = nullptr;
  bool restore_ = false;
  Code code_ = kSuccess;
};

}  // namespace tidemark::acl
