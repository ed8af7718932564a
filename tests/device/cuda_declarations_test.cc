// Our own declarations of the driver API held against cuda.h, on machines that have it. Compiling is most of the test.

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "device/cuda_driver.h"

namespace tidemark::cuda {
namespace {

// Pointers to opaque types and enums differ in name only; sizes and the number of parameters must agree.
template <class Ours, class Theirs>
constexpr bool same_parameter = sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;

template <class... Ours, class... Theirs>
constexpr bool same_call(Code (*)(Ours...), CUresult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
    return (same_parameter<Ours, Theirs> && ...);
  } else {
    return false;
  }
}

#define EXPECT_SAME(member, function)                                                       \
  do {                                                                                      \
    EXPECT_TRUE(same_call(decltype(Driver::member){}, decltype(&function){})) << #function; \
  } while (false)

TEST(CudaDeclarations, FunctionsTakeWhatTheHeaderSays) {
  EXPECT_SAME(init, cuInit);
  EXPECT_SAME(error_name, cuGetErrorName);
  EXPECT_SAME(error_string, cuGetErrorString);
  EXPECT_SAME(device_get, cuDeviceGet);
  EXPECT_SAME(device_count, cuDeviceGetCount);
  EXPECT_SAME(device_name, cuDeviceGetName);
  EXPECT_SAME(device_attribute, cuDeviceGetAttribute);
  EXPECT_SAME(device_bus_id, cuDeviceGetPCIBusId);
  EXPECT_SAME(can_access_peer, cuDeviceCanAccessPeer);
  EXPECT_SAME(exchange_capture_mode, cuThreadExchangeStreamCaptureMode);
  EXPECT_SAME(context_retain, cuDevicePrimaryCtxRetain);
  EXPECT_SAME(context_release, cuDevicePrimaryCtxRelease);
  EXPECT_SAME(context_get, cuCtxGetCurrent);
  EXPECT_SAME(context_set, cuCtxSetCurrent);
  EXPECT_SAME(context_synchronize, cuCtxSynchronize);
  EXPECT_SAME(stream_priorities, cuCtxGetStreamPriorityRange);
  EXPECT_SAME(memory_info, cuMemGetInfo);
  EXPECT_SAME(allocate, cuMemAlloc);
  EXPECT_SAME(free, cuMemFree);
  EXPECT_SAME(host_allocate, cuMemHostAlloc);
  EXPECT_SAME(host_free, cuMemFreeHost);
  EXPECT_SAME(host_register, cuMemHostRegister);
  EXPECT_SAME(host_unregister, cuMemHostUnregister);
  EXPECT_SAME(granularity, cuMemGetAllocationGranularity);
  EXPECT_SAME(address_reserve, cuMemAddressReserve);
  EXPECT_SAME(address_free, cuMemAddressFree);
  EXPECT_SAME(create, cuMemCreate);
  EXPECT_SAME(release, cuMemRelease);
  EXPECT_SAME(map, cuMemMap);
  EXPECT_SAME(unmap, cuMemUnmap);
  EXPECT_SAME(set_access, cuMemSetAccess);
  EXPECT_SAME(stream_create, cuStreamCreateWithPriority);
  EXPECT_SAME(stream_destroy, cuStreamDestroy);
  EXPECT_SAME(stream_synchronize, cuStreamSynchronize);
  EXPECT_SAME(stream_wait_event, cuStreamWaitEvent);
  EXPECT_SAME(event_create, cuEventCreate);
  EXPECT_SAME(event_destroy, cuEventDestroy);
  EXPECT_SAME(event_record, cuEventRecord);
  EXPECT_SAME(event_query, cuEventQuery);
  EXPECT_SAME(event_synchronize, cuEventSynchronize);
  EXPECT_SAME(copy_to_device, cuMemcpyHtoDAsync);
  EXPECT_SAME(copy_to_host, cuMemcpyDtoHAsync);
  EXPECT_SAME(copy_in_device, cuMemcpyDtoDAsync);
  EXPECT_SAME(copy_to_host_now, cuMemcpyDtoH);
  EXPECT_SAME(fill_now, cuMemsetD8);
  EXPECT_SAME(module_load, cuModuleLoadData);
  EXPECT_SAME(module_unload, cuModuleUnload);
  EXPECT_SAME(module_function, cuModuleGetFunction);
  EXPECT_SAME(launch_kernel, cuLaunchKernel);
}

TEST(CudaDeclarations, StructsAreLaidOutAsTheHeadersAre) {
  EXPECT_EQ(sizeof(AllocationProperties), sizeof(CUmemAllocationProp));
  EXPECT_EQ(offsetof(AllocationProperties, location), offsetof(CUmemAllocationProp, location));
  EXPECT_EQ(offsetof(AllocationProperties, windows_metadata), offsetof(CUmemAllocationProp, win32HandleMetaData));
  EXPECT_EQ(offsetof(AllocationProperties, compression), offsetof(CUmemAllocationProp, allocFlags.compressionType));
  EXPECT_EQ(sizeof(AccessDescription), sizeof(CUmemAccessDesc));
  EXPECT_EQ(offsetof(AccessDescription, flags), offsetof(CUmemAccessDesc, flags));
}

TEST(CudaDeclarations, ConstantsAreTheHeaders) {
  EXPECT_EQ(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kDeinitialized, CUDA_ERROR_DEINITIALIZED);
  EXPECT_EQ(kDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_EQ(kInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
  EXPECT_EQ(kInvalidPtx, CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(kNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
  EXPECT_EQ(kJitCompilerNotFound, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
  EXPECT_EQ(kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_EQ(kInvalidHandle, CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(kIllegalState, CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(kNotFound, CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(kNotReady, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(kLaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(kLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
  EXPECT_EQ(kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(kHostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(kHostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(kNotSupported, CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(kUnknown, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(kAttributeHostRegister, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  EXPECT_EQ(kAttributeVirtualMemory, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
  EXPECT_EQ(kHostPortable, unsigned{CU_MEMHOSTREGISTER_PORTABLE});
  EXPECT_EQ(kStreamNonBlocking, unsigned{CU_STREAM_NON_BLOCKING});
  EXPECT_EQ(kEventBlockingSync, unsigned{CU_EVENT_BLOCKING_SYNC});
  EXPECT_EQ(kEventDisableTiming, unsigned{CU_EVENT_DISABLE_TIMING});
  EXPECT_EQ(kAllocationPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
  EXPECT_EQ(kLocationDevice, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(kAccessReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(kGranularityMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
}

}  // namespace
}  // namespace tidemark::cuda
