// The stand-in for the CUDA driver catches what the driver's documentation forbids: broken calls, straight to the
// library. (It is host memory, no GPU.)

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "device/cuda_driver.h"
#include "tests/support/stand_ins.h"

namespace tidemark::cuda {
namespace {

constexpr std::size_t kGranule = 2 * kMiB;

class CudaStandIn : public ::testing::Test {
 protected:
  CudaStandIn() {
    controls_.reset();
    auto loaded = load_driver(TIDEMARK_CUDA_STAND_IN);
    EXPECT_TRUE(loaded.ok());
    cuda_ = std::move(loaded).value();
    EXPECT_EQ(cuda_.context_retain(&context_, 0), kSuccess);
    EXPECT_EQ(cuda_.context_set(context_), kSuccess);
    EXPECT_EQ(cuda_.stream_create(&stream_, kStreamNonBlocking, 0), kSuccess);
    properties_.location = {kLocationDevice, 0};
  }
  ~CudaStandIn() override {
    controls_.reset();
    cuda_.context_set(nullptr);
    cuda_.context_release(0);
  }
  Pointer reserve(std::size_t granules) {
    Pointer base = 0;
    EXPECT_EQ(cuda_.address_reserve(&base, granules * kGranule, 0, 0, 0), kSuccess);
    return base;
  }
  Handle create(std::size_t granules) {
    Handle handle = 0;
    EXPECT_EQ(cuda_.create(&handle, granules * kGranule, &properties_, 0), kSuccess);
    return handle;
  }
  Code allow(Pointer at, std::size_t granules) {
    const AccessDescription access{.location = properties_.location};
    return cuda_.set_access(at, granules * kGranule, &access, 1);
  }
  void* host(std::size_t bytes) {
    void* pointer = nullptr;
    EXPECT_EQ(cuda_.host_allocate(&pointer, bytes, kHostPortable), kSuccess);
    return pointer;
  }

  StandInControls controls_{TIDEMARK_CUDA_STAND_IN};
  Driver cuda_;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  AllocationProperties properties_;
};

TEST_F(CudaStandIn, CleanUseIsNoViolation) {
  const Pointer base = reserve(2);
  const Handle handle = create(2);
  ASSERT_EQ(cuda_.map(base, 2 * kGranule, 0, handle, 0), kSuccess);
  ASSERT_EQ(allow(base, 2), kSuccess);
  EXPECT_EQ(cuda_.copy_to_device(base, host(kGranule), kGranule, stream_), kSuccess);
  EXPECT_EQ(cuda_.stream_synchronize(stream_), kSuccess);
  EXPECT_EQ(cuda_.unmap(base, 2 * kGranule), kSuccess);
  EXPECT_EQ(cuda_.release(handle), kSuccess);
  EXPECT_EQ(cuda_.address_free(base, 2 * kGranule), kSuccess);
  EXPECT_EQ(controls_.get("violations"), 0);
}

TEST_F(CudaStandIn, AccessNeedsSetAccess) {
  const Pointer base = reserve(1);
  ASSERT_EQ(cuda_.map(base, kGranule, 0, create(1), 0), kSuccess);
  EXPECT_EQ(cuda_.copy_to_device(base, host(4096), 4096, stream_), kSuccess);
  EXPECT_EQ(cuda_.stream_synchronize(stream_), kIllegalAddress);
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cuda_.memory_info(&free, &total), kIllegalAddress);  // sticky
}

TEST_F(CudaStandIn, AnotherDeviceNeedsAccessOfItsOwn) {
  const Pointer base = reserve(2);
  ASSERT_EQ(cuda_.map(base, 2 * kGranule, 0, create(2), 0), kSuccess);
  ASSERT_EQ(allow(base, 2), kSuccess);
  Context second = nullptr;
  ASSERT_EQ(cuda_.context_retain(&second, 1), kSuccess);
  ASSERT_EQ(cuda_.context_set(second), kSuccess);
  EXPECT_EQ(cuda_.copy_to_device(base, host(4096), 4096, stream_), kSuccess);
  EXPECT_EQ(cuda_.stream_synchronize(stream_), kIllegalAddress);
  EXPECT_EQ(controls_.get("violations"), 1);
  ASSERT_EQ(cuda_.context_release(1), kSuccess);
}

TEST_F(CudaStandIn, WhatACaptureDoesNotSurviveIsAViolation) {
  controls_.set("capturing", 1);
  int mode = kCaptureRelaxed;
  Pointer block = 0;
  ASSERT_EQ(cuda_.exchange_capture_mode(&mode), kSuccess);
  EXPECT_EQ(mode, 0) << "global, as every thread begins";
  EXPECT_EQ(cuda_.allocate(&block, 4096), kSuccess);
  EXPECT_EQ(controls_.get("violations"), 0);
  ASSERT_EQ(cuda_.exchange_capture_mode(&mode), kSuccess);
  EXPECT_EQ(cuda_.allocate(&block, 4096), kSuccess);
  EXPECT_EQ(controls_.get("violations"), 1);
}

TEST_F(CudaStandIn, CountsCopiesByDirectionStreamAndHostSide) {
  std::vector<unsigned char> pageable(4096, 7);
  void* const buffer = host(4096);
  Pointer block = 0;
  Pointer other = 0;  // nothing orders the two streams
  ASSERT_EQ(cuda_.allocate(&block, 4096), kSuccess);
  ASSERT_EQ(cuda_.allocate(&other, 1024), kSuccess);
  EXPECT_EQ(controls_.get("pinned_allocations"), 1);
  EXPECT_EQ(cuda_.copy_to_device(block, buffer, 4096, stream_), kSuccess);
  EXPECT_EQ(cuda_.copy_to_device(other, pageable.data(), 1024, nullptr), kSuccess);
  EXPECT_EQ(cuda_.copy_to_host(buffer, block, 4096, stream_), kSuccess);
  EXPECT_EQ(cuda_.stream_synchronize(stream_), kSuccess);
  EXPECT_EQ(cuda_.copy_to_host_now(pageable.data(), block, 4096), kSuccess);
  EXPECT_EQ(controls_.get("copies_in"), 2);
  EXPECT_EQ(controls_.get("copied_in_bytes"), 4096 + 1024);
  EXPECT_EQ(controls_.get("copy_streams_in"), 2);
  EXPECT_EQ(controls_.get("copies_out"), 1);
  EXPECT_EQ(controls_.get("copied_out_bytes"), 4096);
  EXPECT_EQ(controls_.get("copy_streams_out"), 1);
  EXPECT_EQ(controls_.get("pageable_copies"), 1);
  EXPECT_EQ(controls_.get("synchronous_copies"), 1);
}

TEST_F(CudaStandIn, RemappedMemoryNeedsAccessAnew) {
  const Pointer base = reserve(1);
  const Handle handle = create(1);
  ASSERT_EQ(cuda_.map(base, kGranule, 0, handle, 0), kSuccess);
  ASSERT_EQ(allow(base, 1), kSuccess);
  ASSERT_EQ(cuda_.unmap(base, kGranule), kSuccess);
  ASSERT_EQ(cuda_.map(base, kGranule, 0, handle, 0), kSuccess);
  EXPECT_EQ(cuda_.copy_to_device(base, host(4096), 4096, stream_), kSuccess);
  EXPECT_EQ(cuda_.stream_synchronize(stream_), kIllegalAddress);
}

TEST_F(CudaStandIn, UnmapsWholeHandlesOnly) {
  const Pointer base = reserve(4);
  const Handle handle = create(2);
  EXPECT_EQ(cuda_.map(base, kGranule, 0, handle, 0), kInvalidValue);
  EXPECT_EQ(cuda_.map(base, 2 * kGranule, kGranule, handle, 0), kInvalidValue);
  EXPECT_EQ(cuda_.map(base + 4096, 2 * kGranule, 0, handle, 0), kInvalidValue);
  EXPECT_EQ(cuda_.map(base + 3 * kGranule, 2 * kGranule, 0, handle, 0), kInvalidValue);
  ASSERT_EQ(cuda_.map(base, 2 * kGranule, 0, handle, 0), kSuccess);
  ASSERT_EQ(cuda_.map(base + 2 * kGranule, 2 * kGranule, 0, handle, 0), kSuccess);  // an alias
  EXPECT_EQ(cuda_.map(base, 2 * kGranule, 0, handle, 0), kInvalidValue);
  EXPECT_EQ(cuda_.unmap(base, kGranule), kInvalidValue);
  EXPECT_EQ(cuda_.unmap(base + kGranule, kGranule), kInvalidValue);
  EXPECT_EQ(cuda_.address_free(base, 4 * kGranule), kInvalidValue);
  EXPECT_EQ(cuda_.release(handle), kSuccess);
  EXPECT_EQ(cuda_.unmap(base, 2 * kGranule), kSuccess);
  EXPECT_EQ(controls_.get("physicals"), 1);
  EXPECT_EQ(cuda_.unmap(base + 2 * kGranule, 2 * kGranule), kSuccess);
  EXPECT_EQ(controls_.get("physicals"), 0);
}

TEST_F(CudaStandIn, SizesAreGranularAndPropertiesChecked) {
  Pointer base = 0;
  Handle handle = 0;
  EXPECT_EQ(cuda_.address_reserve(&base, kGranule + 4096, 0, 0, 0), kInvalidValue);
  EXPECT_EQ(cuda_.create(&handle, 4096, &properties_, 0), kInvalidValue);
  const AllocationProperties nowhere;
  EXPECT_EQ(cuda_.create(&handle, kGranule, &nowhere, 0), kInvalidValue);
}

TEST_F(CudaStandIn, RegistersOnce) {
  void* const buffer = host(8192);
  EXPECT_EQ(cuda_.host_register(buffer, 4096, kHostPortable), kHostMemoryAlreadyRegistered);
  EXPECT_EQ(cuda_.host_unregister(buffer), kHostMemoryNotRegistered);
}

TEST_F(CudaStandIn, ContextsAreRequired) {
  std::thread([&] {
    Pointer pointer = 0;
    EXPECT_EQ(cuda_.allocate(&pointer, 1024), kInvalidContext);
    EXPECT_EQ(cuda_.stream_synchronize(stream_), kInvalidContext);
  }).join();
}

TEST_F(CudaStandIn, FreeWaitsForTheDevice) {
  Pointer block = 0;
  ASSERT_EQ(cuda_.allocate(&block, kMiB), kSuccess);
  void* const buffer = host(kMiB);
  controls_.set("delay_us", 20'000);
  EXPECT_EQ(cuda_.copy_to_device(block, buffer, kMiB, stream_), kSuccess);
  EXPECT_EQ(cuda_.free(block), kSuccess);
  EXPECT_EQ(cuda_.stream_synchronize(stream_), kSuccess);
  EXPECT_EQ(controls_.get("violations"), 0);
}

TEST_F(CudaStandIn, OnlyOurKernelsAndWholeModules) {
  Module module = nullptr;
  Function function = nullptr;
  EXPECT_EQ(cuda_.module_load(&module, "not ptx"), kInvalidPtx);
  ASSERT_EQ(cuda_.module_load(&module, ".version 6.0\n.address_size 64\n.visible .entry tidemark_fill("), kSuccess);
  EXPECT_EQ(cuda_.module_function(&function, module, "tidemark_check"), kNotFound);
  EXPECT_EQ(cuda_.module_function(&function, module, "tidemark_fill"), kSuccess);
  EXPECT_EQ(cuda_.module_unload(module), kSuccess);
}

}  // namespace
}  // namespace tidemark::cuda
