// The ascend back end on the stand-in for ACL (tests/support/acl_stand_in: host memory, no NPU). What every back end
// must do is in tests/conformance; here is what is ACL's own.

#include "device/ascend_device.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "device/acl_runtime.h"
#include "device/ascend_verifier.h"
#include "device/pattern.h"
#include "tests/device/vendor_fixture.h"

namespace tidemark {
namespace {

class AscendOnStandIn : public OnStandIn {
 protected:
  AscendOnStandIn() : OnStandIn(TIDEMARK_ACL_STAND_IN) {}
  Device& open(const AscendOptions& options = ascend_stand_in_options()) { return use(open_ascend_device(options)); }
};

TEST_F(AscendOnStandIn, SaysThatItIsNoNpu) {
  const DeviceTraits& traits = open().traits();
  EXPECT_NE(traits.product.find("stand-in"), std::string::npos);
  EXPECT_EQ(traits.tail_pad_bytes, 32);
  EXPECT_EQ(traits.event_limit, 65'536);
  EXPECT_EQ(traits.granule_bytes, 2 * kMiB);
  EXPECT_FALSE(traits.aliasing);
  EXPECT_FALSE(traits.host_register);
}

TEST_F(AscendOnStandIn, OpenNamesWhatIsMissing) {
  const auto none = open_ascend_device({.library = "libno_acl.so", .second_library = "libno_acl_rt.so"});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("libno_acl.so"), std::string::npos);
  const auto other = open_ascend_device({.library = "libm.so.6", .second_library = ""});
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("aclrtMalloc"), std::string::npos);
  AscendOptions options = ascend_stand_in_options();
  options.ordinal = 2;
  EXPECT_NE(open_ascend_device(options).error().message.find("sees 2"), std::string::npos);
}

TEST_F(AscendOnStandIn, BelongsToTheProcessThatOpenedIt) {
  open();
  expect_refused_in_a_child();
}

TEST_F(AscendOnStandIn, SymbolsMayBeInEitherLibrary) {
  open({.library = "libm.so.6", .second_library = TIDEMARK_ACL_STAND_IN});
  EXPECT_TRUE(device_->traits().mapping);
}

TEST_F(AscendOnStandIn, InitialisedByOthersIsFine) {
  open();  // the second time in this process at the latest, 100002 is answered
  const auto again = open_ascend_device(ascend_stand_in_options());
  EXPECT_TRUE(again.ok());
  controls_.fail_call("aclInit", 0, 500'000);
  EXPECT_FALSE(open_ascend_device(ascend_stand_in_options()).ok());
}

TEST_F(AscendOnStandIn, PadDependsOnChipAndVersion) {
  EXPECT_EQ(acl::tail_pad_of("Ascend910B", "9.1.0"), 32);
  EXPECT_EQ(acl::tail_pad_of("Ascend950PR", "9.1.0"), 0);
  EXPECT_EQ(acl::tail_pad_of("Ascend950PR", "9.0.RC1"), 32);
  EXPECT_EQ(acl::tail_pad_of("Ascend950PR", "10.0"), 0);
  EXPECT_EQ(acl::tail_pad_of("Ascend950PR", ""), 32);
  controls_.set("chip", 950);
  controls_.set("version", 901);
  EXPECT_EQ(open().traits().tail_pad_bytes, 0);
}

TEST_F(AscendOnStandIn, PlainBlocksAreAlignedAndPadded) {
  open();
  const StreamHandle on = stream();
  const Address host = pinned(64 * kKiB);
  for (const Bytes bytes : {1, 31, 32, 512, 40'000}) {
    const Address block = plain(bytes);
    EXPECT_EQ(block % 512, 0U);
    // The stand-in faults when the pad is touched: the whole block must lie before it.
    ASSERT_EQ(device_->copy(on, block, host, bytes, CopyKind::host_to_device), DeviceCode::ok);
    ASSERT_EQ(device_->synchronize_stream(on), DeviceCode::ok) << bytes << device_->last_error();
    EXPECT_EQ(device_->free_plain(block), DeviceCode::ok);
    EXPECT_EQ(device_->free_plain(block), DeviceCode::invalid);
  }
  EXPECT_EQ(controls_.get("violations"), 0);
  EXPECT_EQ(controls_.get("device_bytes"), 0);
}

TEST_F(AscendOnStandIn, FailedSecondAllocationLeaksNothing) {
  open();
  Address address = 0;
  for (const std::int64_t skip : {0, 1}) {
    controls_.fail_call("aclrtMallocAlign32", skip, acl::kOutOfMemory);
    EXPECT_EQ(device_->allocate_plain(1000, address), DeviceCode::out_of_memory);
    EXPECT_EQ(controls_.get("blocks"), 0);
  }
}

TEST_F(AscendOnStandIn, RestoresTheCallersContext) {
  open();
  acl::Code (*set_device)(std::int32_t) = nullptr;
  acl::Code (*get_context)(acl::Context*) = nullptr;
  controls_.find(set_device, "aclrtSetDevice");
  controls_.find(get_context, "aclrtGetCurrentContext");
  acl::Context before = nullptr, after = nullptr;
  ASSERT_EQ(set_device(1), acl::kSuccess);
  ASSERT_EQ(get_context(&before), acl::kSuccess);
  plain(1000);
  ASSERT_EQ(get_context(&after), acl::kSuccess);
  EXPECT_EQ(before, after);
}

TEST_F(AscendOnStandIn, MapIsAllOrNothingAtEveryFailure) {
  open();
  const Bytes bytes = 4 * granule();
  const Address base = reserve(bytes);
  for (const char* const call : {"aclrtMallocPhysical", "aclrtMapMem"}) {
    for (std::int64_t skip = 0; skip < 4; ++skip) {
      controls_.fail_call(call, skip, acl::kDeviceOutOfMemory);
      EXPECT_EQ(device_->map(base, bytes), DeviceCode::out_of_memory);
      EXPECT_NE(device_->last_error().find(call), std::string::npos);
      EXPECT_EQ(controls_.get("mappings"), 0);
      EXPECT_EQ(controls_.get("physicals"), 0);
    }
  }
  EXPECT_EQ(device_->map(base, bytes), DeviceCode::ok);
}

TEST_F(AscendOnStandIn, RemapKeepsContentsAndGoesBackAfterAFailure) {
  open();
  const StreamHandle on = stream();
  const Address base = reserve(4 * granule());
  const Address other = base + 2 * static_cast<Address>(granule());
  ASSERT_EQ(device_->map(base, 2 * granule()), DeviceCode::ok);
  const auto touch = [&](Address at, AccessKind kind) {
    const Touch whole{at, 2 * granule() - device_->traits().tail_pad_bytes, kind, 9};
    ASSERT_EQ(device_->launch(on, {.touches = {&whole, 1}, .verify = true}), DeviceCode::ok);
    ASSERT_EQ(device_->synchronize_stream(on), DeviceCode::ok) << device_->last_error();
  };
  touch(base, AccessKind::write);
  controls_.fail_call("aclrtUnmapMem", 1, acl::kMemoryFree);
  EXPECT_EQ(device_->remap(other, base, 2 * granule()), DeviceCode::invalid);
  touch(base, AccessKind::read);
  controls_.fail_call("aclrtMapMem", 1, acl::kOutOfMemory);
  EXPECT_EQ(device_->remap(other, base, 2 * granule()), DeviceCode::out_of_memory);
  touch(base, AccessKind::read);
  EXPECT_EQ(device_->remap(other, base, 2 * granule()), DeviceCode::ok);
  touch(other, AccessKind::read);
  Mismatch first;
  EXPECT_EQ(device_->mismatches(first), 0);
  EXPECT_EQ(device_->alias(base, other, granule()), DeviceCode::unsupported);
}

TEST_F(AscendOnStandIn, MemoryThatFitsNeitherPlaceLosesTheDevice) {
  open();
  const Address base = reserve(4 * granule());
  ASSERT_EQ(device_->map(base, 2 * granule()), DeviceCode::ok);
  controls_.fail_call("aclrtUnmapMem", 1, acl::kOutOfMemory);
  controls_.fail_call("aclrtMapMem", 0, acl::kOutOfMemory);
  EXPECT_EQ(device_->remap(base + 2 * static_cast<Address>(granule()), base, 2 * granule()), DeviceCode::lost);
  EXPECT_NE(device_->last_error().find("neither"), std::string::npos) << device_->last_error();
  MemoryInfo info;
  EXPECT_EQ(device_->memory_info(info), DeviceCode::lost);
  device_.reset();
  EXPECT_EQ(controls_.get("physicals"), 0);
}

TEST_F(AscendOnStandIn, LargeTouchesAreCheckedInPieces) {
  open();
  const StreamHandle on = stream();
  const Bytes bytes = 9 * kMiB + 5;  // three pieces, the last with a tail
  const Address block = plain(bytes), host = pinned(bytes);
  const Touch write{block, bytes, AccessKind::write, 3}, read{block, bytes, AccessKind::read, 3};
  ASSERT_EQ(device_->launch(on, {.id = 1, .touches = {&write, 1}, .verify = true}), DeviceCode::ok);
  ASSERT_EQ(device_->launch(on, {.id = 2, .touches = {&read, 1}, .verify = true}), DeviceCode::ok);
  ASSERT_EQ(device_->copy(on, host, block, bytes, CopyKind::device_to_host), DeviceCode::ok);
  ASSERT_EQ(device_->synchronize_stream(on), DeviceCode::ok);
  Mismatch first;
  EXPECT_EQ(device_->mismatches(first), 0);
  auto* const at = reinterpret_cast<unsigned char*>(host);
  EXPECT_TRUE(holds_pattern(at, bytes, 3));
  at[0] ^= 1;  // in two pieces, yet one mismatch
  at[bytes - 1] ^= 1;
  ASSERT_EQ(device_->copy(on, block, host, bytes, CopyKind::host_to_device), DeviceCode::ok);
  ASSERT_EQ(device_->launch(on, {.id = 4, .touches = {&read, 1}, .verify = true}), DeviceCode::ok);
  ASSERT_EQ(device_->synchronize_device(), DeviceCode::ok);
  EXPECT_EQ(device_->mismatches(first), 1);
  EXPECT_EQ(first.work_id, 4);
  EXPECT_EQ(first.bytes, bytes);
}

TEST_F(AscendOnStandIn, EventSlotsRunOutRecoverably) {
  controls_.set("event_limit", 2);
  open();
  const StreamHandle on = stream();
  const EventHandle first = event(), second = event(), third = event();
  EXPECT_EQ(device_->record_event(first, on), DeviceCode::ok);
  EXPECT_EQ(device_->record_event(second, on), DeviceCode::ok);
  EXPECT_EQ(device_->record_event(first, on), DeviceCode::ok);  // again: the same slot
  EXPECT_EQ(device_->record_event(third, on), DeviceCode::no_resource);
  EXPECT_TRUE(is_recoverable(DeviceCode::no_resource));
  EXPECT_EQ(device_->destroy_event(first), DeviceCode::ok);
  EXPECT_EQ(device_->record_event(third, on), DeviceCode::ok);
  EXPECT_EQ(device_->synchronize_event(third, -1), DeviceCode::ok);
}

TEST_F(AscendOnStandIn, EventsAnswerTheRightWayRound) {
  AscendOptions options = ascend_stand_in_options();
  options.play_estimates = true;
  open(options);
  const StreamHandle on = stream();
  const EventHandle done = event();
  EXPECT_EQ(device_->query_event(done), DeviceCode::ok);  // never recorded
  const std::int64_t before = device_->now_ns();
  ASSERT_EQ(device_->launch(on, {.estimate_ns = 300'000'000}), DeviceCode::ok);
  ASSERT_EQ(device_->record_event(done, on), DeviceCode::ok);
  EXPECT_EQ(device_->query_event(done), DeviceCode::not_ready);
  EXPECT_EQ(device_->synchronize_event(done, 0), DeviceCode::not_ready);
  EXPECT_EQ(device_->synchronize_event(done, 1000), DeviceCode::not_ready);
  EXPECT_EQ(device_->synchronize_event(done, -1), DeviceCode::ok);
  EXPECT_GE(device_->now_ns() - before, 300'000'000);
  EXPECT_EQ(device_->query_event(done), DeviceCode::ok);
}

TEST_F(AscendOnStandIn, FreeingUnderACopyLosesTheDevice) {
  open();
  const StreamHandle on = stream();
  const Address block = plain(kMiB), host = pinned(kMiB);
  controls_.set("delay_us", 300'000);
  ASSERT_EQ(device_->copy(on, host, block, kMiB, CopyKind::device_to_host), DeviceCode::ok);
  EXPECT_EQ(device_->free_plain(block), DeviceCode::ok);  // ACL says nothing here
  EXPECT_EQ(device_->synchronize_stream(on), DeviceCode::lost);
  EXPECT_NE(device_->last_error().find("in flight"), std::string::npos) << device_->last_error();
  EXPECT_EQ(device_->allocate_plain(1, const_cast<Address&>(block)), DeviceCode::lost);
}

TEST_F(AscendOnStandIn, PinnedMemoryRegisteredOnRequest) {
  AscendOptions options = ascend_stand_in_options();
  options.register_pinned = true;
  open(options);
  EXPECT_TRUE(device_->traits().host_register);
  const Address own = pinned(3 * kMiB);
  EXPECT_TRUE(device_->pinned_facts(own).registered);
  EXPECT_EQ(device_->free_pinned(own), DeviceCode::ok);
  controls_.set("host_register", 0);  // as before A2, or on an old kernel
  const Address vendors = pinned(3 * kMiB);
  const PinnedFacts facts = device_->pinned_facts(vendors);
  EXPECT_TRUE(facts.registered) << "the driver's own pages are pinned";
  EXPECT_FALSE(facts.huge_pages) << "nobody knows";
  EXPECT_NE(facts.explanation.find("207000"), std::string::npos) << facts.explanation;
  EXPECT_EQ(device_->free_pinned(vendors), DeviceCode::ok);
  Address none = 0;
  EXPECT_EQ(device_->allocate_pinned(65 * kGiB, none), DeviceCode::unsupported);
  EXPECT_EQ(controls_.get("blocks"), 0);
}

TEST_F(AscendOnStandIn, CodesMeanWhatTheyShould) {
  using acl::device_code_of;
  for (const acl::Code code : {207001, 207018, 200000}) {
    EXPECT_EQ(device_code_of(code, VendorCall::memory), DeviceCode::out_of_memory) << code;
    EXPECT_EQ(device_code_of(code, VendorCall::slot), DeviceCode::no_resource) << code;
    EXPECT_EQ(device_code_of(code, VendorCall::work), DeviceCode::no_resource) << code;
  }
  for (const acl::Code code : {207005, 207007, 207008, 207009, 207010, 207011, 207012, 207014, 507002}) {
    EXPECT_EQ(device_code_of(code, VendorCall::slot), DeviceCode::no_resource) << code;
    EXPECT_EQ(device_code_of(code, VendorCall::memory), DeviceCode::no_resource) << code;
  }
  for (const acl::Code code : {507000, 507013, 507014, 507015, 507052, 507053, 507054, 507899, 207004, 107020}) {
    EXPECT_EQ(device_code_of(code, VendorCall::work), DeviceCode::lost) << code;
    EXPECT_EQ(device_code_of(code, VendorCall::give_back), DeviceCode::lost) << code;
  }
  for (const acl::Code code : {107019, 507006, 507046, 507047}) {
    EXPECT_EQ(device_code_of(code, VendorCall::wait), DeviceCode::not_ready) << code;
    EXPECT_EQ(device_code_of(code, VendorCall::work), DeviceCode::copy_failed) << code;
  }
  EXPECT_EQ(device_code_of(107002, VendorCall::slot), DeviceCode::invalid);
  EXPECT_EQ(device_code_of(207002, VendorCall::give_back), DeviceCode::invalid);
  for (const acl::Code code : {207000, 207006}) {
    EXPECT_EQ(device_code_of(code, VendorCall::memory), DeviceCode::unsupported) << code;
  }
  for (const acl::Code code : {207003, 207016, 207017}) {
    EXPECT_EQ(device_code_of(code, VendorCall::wait), DeviceCode::copy_failed) << code;
  }
}

/// What a wait tells of is work that did not take place: trying the wait again would not bring it back.
TEST_F(AscendOnStandIn, AWaitNeverAsksToBeTriedAgain) {
  open();
  const StreamHandle on = stream();
  for (const acl::Code code : {207001, 207005, 207018}) {
    controls_.fail_call("aclrtSynchronizeStream", 0, code);
    EXPECT_EQ(device_->synchronize_stream(on), DeviceCode::copy_failed) << code;
  }
  controls_.fail_call("aclrtMemcpyAsync", 0, 207001);
  EXPECT_EQ(device_->copy(on, pinned(kMiB), plain(kMiB), kMiB, CopyKind::device_to_host), DeviceCode::no_resource);
}

/// Each call that gives back fails once: what it was to give back is still there, and the second attempt works.
TEST_F(AscendOnStandIn, WhatAclWouldNotTakeBackIsTriedAgain) {
  AscendOptions options = ascend_stand_in_options();
  options.register_pinned = true;
  open(options);
  const std::int64_t streams = controls_.get("streams");
  const Address base = reserve(3 * granule()), block = plain(1000), own = pinned(3 * kMiB);
  controls_.set("host_register", 0);
  const Address vendors = pinned(3 * kMiB);
  const StreamHandle on = stream();
  const EventHandle done = event();
  ASSERT_EQ(device_->map(base, 3 * granule()), DeviceCode::ok);
  const auto twice = [&](const char* call, std::int64_t skip, auto&& give_back) {
    controls_.fail_call(call, skip, acl::kMemoryFree);
    EXPECT_EQ(give_back(), DeviceCode::invalid) << call;
    EXPECT_NE(device_->last_error().find(call), std::string::npos) << device_->last_error();
    EXPECT_EQ(give_back(), DeviceCode::ok) << call << device_->last_error();
  };
  twice("aclrtDestroyStream", 0, [&] { return device_->destroy_stream(on); });
  twice("aclrtDestroyEvent", 0, [&] { return device_->destroy_event(done); });
  twice("aclrtUnmapMem", 1, [&] { return device_->unmap(base, 3 * granule()); });
  twice("aclrtReleaseMemAddress", 0, [&] { return device_->release(base, 3 * granule()); });
  twice("aclrtFree", 0, [&] { return device_->free_plain(block); });
  controls_.fail_call("aclrtHostUnregister", 0, acl::kMemoryFree);
  EXPECT_EQ(device_->free_pinned(own), DeviceCode::invalid);
  EXPECT_EQ(device_->free_pinned(own), DeviceCode::ok);
  twice("aclrtFreeHost", 0, [&] { return device_->free_pinned(vendors); });
  expect_nothing_left(streams);
}

TEST_F(AscendOnStandIn, AMisalignedAttemptThatAclKeepsIsNotForgotten) {
  open();
  controls_.fail_call("aclrtFree", 0, acl::kMemoryFree);
  const Address block = plain(1000);
  EXPECT_EQ(controls_.get("blocks"), 2) << "the attempt is still there";
  const Address other = plain(1000);
  EXPECT_EQ(controls_.get("blocks"), 2) << "and went with the next one";
  EXPECT_EQ(device_->free_plain(block), DeviceCode::ok);
  EXPECT_EQ(device_->free_plain(other), DeviceCode::ok);
  EXPECT_EQ(controls_.get("blocks"), 0);
}

TEST_F(AscendOnStandIn, OneFailedCallIsReportedAndLeavesTheRest) {
  open();
  const StreamHandle on = stream();
  const Address block = plain(kMiB), host = pinned(kMiB);
  controls_.fail_call("aclrtMemcpyAsync", 0, 207'003);
  EXPECT_EQ(device_->copy(on, host, block, kMiB, CopyKind::device_to_host), DeviceCode::copy_failed);
  EXPECT_NE(device_->last_error().find("aclrtMemcpyAsync"), std::string::npos);
  EXPECT_EQ(device_->copy(on, host, block, kMiB, CopyKind::device_to_host), DeviceCode::ok);
  controls_.fail_call("aclrtMemcpyAsync", 0, 507'013);
  EXPECT_EQ(device_->copy(on, host, block, kMiB, CopyKind::device_to_host), DeviceCode::lost);
  EXPECT_EQ(device_->synchronize_stream(on), DeviceCode::lost);
}

TEST_F(AscendOnStandIn, ThreadsNeedNoContextOfTheirOwn) {
  open();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const StreamHandle on = stream();
      const Address block = plain(70'000);
      const Touch write{block, 70'000, AccessKind::write, static_cast<std::uint64_t>(i)};
      const Touch read{block, 70'000, AccessKind::read, static_cast<std::uint64_t>(i)};
      EXPECT_EQ(device_->launch(on, {.touches = {&write, 1}, .verify = true}), DeviceCode::ok);
      EXPECT_EQ(device_->launch(on, {.touches = {&read, 1}, .verify = true}), DeviceCode::ok);
      EXPECT_EQ(device_->destroy_stream(on), DeviceCode::ok);
      EXPECT_EQ(device_->free_plain(block), DeviceCode::ok);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Mismatch first;
  EXPECT_EQ(device_->mismatches(first), 0);
  EXPECT_EQ(controls_.get("violations"), 0);
}

/// A lost device that is at work takes memory back once the work has ended, whoever asks first.
TEST_F(AscendOnStandIn, EveryThreadWaitsForALostDevice) {
  open();
  const Address base = reserve(4 * granule());
  ASSERT_EQ(device_->map(base, 2 * granule()), DeviceCode::ok);
  std::array<Address, 4> blocks{};
  for (Address& block : blocks) {
    StreamHandle on{};
    Address host = 0;
    ASSERT_EQ(device_->allocate_plain(kMiB, block), DeviceCode::ok);
    ASSERT_EQ(device_->allocate_pinned(kMiB, host), DeviceCode::ok);
    ASSERT_EQ(device_->create_stream(StreamRole::d2h, on), DeviceCode::ok);
    controls_.set("delay_us", 200'000);
    ASSERT_EQ(device_->copy(on, host, block, kMiB, CopyKind::device_to_host), DeviceCode::ok);
  }
  controls_.fail_call("aclrtUnmapMem", 1, acl::kOutOfMemory);
  controls_.fail_call("aclrtMapMem", 0, acl::kOutOfMemory);
  ASSERT_EQ(device_->remap(base + 2 * static_cast<Address>(granule()), base, 2 * granule()), DeviceCode::lost);
  std::vector<std::thread> threads;
  for (const Address block : blocks) {
    threads.emplace_back([this, block] { EXPECT_EQ(device_->free_plain(block), DeviceCode::ok); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(controls_.get("violations"), 0) << "freed under a copy";
}

TEST_F(AscendOnStandIn, ARefusedDestroyDoesNotHideFailedWork) {
  open();
  expect_failed_work_told("aclrtSynchronizeStream", 207'003, "aclrtDestroyStream", acl::kMemoryFree);
}

/// The verifier's buffer goes with its stream, and stays with one that ACL keeps.
TEST_F(AscendOnStandIn, ARefusedDestroyKeepsTheBufferOfTheStream) {
  open();
  const StreamHandle on = stream();
  const Touch write{plain(1000), 1000, AccessKind::write, 1};
  ASSERT_EQ(device_->launch(on, {.touches = {&write, 1}, .verify = true}), DeviceCode::ok);
  const std::int64_t blocks = controls_.get("blocks");
  controls_.fail_call("aclrtDestroyStream", 0, acl::kMemoryFree);
  EXPECT_EQ(device_->destroy_stream(on), DeviceCode::invalid);
  ASSERT_EQ(device_->launch(on, {.touches = {&write, 1}, .verify = true}), DeviceCode::ok);
  EXPECT_EQ(controls_.get("blocks"), blocks) << "the same buffer";
  EXPECT_EQ(device_->destroy_stream(on), DeviceCode::ok);
  EXPECT_EQ(controls_.get("blocks"), blocks - 1);
}

/// A handle may be another stream's as soon as ACL has destroyed the first: what was taken out before is apart from it.
TEST_F(AscendOnStandIn, BuffersOfStreamsWithTheSameHandleAreApart) {
  auto loaded = acl::load_runtime(TIDEMARK_ACL_STAND_IN, "");
  ASSERT_TRUE(loaded.ok());
  const acl::Runtime acl = std::move(loaded).value();
  acl::Verifier verifier(acl);
  acl::Stream on = nullptr;
  void* block = nullptr;
  ASSERT_EQ(acl.set_device(0), acl::kSuccess);
  ASSERT_EQ(acl.stream_create(&on), acl::kSuccess);
  ASSERT_EQ(acl.allocate(&block, 4096, acl::kHugeFirst), acl::kSuccess);
  const Touch write{reinterpret_cast<Address>(block), 1000, AccessKind::write, 1};
  const std::int64_t blocks = controls_.get("blocks");
  ASSERT_EQ(verifier.fill(on, write), acl::kSuccess);
  ASSERT_EQ(acl.stream_synchronize(on), acl::kSuccess);
  acl::Verifier::Buffer first = verifier.take(on);
  controls_.set("delay_us", 100'000);
  ASSERT_EQ(verifier.fill(on, write), acl::kSuccess);  // the next stream under the same handle
  EXPECT_EQ(controls_.get("blocks"), blocks + 2);
  verifier.drop(std::move(first));
  EXPECT_EQ(acl.stream_synchronize(on), acl::kSuccess);
  EXPECT_EQ(controls_.get("violations"), 0) << "freed under the other one's work";
  EXPECT_EQ(controls_.get("blocks"), blocks + 1);
  acl::Verifier::Buffer second = verifier.take(on);
  ASSERT_EQ(verifier.fill(on, write), acl::kSuccess);
  ASSERT_EQ(acl.stream_synchronize(on), acl::kSuccess);
  verifier.put_back(std::move(second));
  verifier.drop_all();
  EXPECT_EQ(controls_.get("blocks"), blocks) << "neither is forgotten";
}

TEST_F(AscendOnStandIn, GivesBackWhatTheCallerForgot) {
  open();
  const Address base = reserve(2 * granule());
  ASSERT_EQ(device_->map(base, granule()), DeviceCode::ok);
  const Touch write{plain(1000), 1000, AccessKind::write, 1};
  ASSERT_EQ(device_->launch(stream(), {.touches = {&write, 1}, .verify = true}), DeviceCode::ok);
  pinned(1000);
  event();
  device_.reset();
  expect_nothing_left(0);
}

TEST_F(AscendOnStandIn, NothingIsLeftAfterAFaultAtAnyCall) {
  const int faults =
      fail_everywhere({"aclrtReserveMemAddress", "aclrtMallocPhysical", "aclrtMapMem", "aclrtUnmapMem",
                       "aclrtMallocAlign32", "aclrtMallocHost", "aclrtCreateStream", "aclrtCreateEventExWithFlag",
                       "aclrtLaunchHostFunc", "aclrtMemcpyAsync", "aclrtRecordEvent", "aclrtStreamWaitEvent",
                       "aclrtSynchronizeEvent", "aclrtSynchronizeStream", "aclrtSetCurrentContext"},
                      acl::kOutOfMemory, [this] { open(); });
  EXPECT_GT(faults, 15);
}

}  // namespace
}  // namespace tidemark
