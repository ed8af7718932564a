// The stand-in for ACL catches what ACL's documentation forbids: each test makes one broken call, straight to the
// library. (It is host memory, no NPU.)

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "device/acl_runtime.h"
#include "tests/support/stand_ins.h"

namespace tidemark::acl {
namespace {

/// Holds a stream until it is let go.
struct Gate {
  std::atomic<bool> open = false;
  static void wait(void* gate) {
    while (!static_cast<Gate*>(gate)->open) std::this_thread::yield();
  }
};

class AclStandIn : public ::testing::Test {
 protected:
  AclStandIn() {
    controls_.reset();
    auto loaded = load_runtime(TIDEMARK_ACL_STAND_IN, "");
    EXPECT_TRUE(loaded.ok());
    acl_ = std::move(loaded).value();
    EXPECT_EQ(acl_.set_device(0), kSuccess);
    EXPECT_EQ(acl_.stream_create(&stream_), kSuccess);
  }
  ~AclStandIn() override {
    gate_.open = true;
    controls_.reset();
  }
  void* device(std::size_t bytes) {
    void* pointer = nullptr;
    EXPECT_EQ(acl_.allocate(&pointer, bytes, kHugeFirst), kSuccess);
    return pointer;
  }
  void* host(std::size_t bytes) {
    void* pointer = nullptr;
    EXPECT_EQ(acl_.host_allocate(&pointer, bytes), kSuccess);
    return pointer;
  }
  void hold() { EXPECT_EQ(acl_.launch_host_function(stream_, Gate::wait, &gate_), kSuccess); }
  Code let_go() {
    gate_.open = true;
    return acl_.stream_synchronize(stream_);
  }
  Code copy_in(void* to, const void* from, std::size_t bytes) {
    return acl_.copy(to, bytes, from, bytes, kHostToDevice, stream_);
  }
  template <class Value, class... Arguments>
  Code call(const char* name, Value first, Arguments... rest) {
    Code (*function)(Value, Arguments...) = nullptr;
    controls_.find(function, name);
    return function(first, rest...);
  }

  StandInControls controls_{TIDEMARK_ACL_STAND_IN};
  Runtime acl_;
  Stream stream_ = nullptr;
  Gate gate_;
};

TEST_F(AclStandIn, CleanUseIsNoViolation) {
  void* const block = device(kMiB);
  void* const buffer = host(kMiB);
  EXPECT_EQ(copy_in(block, buffer, kMiB), kSuccess);
  EXPECT_EQ(acl_.stream_synchronize(stream_), kSuccess);
  EXPECT_EQ(acl_.free(block), kSuccess);
  EXPECT_EQ(acl_.host_free(buffer), kSuccess);
  EXPECT_EQ(controls_.get("violations"), 0);
}

TEST_F(AclStandIn, CatchesDeviceMemoryFreedUnderACopy) {
  void* const block = device(kMiB);
  hold();
  EXPECT_EQ(copy_in(block, host(kMiB), kMiB), kSuccess);
  EXPECT_EQ(acl_.free(block), kSuccess);
  EXPECT_EQ(let_go(), kCopyEngine);
  EXPECT_EQ(controls_.get("violations"), 1);
}

TEST_F(AclStandIn, CatchesPinnedMemoryFreedUnderACopy) {
  void* const buffer = host(kMiB);
  hold();
  EXPECT_EQ(copy_in(device(kMiB), buffer, kMiB), kSuccess);
  EXPECT_EQ(acl_.host_free(buffer), kSuccess);
  EXPECT_EQ(let_go(), kCopyEngine);
}

TEST_F(AclStandIn, CatchesMemoryUnmappedUnderACopy) {
  const std::size_t granule = 2 * kMiB;
  const PhysicalProperties properties;
  void* base = nullptr;
  PhysicalHandle handle = nullptr;
  ASSERT_EQ(acl_.address_reserve(&base, granule, 0, nullptr, 1), kSuccess);
  ASSERT_EQ(acl_.physical_allocate(&handle, granule, &properties, 0), kSuccess);
  ASSERT_EQ(acl_.map(base, granule, 0, handle, 0), kSuccess);
  void* const buffer = host(granule);
  hold();
  EXPECT_EQ(copy_in(base, buffer, granule - 32), kSuccess);
  EXPECT_EQ(acl_.unmap(base), kSuccess);
  EXPECT_EQ(let_go(), kCopyEngine);
}

TEST_F(AclStandIn, CatchesCopiesBeyondAndIntoNothing) {
  void* const buffer = host(kMiB);
  EXPECT_EQ(copy_in(device(1024), buffer, 1025), kSuccess);  // found by the device, later
  EXPECT_EQ(acl_.stream_synchronize(stream_), kCopyEngine);
}

TEST_F(AclStandIn, CatchesAStreamDestroyedWithWorkOnIt) {
  Stream other = nullptr;
  ASSERT_EQ(acl_.stream_create(&other), kSuccess);
  EXPECT_EQ(acl_.stream_destroy(other), kSuccess);
  EXPECT_EQ(controls_.get("violations"), 0);
  ASSERT_EQ(acl_.stream_create(&other), kSuccess);
  Gate work;
  ASSERT_EQ(acl_.launch_host_function(other, Gate::wait, &work), kSuccess);
  std::atomic<bool> given_up{false};
  std::thread opener([&] {  // the call waits for the work once it has counted the violation
    while (controls_.get("violations") == 0 && !given_up) std::this_thread::yield();
    work.open = true;
  });
  EXPECT_EQ(acl_.stream_destroy(other), kSuccess);
  given_up = true;
  opener.join();
  EXPECT_EQ(controls_.get("violations"), 1);
}

TEST_F(AclStandIn, CatchesMappedMemoryTouchedUpToItsEnd) {
  const std::size_t granule = 2 * kMiB;
  const PhysicalProperties properties;
  void* base = nullptr;
  ASSERT_EQ(acl_.address_reserve(&base, 2 * granule, 0, nullptr, 1), kSuccess);
  for (std::size_t i = 0; i < 2; ++i) {
    PhysicalHandle handle = nullptr;
    ASSERT_EQ(acl_.physical_allocate(&handle, granule, &properties, 0), kSuccess);
    ASSERT_EQ(acl_.map(static_cast<char*>(base) + i * granule, granule, 0, handle, 0), kSuccess);
  }
  void* const buffer = host(2 * granule);
  EXPECT_EQ(copy_in(base, buffer, granule), kSuccess);  // more is mapped behind it
  EXPECT_EQ(copy_in(base, buffer, 2 * granule - 32), kSuccess);
  EXPECT_EQ(acl_.stream_synchronize(stream_), kSuccess);
  EXPECT_EQ(copy_in(base, buffer, 2 * granule - 31), kSuccess);  // found by the device, later
  EXPECT_EQ(acl_.stream_synchronize(stream_), kCopyEngine);
}

TEST_F(AclStandIn, CatchesPinnedMemoryTooShort) {
  EXPECT_EQ(copy_in(device(kMiB), host(1024), 1025), kSuccess);
  EXPECT_EQ(acl_.stream_synchronize(stream_), kCopyEngine);
}

TEST_F(AclStandIn, CatchesThePadBeingTouched) {
  void* block = nullptr;
  void* const buffer = host(4096);
  ASSERT_EQ(acl_.allocate_exact(&block, 1024 + 32, kHugeFirst), kSuccess);
  EXPECT_EQ(copy_in(block, buffer, 1024), kSuccess);
  EXPECT_EQ(acl_.stream_synchronize(stream_), kSuccess);
  EXPECT_EQ(copy_in(block, buffer, 1025), kSuccess);
  EXPECT_EQ(acl_.stream_synchronize(stream_), kCopyEngine);
}

TEST_F(AclStandIn, CatchesThePadBeingWrittenBehindItsBack) {
  void* block = nullptr;
  ASSERT_EQ(acl_.allocate_exact(&block, 1024 + 32, kHugeFirst), kSuccess);
  static_cast<unsigned char*>(block)[1024] = 0;
  EXPECT_EQ(acl_.free(block), kSuccess);
  EXPECT_EQ(controls_.get("violations"), 1);
}

TEST_F(AclStandIn, AlignsTo64AndNoMore) {
  void* block = nullptr;
  ASSERT_EQ(acl_.allocate_exact(&block, 4096, kHugeFirst), kSuccess);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 128, 64U);
}

TEST_F(AclStandIn, MapsWholeHandlesOnceAtOffsetZero) {
  const std::size_t granule = 2 * kMiB;
  const PhysicalProperties properties;
  void* base = nullptr;
  PhysicalHandle handle = nullptr;
  ASSERT_EQ(acl_.address_reserve(&base, 4 * granule, 0, nullptr, 0), kSuccess);
  ASSERT_EQ(acl_.physical_allocate(&handle, 2 * granule, &properties, 0), kSuccess);
  const auto at = [&](std::size_t place) { return static_cast<unsigned char*>(base) + place * granule; };
  EXPECT_EQ(acl_.map(at(0), granule, 0, handle, 0), kRuntimeParameter);            // a part
  EXPECT_EQ(acl_.map(at(0), 2 * granule, granule, handle, 0), kRuntimeParameter);  // an offset
  EXPECT_EQ(acl_.map(at(3), 2 * granule, 0, handle, 0), kRuntimeParameter);        // beyond the reservation
  EXPECT_EQ(acl_.map(at(0), 2 * granule, 0, handle, 0), kSuccess);
  EXPECT_EQ(acl_.map(at(2), 2 * granule, 0, handle, 0), kRuntimeParameter);  // a second address
  EXPECT_EQ(acl_.unmap(at(1)), kRuntimeParameter);                           // not where the mapping begins
  EXPECT_EQ(acl_.address_release(base), kRuntimeParameter);                  // still mapped
  EXPECT_EQ(acl_.physical_free(handle), kSuccess);                           // deferred
  EXPECT_EQ(controls_.get("physicals"), 1);
  EXPECT_EQ(acl_.unmap(at(0)), kSuccess);
  EXPECT_EQ(controls_.get("physicals"), 0);
  EXPECT_EQ(acl_.physical_free(handle), kRuntimeParameter);
  EXPECT_EQ(acl_.address_release(base), kSuccess);
}

TEST_F(AclStandIn, ExtendedEventsRefuseResetAndTheOldQueries) {
  Event event = nullptr;
  int status = -1;
  ASSERT_EQ(acl_.event_create(&event, kEventSync), kSuccess);
  EXPECT_EQ(call("aclrtResetEvent", event, stream_), kUnsupported);
  EXPECT_EQ(call("aclrtQueryEvent", event, &status), kUnsupported);
  EXPECT_EQ(call("aclrtQueryEventWaitStatus", event, &status), kUnsupported);
  EXPECT_EQ(acl_.event_status(event, &status), kSuccess);
  EXPECT_EQ(status, kEventComplete);  // never recorded
  hold();
  EXPECT_EQ(acl_.event_record(event, stream_), kSuccess);
  EXPECT_EQ(acl_.event_status(event, &status), kSuccess);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(acl_.event_synchronize_limit(event, 1), kEventSyncTimeout);
  EXPECT_EQ(let_go(), kSuccess);
}

TEST_F(AclStandIn, TheOldQueryAnswersTheOtherWayRound) {
  Event event = nullptr;
  int status = -1, recorded = -1;
  ASSERT_EQ(call("aclrtCreateEvent", &event), kSuccess);
  EXPECT_EQ(call("aclrtQueryEvent", event, &status), kSuccess);
  EXPECT_EQ(acl_.event_status(event, &recorded), kSuccess);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(recorded, 1);
}

TEST_F(AclStandIn, WaitNeedsTheFlagAndTheStreamFirst) {
  Event timed = nullptr, synced = nullptr;
  ASSERT_EQ(acl_.event_create(&timed, 8), kSuccess);
  ASSERT_EQ(acl_.event_create(&synced, kEventSync), kSuccess);
  EXPECT_EQ(acl_.stream_wait_event(stream_, timed), kRuntimeParameter);
  EXPECT_EQ(acl_.stream_wait_event(synced, stream_), kStreamNotInContext);  // arguments swapped
  EXPECT_EQ(acl_.event_record(stream_, synced), kRuntimeParameter);         // arguments swapped
  EXPECT_EQ(acl_.stream_wait_event(stream_, synced), kSuccess);
}

TEST_F(AclStandIn, EventSlotsAreTakenAtTheRecord) {
  controls_.set("event_limit", 1);
  Event first = nullptr, second = nullptr;
  ASSERT_EQ(acl_.event_create(&first, kEventSync), kSuccess);
  ASSERT_EQ(acl_.event_create(&second, kEventSync), kSuccess);
  EXPECT_EQ(acl_.event_record(first, stream_), kSuccess);
  EXPECT_EQ(acl_.event_record(second, stream_), kNoEventResource);
}

TEST_F(AclStandIn, PageableCopiesWaitAndHostToHostIsRefused) {
  std::vector<unsigned char> pageable(4096, 7);
  void* const block = device(4096);
  EXPECT_EQ(copy_in(block, pageable.data(), 4096), kSuccess);
  EXPECT_EQ(controls_.get("operations"), 0);  // done already
  void* const buffer = host(4096);
  EXPECT_EQ(acl_.copy(buffer, 4096, pageable.data(), 4096, 0, stream_), kUnsupported);
  EXPECT_EQ(acl_.copy(block, 4095, buffer, 4096, kHostToDevice, stream_), kRuntimeParameter);  // no room
}

TEST_F(AclStandIn, CountsCopiesByDirectionStreamAndHostSide) {
  std::vector<unsigned char> pageable(4096, 7);
  void* const block = device(4096);
  void* const buffer = host(4096);
  void* const other_block = device(512);  // of its own: nothing orders the two streams
  void* const other_buffer = host(512);
  Stream other = nullptr;
  ASSERT_EQ(acl_.stream_create(&other), kSuccess);
  EXPECT_EQ(controls_.get("pinned_allocations"), 2);
  EXPECT_EQ(copy_in(block, buffer, 4096), kSuccess);
  EXPECT_EQ(copy_in(block, pageable.data(), 1024), kSuccess);
  EXPECT_EQ(acl_.copy(other_block, 512, other_buffer, 512, kHostToDevice, other), kSuccess);
  EXPECT_EQ(acl_.copy(buffer, 4096, block, 4096, kDeviceToHost, stream_), kSuccess);
  EXPECT_EQ(acl_.synchronize_device(), kSuccess);
  EXPECT_EQ(call("aclrtMemcpy", buffer, std::size_t{4096}, static_cast<const void*>(block), std::size_t{4096},
                 static_cast<int>(kDeviceToHost)),
            kSuccess);
  EXPECT_EQ(controls_.get("copies_in"), 3);
  EXPECT_EQ(controls_.get("copied_in_bytes"), 4096 + 1024 + 512);
  EXPECT_EQ(controls_.get("copy_streams_in"), 2);
  EXPECT_EQ(controls_.get("copies_out"), 1);
  EXPECT_EQ(controls_.get("copied_out_bytes"), 4096);
  EXPECT_EQ(controls_.get("copy_streams_out"), 1);
  EXPECT_EQ(controls_.get("pageable_copies"), 1);
  EXPECT_EQ(controls_.get("synchronous_copies"), 1);
}

TEST_F(AclStandIn, ContextsAreRequiredAndOwnTheirStreams) {
  std::thread([&] {
    void* pointer = nullptr;
    EXPECT_EQ(acl_.allocate(&pointer, 1024, kHugeFirst), kNullContext);
    EXPECT_EQ(acl_.stream_synchronize(stream_), kNullContext);
    EXPECT_EQ(acl_.set_device(1), kSuccess);
    EXPECT_EQ(acl_.stream_synchronize(stream_), kStreamNotInContext);
    EXPECT_EQ(acl_.set_device(2), kInvalidDevice);
  }).join();
}

TEST_F(AclStandIn, LimitsOfHostMemoryAndRegistration) {
  void* pointer = nullptr;
  EXPECT_EQ(acl_.host_allocate(&pointer, std::size_t{201} << 30), kOutOfMemory);
  void* const buffer = host(8192);
  EXPECT_EQ(acl_.host_register(static_cast<unsigned char*>(buffer) + 64, 4096, kRegisterPinned), kRuntimeParameter);
  EXPECT_EQ(acl_.free(buffer), kRuntimeParameter);  // the wrong kind of free
  EXPECT_EQ(acl_.host_free(buffer), kSuccess);
  EXPECT_EQ(acl_.host_free(buffer), kRuntimeParameter);
}

TEST_F(AclStandIn, CapacityIsFinite) {
  controls_.set("capacity_bytes", kMiB);
  void* pointer = nullptr;
  EXPECT_EQ(acl_.allocate(&pointer, 2 * kMiB, kHugeFirst), kOutOfMemory);
  const PhysicalProperties properties;
  PhysicalHandle handle = nullptr;
  EXPECT_EQ(acl_.physical_allocate(&handle, 2 * kMiB, &properties, 0), kDeviceOutOfMemory);
}

TEST_F(AclStandIn, SecondInitIsTold) {
  EXPECT_EQ(acl_.init(nullptr), kRepeatInit);
}

}  // namespace
}  // namespace tidemark::acl
