#pragma once
// The functions of libcuda.so.1 that the cuda back end calls, and the few types they need, declared here after the CUDA
// driver API (CUDA Toolkit documentation; cuda.h of CUDA 10.2 and later, where these have not changed). Symbols carry
// the version suffix that cuda.h maps the plain names to; streams are the legacy ones (no _ptsz).

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"
#include "device/device.h"
#include "device/shared_library.h"
#include "device/vendor_call.h"

namespace tidemark::cuda {

using Code = int;                    ///< CUresult
using DeviceNumber = int;            ///< CUdevice
using Pointer = unsigned long long;  ///< CUdeviceptr
using Handle = unsigned long long;   ///< CUmemGenericAllocationHandle
using Context = struct ContextOpaque*;
using Stream = struct StreamOpaque*;
using Event = struct EventOpaque*;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;

inline constexpr Code kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3, kDeinitialized = 4,
                      kDeviceUnavailable = 46, kNoDevice = 100, kInvalidDevice = 101, kInvalidContext = 201,
                      kMapFailed = 205, kNoBinaryForGpu = 209, kEccUncorrectable = 214, kInvalidPtx = 218,
                      kNvlinkUncorrectable = 220, kJitCompilerNotFound = 221, kUnsupportedPtxVersion = 222,
                      kOperatingSystem = 304, kInvalidHandle = 400, kIllegalState = 401, kNotFound = 500,
                      kNotReady = 600, kIllegalAddress = 700, kLaunchOutOfResources = 701, kLaunchTimeout = 702,
                      kContextIsDestroyed = 709, kHostMemoryAlreadyRegistered = 712, kHostMemoryNotRegistered = 713,
                      kLaunchFailed = 719, kNotSupported = 801, kUnknown = 999;

inline constexpr int kAttributeMultiprocessors = 16, kAttributeHostRegister = 99, kAttributeVirtualMemory = 102;
inline constexpr unsigned kHostPortable = 1;       ///< CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE
inline constexpr unsigned kStreamNonBlocking = 1;  ///< CU_STREAM_NON_BLOCKING
inline constexpr unsigned kEventBlockingSync = 1, kEventDisableTiming = 2;
inline constexpr int kAllocationPinned = 1;    ///< CU_MEM_ALLOCATION_TYPE_PINNED
inline constexpr int kLocationDevice = 1;      ///< CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int kAccessReadWrite = 3;     ///< CU_MEM_ACCESS_FLAGS_PROT_READWRITE
inline constexpr int kGranularityMinimum = 0;  ///< CU_MEM_ALLOC_GRANULARITY_MINIMUM
inline constexpr int kCaptureRelaxed = 2;      ///< CU_STREAM_CAPTURE_MODE_RELAXED

struct Location {  ///< CUmemLocation
  int type = 0;
  int id = 0;
};
struct AllocationProperties {  ///< CUmemAllocationProp
  int type = kAllocationPinned;
  int requested_handle_types = 0;
  Location location;
  void* windows_metadata = nullptr;
  unsigned char compression = 0;
  unsigned char rdma_capable = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};
struct AccessDescription {  ///< CUmemAccessDesc
  Location location;
  int flags = kAccessReadWrite;
};

/// All there after load_driver(). Each returns Code.
struct Driver {
  std::vector<SharedLibrary> libraries;

  Code (*init)(unsigned flags) = nullptr;
  Code (*error_name)(Code code, const char** text) = nullptr;
  Code (*error_string)(Code code, const char** text) = nullptr;
  Code (*device_get)(DeviceNumber* device, int ordinal) = nullptr;
  Code (*device_count)(int* count) = nullptr;
  Code (*device_name)(char* name, int bytes, DeviceNumber device) = nullptr;
  Code (*device_attribute)(int* value, int attribute, DeviceNumber device) = nullptr;
  Code (*device_bus_id)(char* text, int bytes, DeviceNumber device) = nullptr;
  Code (*can_access_peer)(int* can, DeviceNumber device, DeviceNumber peer) = nullptr;
  Code (*context_retain)(Context* context, DeviceNumber device) = nullptr;
  Code (*context_release)(DeviceNumber device) = nullptr;
  Code (*context_get)(Context* context) = nullptr;
  Code (*context_set)(Context context) = nullptr;
  Code (*context_synchronize)() = nullptr;
  Code (*exchange_capture_mode)(int* mode) = nullptr;
  Code (*stream_priorities)(int* least, int* greatest) = nullptr;

  Code (*memory_info)(std::size_t* free, std::size_t* total) = nullptr;
  Code (*allocate)(Pointer* pointer, std::size_t bytes) = nullptr;
  Code (*free)(Pointer pointer) = nullptr;
  Code (*host_allocate)(void** pointer, std::size_t bytes, unsigned flags) = nullptr;
  Code (*host_free)(void* pointer) = nullptr;
  Code (*host_register)(void* pointer, std::size_t bytes, unsigned flags) = nullptr;
  Code (*host_unregister)(void* pointer) = nullptr;

  Code (*granularity)(std::size_t* bytes, const AllocationProperties* properties, int option) = nullptr;
  Code (*address_reserve)(Pointer* base, std::size_t bytes, std::size_t alignment, Pointer wish,
                          unsigned long long flags) = nullptr;
  Code (*address_free)(Pointer base, std::size_t bytes) = nullptr;
  Code (*create)(Handle* handle, std::size_t bytes, const AllocationProperties* properties,
                 unsigned long long flags) = nullptr;
  Code (*release)(Handle handle) = nullptr;
  Code (*map)(Pointer at, std::size_t bytes, std::size_t offset, Handle handle, unsigned long long flags) = nullptr;
  Code (*unmap)(Pointer at, std::size_t bytes) = nullptr;
  Code (*set_access)(Pointer at, std::size_t bytes, const AccessDescription* description, std::size_t count) = nullptr;

  Code (*stream_create)(Stream* stream, unsigned flags, int priority) = nullptr;
  Code (*stream_destroy)(Stream stream) = nullptr;
  Code (*stream_synchronize)(Stream stream) = nullptr;
  Code (*stream_wait_event)(Stream stream, Event event, unsigned flags) = nullptr;
  Code (*event_create)(Event* event, unsigned flags) = nullptr;
  Code (*event_destroy)(Event event) = nullptr;
  Code (*event_record)(Event event, Stream stream) = nullptr;
  Code (*event_query)(Event event) = nullptr;
  Code (*event_synchronize)(Event event) = nullptr;

  Code (*copy_to_device)(Pointer to, const void* from, std::size_t bytes, Stream stream) = nullptr;
  Code (*copy_to_host)(void* to, Pointer from, std::size_t bytes, Stream stream) = nullptr;
  Code (*copy_in_device)(Pointer to, Pointer from, std::size_t bytes, Stream stream) = nullptr;
  Code (*copy_to_host_now)(void* to, Pointer from, std::size_t bytes) = nullptr;
  Code (*fill_now)(Pointer to, unsigned char value, std::size_t bytes) = nullptr;

  Code (*module_load)(Module* module, const void* image) = nullptr;
  Code (*module_unload)(Module module) = nullptr;
  Code (*module_function)(Function* function, Module module, const char* name) = nullptr;
  Code (*launch_kernel)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters,
                        void** extra) = nullptr;

  /// `CUDA_ERROR_OUT_OF_MEMORY (2): out of memory`
  [[nodiscard]] std::string text_of(Code code) const;
};

/// Loads the library and calls init. Errors (infeasible): no library, functions missing, init failed.
[[nodiscard]] Result<Driver> load_driver(const std::string& path);

/// What a code from such a call means for the caller of Device. Sticky errors, after which the context is unusable, are
/// `lost` whoever tells of them.
[[nodiscard]] DeviceCode device_code_of(Code code, VendorCall call);

/// Makes `context` current on the calling thread and restores what was there at the end of the scope. Meanwhile the
/// thread may make calls that are forbidden while a stream anywhere in the process is captured into a graph (cuMemAlloc
/// and cuMemFree among them): ours have nothing to do with the capture, and it would end with them.
class ContextScope {
 public:
  ContextScope(const Driver& driver, Context context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  [[nodiscard]] Code code() const { return code_; }

 private:
  const Driver& driver_;
  Context before_ = nullptr;
  int capture_mode_ = kCaptureRelaxed;  ///< the caller's, once exchanged
  bool changed_ = false, exchanged_ = false;
  Code code_ = kSuccess;
};

}  // namespace tidemark::cuda
