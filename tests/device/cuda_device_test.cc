// The cuda back end on the stand-in for its driver (tests/support/cuda_stand_in: host memory, no GPU). What every back
// end must do is in tests/conformance; here is what is CUDA's own.

#include "device/cuda_device.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "device/cuda_driver.h"
#include "device/host_pages.h"
#include "device/pattern.h"
#include "tests/device/vendor_fixture.h"

namespace tidemark {
namespace {

class CudaOnStandIn : public OnStandIn {
 protected:
  CudaOnStandIn() : OnStandIn(TIDEMARK_CUDA_STAND_IN) {}
  Device& open(const CudaOptions& options = cuda_stand_in_options()) { return use(open_cuda_device(options)); }
};

TEST_F(CudaOnStandIn, SaysThatItIsNoGpu) {
  EXPECT_NE(open().traits().product.find("stand-in"), std::string::npos);
  EXPECT_EQ(device_->traits().granule_bytes, 2 * kMiB);
  EXPECT_TRUE(device_->traits().aliasing);
  EXPECT_FALSE(device_->traits().simulated);
}

TEST_F(CudaOnStandIn, OpenNamesWhatIsMissing) {
  EXPECT_FALSE(open_cuda_device({.library = "libno_such_driver.so.1"}).ok());
  const auto other = open_cuda_device({.library = "libm.so.6"});
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("cuMemCreate"), std::string::npos);
  CudaOptions options = cuda_stand_in_options();
  options.ordinal = 7;
  EXPECT_NE(open_cuda_device(options).error().message.find("sees 2"), std::string::npos);
  options.ordinal = -1;
  EXPECT_EQ(open_cuda_device(options).error().code, Error::Code::bad_input);
}

TEST_F(CudaOnStandIn, OpenFailsCleanlyAtEveryCall) {
  for (const char* const call : {"cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDevicePrimaryCtxRetain",
                                 "cuCtxGetStreamPriorityRange", "cuMemGetAllocationGranularity"}) {
    controls_.fail_call(call, 0, cuda::kOutOfMemory);
    const auto failed = open_cuda_device(cuda_stand_in_options());
    ASSERT_FALSE(failed.ok()) << call;
    EXPECT_EQ(failed.error().code, Error::Code::infeasible) << call;
  }
  open();
}

TEST_F(CudaOnStandIn, WithoutVirtualMemoryOnlyPlainMemory) {
  controls_.set("mapping", 0);
  open();
  Address address = 0;
  EXPECT_FALSE(device_->traits().mapping);
  EXPECT_EQ(device_->reserve(kGiB, address), DeviceCode::unsupported);
  EXPECT_EQ(device_->allocate_plain(1000, address), DeviceCode::ok);
}

TEST_F(CudaOnStandIn, BelongsToTheProcessThatOpenedIt) {
  open();
  expect_refused_in_a_child();
}

TEST_F(CudaOnStandIn, RestoresTheCallersContext) {
  open();
  using Get = cuda::Code(cuda::Context*);
  using Set = cuda::Code(cuda::Context);
  using Retain = cuda::Code(cuda::Context*, cuda::DeviceNumber);
  Get* get = nullptr;
  Set* set = nullptr;
  Retain* retain = nullptr;
  controls_.find(get, "cuCtxGetCurrent");
  controls_.find(set, "cuCtxSetCurrent");
  controls_.find(retain, "cuDevicePrimaryCtxRetain");
  cuda::Context other = nullptr, now = nullptr;
  ASSERT_EQ(retain(&other, 1), cuda::kSuccess);
  ASSERT_EQ(set(other), cuda::kSuccess);
  MemoryInfo info;
  EXPECT_EQ(device_->memory_info(info), DeviceCode::ok);
  Address address = 0;
  EXPECT_EQ(device_->allocate_plain(1000, address), DeviceCode::ok);
  ASSERT_EQ(get(&now), cuda::kSuccess);
  EXPECT_EQ(now, other);
  ASSERT_EQ(set(nullptr), cuda::kSuccess);
  EXPECT_EQ(device_->free_plain(address), DeviceCode::ok);
  ASSERT_EQ(get(&now), cuda::kSuccess);
  EXPECT_EQ(now, nullptr);
}

TEST_F(CudaOnStandIn, MapIsAllOrNothingAtEveryFailure) {
  open();
  const Bytes bytes = 4 * granule();
  const Address base = reserve(bytes);
  for (const char* const call : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    for (std::int64_t skip = 0; skip < (std::string(call) == "cuMemSetAccess" ? 1 : 4); ++skip) {
      controls_.fail_call(call, skip, cuda::kOutOfMemory);
      EXPECT_EQ(device_->map(base, bytes), DeviceCode::out_of_memory) << call << " after " << skip;
      EXPECT_NE(device_->last_error().find(call), std::string::npos);
      EXPECT_EQ(controls_.get("mappings"), 0);
      EXPECT_EQ(controls_.get("physicals"), 0);
    }
  }
  EXPECT_EQ(device_->map(base, bytes), DeviceCode::ok);
  EXPECT_EQ(controls_.get("mappings"), 4);
  EXPECT_EQ(device_->map(base, granule()), DeviceCode::invalid);
  EXPECT_EQ(device_->release(base, bytes), DeviceCode::invalid);
  EXPECT_EQ(device_->unmap(base, bytes), DeviceCode::ok);
  EXPECT_EQ(controls_.get("physicals"), 0);
  EXPECT_EQ(device_->release(base, bytes), DeviceCode::ok);
}

TEST_F(CudaOnStandIn, AliasFailureLeavesTheSourceAlone) {
  open();
  const Address base = reserve(4 * granule());
  const Address other = base + 2 * static_cast<Address>(granule());
  ASSERT_EQ(device_->map(base, 2 * granule()), DeviceCode::ok);
  controls_.fail_call("cuMemMap", 1, cuda::kOutOfMemory);
  EXPECT_EQ(device_->alias(other, base, 2 * granule()), DeviceCode::out_of_memory);
  EXPECT_EQ(controls_.get("mappings"), 2);
  controls_.fail_call("cuMemSetAccess", 0, cuda::kOutOfMemory);
  EXPECT_EQ(device_->remap(other, base, 2 * granule()), DeviceCode::out_of_memory);
  EXPECT_EQ(controls_.get("mappings"), 2);
  EXPECT_EQ(device_->alias(other, base, 2 * granule()), DeviceCode::ok);
  EXPECT_EQ(device_->unmap(base, 2 * granule()), DeviceCode::ok);
  EXPECT_EQ(controls_.get("physicals"), 2);
  EXPECT_EQ(device_->remap(base, other, 2 * granule()), DeviceCode::ok);
  EXPECT_EQ(device_->unmap(base, 2 * granule()), DeviceCode::ok);
  EXPECT_EQ(controls_.get("physicals"), 0);
}

/// A copy that the second device carries out, from mapped memory of the first, as a copy between GPUs does.
class CopyBetweenDevices : public CudaOnStandIn {
 protected:
  /// What the second device says of it.
  cuda::Code copy() {
    cuda::Driver driver = cuda::load_driver(TIDEMARK_CUDA_STAND_IN).value();
    cuda::Context second = nullptr;
    EXPECT_EQ(driver.context_retain(&second, 1), cuda::kSuccess);
    EXPECT_EQ(driver.context_set(second), cuda::kSuccess);
    cuda::Pointer to = 0;
    EXPECT_EQ(driver.allocate(&to, static_cast<std::size_t>(granule())), cuda::kSuccess);
    EXPECT_EQ(driver.copy_in_device(to, source_, static_cast<std::size_t>(granule()), nullptr), cuda::kSuccess);
    const cuda::Code code = driver.stream_synchronize(nullptr);
    (void)driver.context_set(nullptr);  // refused after a fault, which is what some tests expect
    (void)driver.context_release(1);
    return code;
  }
  void map_on_the_first(const CudaOptions& options) {
    open(options);
    source_ = reserve(4 * granule());
    ASSERT_EQ(device_->map(source_, granule()), DeviceCode::ok);
  }
  Address source_ = 0;
};

TEST_F(CopyBetweenDevices, MappedMemoryIsAccessibleToPeers) {
  map_on_the_first(cuda_stand_in_options());
  EXPECT_EQ(copy(), cuda::kSuccess);
  const Address moved = source_ + static_cast<Address>(granule());
  ASSERT_EQ(device_->remap(moved, source_, granule()), DeviceCode::ok);
  source_ = moved;
  EXPECT_EQ(copy(), cuda::kSuccess) << "moved";
  const Address second = moved + static_cast<Address>(granule());
  ASSERT_EQ(device_->alias(second, moved, granule()), DeviceCode::ok);
  source_ = second;
  EXPECT_EQ(copy(), cuda::kSuccess) << "at a second address";
  EXPECT_EQ(controls_.get("violations"), 0);
}

TEST_F(CopyBetweenDevices, WithoutTheOptionItFails) {
  CudaOptions options = cuda_stand_in_options();
  options.peer_access = false;
  map_on_the_first(options);
  EXPECT_EQ(copy(), cuda::kIllegalAddress);
}

TEST_F(CopyBetweenDevices, DevicesThatDoNotReachEachOtherAreNotNamed) {
  controls_.set("peer_access", 0);
  map_on_the_first(cuda_stand_in_options());
  EXPECT_EQ(copy(), cuda::kIllegalAddress);
}

TEST_F(CudaOnStandIn, MemoryIsTakenAndGivenBackDuringACapture) {
  open();
  controls_.set("capturing", 1);
  const Address base = reserve(2 * granule());
  EXPECT_EQ(device_->map(base, 2 * granule()), DeviceCode::ok);
  EXPECT_EQ(device_->unmap(base, granule()), DeviceCode::ok);
  EXPECT_EQ(device_->free_plain(plain(1000)), DeviceCode::ok);
  EXPECT_EQ(controls_.get("violations"), 0);
  controls_.set("capturing", 0);
}

TEST_F(CudaOnStandIn, RegistersItsOwnPagesOrSaysWhyNot) {
  open();
  Address address = 0;
  ASSERT_EQ(device_->allocate_pinned(3 * kMiB, address), DeviceCode::ok);
  EXPECT_TRUE(device_->traits().host_register);
  EXPECT_TRUE(device_->pinned_facts(address).registered);
  EXPECT_EQ(device_->free_pinned(address), DeviceCode::ok);
  EXPECT_EQ(device_->free_pinned(address), DeviceCode::invalid);

  controls_.fail_call("cuMemHostRegister", 0, cuda::kOutOfMemory);
  ASSERT_EQ(device_->allocate_pinned(3 * kMiB, address), DeviceCode::ok);
  EXPECT_TRUE(device_->pinned_facts(address).registered) << "the driver's own pages are pinned";
  EXPECT_FALSE(device_->pinned_facts(address).huge_pages) << "nobody knows";
  EXPECT_NE(device_->pinned_facts(address).explanation, "");
  EXPECT_EQ(device_->free_pinned(address), DeviceCode::ok);
  EXPECT_EQ(device_->allocate_pinned(65 * kGiB, address), DeviceCode::unsupported);
  EXPECT_EQ(controls_.get("blocks"), 0);
}

TEST_F(CudaOnStandIn, PinnedMemoryLeavesTheMachineRoom) {
  open();
  const Bytes too_much = available_host_bytes();
  if (too_much > 64 * kGiB) GTEST_SKIP() << "one piece is too small to matter on this machine";
  Address address = 0;
  EXPECT_EQ(device_->allocate_pinned(too_much, address), DeviceCode::out_of_memory);
  EXPECT_NE(device_->last_error().find("stay free"), std::string::npos) << device_->last_error();
  EXPECT_EQ(controls_.get("blocks"), 0);
}

TEST_F(CudaOnStandIn, CodesMeanWhatTheCallWasFor) {
  using cuda::device_code_of;
  EXPECT_EQ(device_code_of(cuda::kOutOfMemory, VendorCall::memory), DeviceCode::out_of_memory);
  EXPECT_EQ(device_code_of(cuda::kOutOfMemory, VendorCall::slot), DeviceCode::no_resource);
  EXPECT_EQ(device_code_of(cuda::kOutOfMemory, VendorCall::work), DeviceCode::no_resource);
  EXPECT_EQ(device_code_of(cuda::kOutOfMemory, VendorCall::wait), DeviceCode::copy_failed);
  EXPECT_EQ(device_code_of(cuda::kOutOfMemory, VendorCall::give_back), DeviceCode::invalid);
  EXPECT_EQ(device_code_of(cuda::kOperatingSystem, VendorCall::memory), DeviceCode::out_of_memory);
  EXPECT_EQ(device_code_of(cuda::kNotReady, VendorCall::wait), DeviceCode::not_ready);
  EXPECT_EQ(device_code_of(cuda::kNotReady, VendorCall::work), DeviceCode::copy_failed);
  EXPECT_EQ(device_code_of(12345, VendorCall::memory), DeviceCode::unsupported);
  EXPECT_EQ(device_code_of(12345, VendorCall::work), DeviceCode::copy_failed);
  for (const auto call : {VendorCall::memory, VendorCall::work, VendorCall::wait, VendorCall::give_back}) {
    EXPECT_EQ(device_code_of(cuda::kLaunchFailed, call), DeviceCode::lost);
    EXPECT_EQ(device_code_of(cuda::kInvalidValue, call), DeviceCode::invalid);
  }
  open();
  const StreamHandle on = stream(StreamRole::d2h);
  controls_.fail_call("cuStreamSynchronize", 0, cuda::kOutOfMemory);
  EXPECT_EQ(device_->synchronize_stream(on), DeviceCode::copy_failed) << "not to be tried again";
}

/// Each call that gives back fails once: what it was to give back is still there, and the second attempt works.
TEST_F(CudaOnStandIn, WhatTheDriverWouldNotTakeBackIsTriedAgain) {
  open();
  const std::int64_t streams = controls_.get("streams");
  Address block = 0, own = 0, drivers = 0;
  StreamHandle stream{};
  EventHandle event{};
  const Address base = reserve(3 * granule());
  ASSERT_EQ(device_->map(base, 3 * granule()), DeviceCode::ok);
  ASSERT_EQ(device_->allocate_plain(1000, block), DeviceCode::ok);
  ASSERT_EQ(device_->allocate_pinned(3 * kMiB, own), DeviceCode::ok);
  controls_.set("host_register", 0);
  ASSERT_EQ(device_->allocate_pinned(3 * kMiB, drivers), DeviceCode::ok);
  ASSERT_EQ(device_->create_stream(StreamRole::d2h, stream), DeviceCode::ok);
  ASSERT_EQ(device_->create_event(event), DeviceCode::ok);
  const auto twice = [&](const char* call, std::int64_t skip, auto&& give_back) {
    controls_.fail_call(call, skip, cuda::kInvalidValue);
    EXPECT_EQ(give_back(), DeviceCode::invalid) << call;
    EXPECT_EQ(give_back(), DeviceCode::ok) << call << device_->last_error();
  };
  twice("cuStreamDestroy", 0, [&] { return device_->destroy_stream(stream); });
  twice("cuEventDestroy", 0, [&] { return device_->destroy_event(event); });
  twice("cuMemUnmap", 1, [&] { return device_->unmap(base, 3 * granule()); });
  twice("cuMemAddressFree", 0, [&] { return device_->release(base, 3 * granule()); });
  twice("cuMemFree", 0, [&] { return device_->free_plain(block); });
  twice("cuMemHostUnregister", 0, [&] { return device_->free_pinned(own); });
  twice("cuMemFreeHost", 0, [&] { return device_->free_pinned(drivers); });
  expect_nothing_left(streams);
}

TEST_F(CudaOnStandIn, TailsAndSingleBytesAreChecked) {
  open();
  Address device = 0, host = 0;
  const StreamHandle on = stream();
  ASSERT_EQ(device_->allocate_plain(4096, device), DeviceCode::ok);
  ASSERT_EQ(device_->allocate_pinned(4096, host), DeviceCode::ok);
  Mismatch first;
  for (const Bytes bytes : {1, 7, 8, 9, 1021}) {
    const Touch write{device, bytes, AccessKind::write, 5}, read{device, bytes, AccessKind::read, 5};
    ASSERT_EQ(device_->launch(on, {.id = 1, .touches = {&write, 1}, .verify = true}), DeviceCode::ok);
    ASSERT_EQ(device_->launch(on, {.id = 2, .touches = {&read, 1}, .verify = true}), DeviceCode::ok);
    ASSERT_EQ(device_->copy(on, host, device, bytes, CopyKind::device_to_host), DeviceCode::ok);
    ASSERT_EQ(device_->synchronize_stream(on), DeviceCode::ok);
    EXPECT_TRUE(holds_pattern(reinterpret_cast<const void*>(host), bytes, 5)) << bytes;
    EXPECT_EQ(device_->mismatches(first), 0) << bytes;
  }
  reinterpret_cast<unsigned char*>(host)[1020] ^= 1;  // the last byte of the last tail
  const Touch read{device, 1021, AccessKind::read, 5};
  ASSERT_EQ(device_->copy(on, device, host, 1021, CopyKind::host_to_device), DeviceCode::ok);
  ASSERT_EQ(device_->launch(on, {.id = 77, .touches = {&read, 1}, .verify = true}), DeviceCode::ok);
  ASSERT_EQ(device_->launch(on, {.id = 78, .touches = {&read, 1}, .verify = true}), DeviceCode::ok);
  ASSERT_EQ(device_->synchronize_device(), DeviceCode::ok);
  EXPECT_EQ(device_->mismatches(first), 2);
  EXPECT_EQ(first.work_id, 77);
  EXPECT_EQ(first.address, device);
  EXPECT_EQ(first.bytes, 1021);
  EXPECT_EQ(first.expected_seed, 5U);
}

TEST_F(CudaOnStandIn, MisplacedTouchesAndMessagesAreRefused) {
  open();
  const Touch odd{4097, 8, AccessKind::read, 0};
  EXPECT_EQ(device_->launch({}, {.touches = {&odd, 1}, .verify = true}), DeviceCode::invalid);
  EXPECT_EQ(device_->launch({}, {.message = {.peer_rank = 1}}), DeviceCode::unsupported);
}

TEST_F(CudaOnStandIn, FaultOnTheDeviceIsStickyAndToldOnce) {
  open();
  const StreamHandle on = stream();
  const Address base = reserve(granule());
  Address host = 0;
  ASSERT_EQ(device_->allocate_pinned(4096, host), DeviceCode::ok);
  ASSERT_EQ(device_->copy(on, base, host, 4096, CopyKind::host_to_device), DeviceCode::ok);  // nothing mapped there
  EXPECT_EQ(device_->synchronize_stream(on), DeviceCode::lost);
  EXPECT_NE(device_->last_error().find("stand-in"), std::string::npos);
  EXPECT_EQ(device_->map(base, granule()), DeviceCode::lost);
  EXPECT_EQ(device_->query_event({}), DeviceCode::lost);
  std::thread([this] {
    MemoryInfo info;
    EXPECT_EQ(device_->memory_info(info), DeviceCode::lost);
    EXPECT_NE(device_->last_error(), "") << "also for threads that did not see the failure";
  }).join();
}

TEST_F(CudaOnStandIn, UnmappingUnderACopyIsCaught) {
  open();
  const StreamHandle on = stream(StreamRole::d2h);
  const Address base = reserve(granule());
  Address host = 0;
  ASSERT_EQ(device_->map(base, granule()), DeviceCode::ok);
  ASSERT_EQ(device_->allocate_pinned(granule(), host), DeviceCode::ok);
  controls_.set("delay_us", 300'000);
  ASSERT_EQ(device_->copy(on, host, base, granule(), CopyKind::device_to_host), DeviceCode::ok);
  EXPECT_EQ(device_->unmap(base, granule()), DeviceCode::lost);
  EXPECT_EQ(controls_.get("violations"), 1);
}

TEST_F(CudaOnStandIn, EstimatesTakeTimeOnTheStream) {
  CudaOptions options = cuda_stand_in_options();
  options.play_estimates = true;
  open(options);
  EventHandle event{};
  const StreamHandle on = stream();
  ASSERT_EQ(device_->create_event(event), DeviceCode::ok);
  EXPECT_EQ(device_->query_event(event), DeviceCode::ok);
  const std::int64_t before = device_->now_ns();
  ASSERT_EQ(device_->launch(on, {.estimate_ns = 300'000'000}), DeviceCode::ok);
  ASSERT_EQ(device_->record_event(event, on), DeviceCode::ok);
  EXPECT_EQ(device_->synchronize_event(event, 1000), DeviceCode::not_ready);
  EXPECT_EQ(device_->synchronize_event(event, -1), DeviceCode::ok);
  EXPECT_GE(device_->now_ns() - before, 300'000'000);
}

TEST_F(CudaOnStandIn, ThreadsNeedNoContextOfTheirOwn) {
  open();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      StreamHandle stream{};
      Address device = 0, host = 0;
      EXPECT_EQ(device_->create_stream(StreamRole::compute, stream), DeviceCode::ok);
      EXPECT_EQ(device_->allocate_plain(65'536, device), DeviceCode::ok);
      EXPECT_EQ(device_->allocate_pinned(65'536, host), DeviceCode::ok);
      EXPECT_EQ(device_->copy(stream, device, host, 65'536, CopyKind::host_to_device), DeviceCode::ok);
      EXPECT_EQ(device_->destroy_stream(stream), DeviceCode::ok);
      EXPECT_EQ(device_->free_plain(device), DeviceCode::ok);
      EXPECT_EQ(device_->free_pinned(host), DeviceCode::ok);
      EXPECT_EQ(device_->free_plain(device), DeviceCode::invalid);
      EXPECT_NE(device_->last_error(), "");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device_->last_error(), "");  // errors are per thread
}

/// A lost device that is at work takes memory back once the work has ended, whoever asks first.
TEST_F(CudaOnStandIn, EveryThreadWaitsForALostDevice) {
  open();
  const auto step = static_cast<Address>(granule());
  const Address base = reserve(8 * granule());
  ASSERT_EQ(device_->map(base, 2 * granule()), DeviceCode::ok);
  const std::array<Address, 4> places = {base + 4 * step, base + 5 * step, base + 6 * step, base + 7 * step};
  for (const Address place : places) {
    StreamHandle on{};
    Address host = 0;
    ASSERT_EQ(device_->map(place, granule()), DeviceCode::ok);
    ASSERT_EQ(device_->allocate_pinned(kMiB, host), DeviceCode::ok);
    ASSERT_EQ(device_->create_stream(StreamRole::d2h, on), DeviceCode::ok);
    controls_.set("delay_us", 200'000);
    ASSERT_EQ(device_->copy(on, host, place, kMiB, CopyKind::device_to_host), DeviceCode::ok);
  }
  controls_.fail_call("cuMemMap", 1, cuda::kOutOfMemory);
  controls_.fail_call("cuMemUnmap", 0, cuda::kInvalidValue);
  ASSERT_EQ(device_->remap(base + 2 * step, base, 2 * granule()), DeviceCode::lost);
  std::vector<std::thread> threads;
  for (const Address place : places) {  // cuMemFree waits by itself, this does not
    threads.emplace_back([this, place] { EXPECT_EQ(device_->unmap(place, granule()), DeviceCode::ok); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(controls_.get("violations"), 0) << "freed under a copy";
}

TEST_F(CudaOnStandIn, ARefusedDestroyDoesNotHideFailedWork) {
  open();
  expect_failed_work_told("cuStreamSynchronize", cuda::kOutOfMemory, "cuStreamDestroy", cuda::kInvalidValue);
}

TEST_F(CudaOnStandIn, GivesBackWhatTheCallerForgot) {
  open();
  const std::int64_t streams = controls_.get("streams");
  Address address = 0;
  EventHandle event{};
  ASSERT_EQ(device_->map(reserve(2 * granule()), granule()), DeviceCode::ok);
  ASSERT_EQ(device_->allocate_plain(1000, address), DeviceCode::ok);
  ASSERT_EQ(device_->allocate_pinned(1000, address), DeviceCode::ok);
  const StreamHandle on = stream(StreamRole::h2d);
  ASSERT_EQ(device_->create_event(event), DeviceCode::ok);
  ASSERT_EQ(device_->launch(on, {.verify = true}), DeviceCode::ok);  // loads the kernels
  device_.reset();
  expect_nothing_left(streams);
}

TEST_F(CudaOnStandIn, NothingIsLeftAfterAFaultAtAnyCall) {
  const int faults =
      fail_everywhere({"cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemAlloc",
                       "cuMemHostAlloc", "cuMemHostRegister", "cuStreamCreateWithPriority", "cuEventCreate",
                       "cuModuleLoadData", "cuModuleGetFunction", "cuMemsetD8", "cuLaunchKernel", "cuEventRecord",
                       "cuStreamWaitEvent", "cuMemcpyDtoHAsync", "cuEventSynchronize", "cuStreamSynchronize"},
                      cuda::kOutOfMemory, [this] { open(); });
  EXPECT_GT(faults, 18);
}

}  // namespace
}  // namespace tidemark
