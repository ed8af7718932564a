// Every call of the device fails once, in turn: the error comes out, nothing is lost, and all is given back at the end.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "allocator/caching_allocator.h"
#include "device/forwarding_device.h"
#include "device/sim_device.h"

namespace tidemark::allocator {
namespace {

using namespace literals;

/// What a program did before and after the fault.
struct Outcome {
  int failures = 0;
  std::int64_t device_calls = 0;
};

/// A short program that maps, moves, waits, parks, trims and uses plain memory.
Outcome run(const Fault& fault, bool mapping, bool aliasing = true, Bytes capacity_bytes = 64 * kMiB) {
  Outcome outcome;
  auto device = make_sim_device({.capacity_bytes = capacity_bytes, .mapping = mapping, .aliasing = aliasing});
  StreamHandle streams[2] = {};
  for (StreamHandle& stream : streams) EXPECT_EQ(device->create_stream(StreamRole::compute, stream), DeviceCode::ok);
  StreamOrder order;
  auto allocator = std::make_unique<CachingAllocator>(*device, order);
  device->set_faults({fault});
  std::vector<std::pair<Address, std::size_t>> live;
  const auto give_back = [&](std::size_t i) {
    EXPECT_EQ(allocator->free(live[i].first), DeviceCode::ok);
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (int i = 0; i < 60; ++i) {
    const std::size_t stream = i % 5 == 0 ? 1 : 0;
    const Bytes bytes = (1 + i * 5 % 7) * 1100_KiB;
    Address address = 0;
    const AllocatorStatistics before = allocator->statistics();
    const DeviceCode code = i % 8 == 7 ? allocator->allocate_plain(bytes, streams[stream], address)
                                       : allocator->allocate(bytes, streams[stream], address);
    EXPECT_EQ(allocator->validate(), "") << "after allocation " << i;
    if (code == DeviceCode::ok) {
      live.emplace_back(address, stream);
      (void)allocator->note_use(address, streams[1 - stream]);
      const Touch touch{.address = address, .bytes = bytes, .kind = AccessKind::write};
      (void)device->launch(streams[stream], {.estimate_ns = 1000, .touches = {&touch, 1}});
    } else {
      ++outcome.failures;
      EXPECT_EQ(address, 0U);
      EXPECT_NE(allocator->last_error(), "");
      EXPECT_EQ(allocator->statistics().allocated_bytes.current, before.allocated_bytes.current);
    }
    while (live.size() > 8) give_back(static_cast<std::size_t>(i) % live.size());
    if (i % 20 == 19) allocator->trim(16_MiB);
  }
  const AllocatorStatistics end = allocator->statistics();
  outcome.device_calls = end.num_device_alloc + end.remaps + end.events_recorded;
  allocator.reset();  // with blocks in callers' hands
  for (const StreamHandle stream : streams) (void)device->destroy_stream(stream);
  EXPECT_EQ(device->leaks(), "");
  return outcome;
}

TEST(AllocatorFaults, EveryCallFailsOnceAndNothingLeaks) {
  for (const bool mapping : {true, false}) {
    int struck = 0;
    for (const FaultPoint point : {FaultPoint::map, FaultPoint::allocate_plain, FaultPoint::create_event,
                                   FaultPoint::record_event, FaultPoint::synchronize}) {
      for (const DeviceCode code : {DeviceCode::out_of_memory, DeviceCode::no_resource, DeviceCode::copy_failed}) {
        for (std::int64_t k = 1; k <= 24; k += k < 6 ? 1 : 3) {
          SCOPED_TRACE(testing::Message() << "point " << static_cast<int>(point) << " call " << k << " "
                                          << name_of(code) << (mapping ? " mapped" : " plain"));
          struck += run({.point = point, .first_call = k, .code = code}, mapping).failures > 0 ? 1 : 0;
        }
      }
    }
    EXPECT_GT(struck, 10) << "errors that nothing can be done about come out";
  }
}

// Blocks lie in other places when the order of waits is another, so at one capacity near the limit chance decides.
TEST(AllocatorFaults, WithoutEventsTheDeviceIsWaitedForInstead) {
  const Fault no_events{.point = FaultPoint::create_event, .calls = Fault::kNoEnd, .code = DeviceCode::no_resource};
  const Fault none{.point = FaultPoint::copy};
  for (const bool aliasing : {false, true}) {
    int without = 0, with = 0;
    for (Bytes capacity = 50_MiB; capacity <= 82_MiB; capacity += 2_MiB) {
      without += run(no_events, true, aliasing, capacity).failures;
      with += run(none, true, aliasing, capacity).failures;
    }
    EXPECT_LE(without, with) << "aliasing " << aliasing;
    EXPECT_GT(with, 0) << "memory was never short";
  }
}

TEST(AllocatorFaults, ALostDeviceIsReportedAndLetGo) {
  for (std::int64_t k = 1; k <= 12; ++k) {
    auto device = make_sim_device({.capacity_bytes = 64_MiB});
    StreamHandle stream = {};
    ASSERT_EQ(device->create_stream(StreamRole::compute, stream), DeviceCode::ok);
    StreamOrder order;
    CachingAllocator allocator(*device, order);
    device->set_faults({{.point = FaultPoint::map, .first_call = k, .code = DeviceCode::lost}});
    DeviceCode last = DeviceCode::ok;
    for (int i = 0; i < 20 && last == DeviceCode::ok; ++i) {
      Address address = 0;
      last = allocator.allocate(2_MiB, stream, address);
    }
    EXPECT_EQ(last, DeviceCode::lost);
    EXPECT_EQ(allocator.validate(), "");
  }
}

/// Takes nothing back at the first asking, once it is told to.
class ReluctantDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  bool reluctant = false;
  std::int64_t unmaps = 0, releases = 0, frees = 0, destroys = 0;  ///< refused

  DeviceCode unmap(Address at, Bytes bytes) override {
    return refuses(unmaps) ? DeviceCode::invalid : ForwardingDevice::unmap(at, bytes);
  }
  DeviceCode release(Address base, Bytes bytes) override {
    return refuses(releases) ? DeviceCode::invalid : ForwardingDevice::release(base, bytes);
  }
  DeviceCode free_plain(Address address) override {
    return refuses(frees) ? DeviceCode::invalid : ForwardingDevice::free_plain(address);
  }
  DeviceCode destroy_event(EventHandle event) override {
    return refuses(destroys) ? DeviceCode::invalid : ForwardingDevice::destroy_event(event);
  }

 private:
  [[nodiscard]] bool refuses(std::int64_t& count) {
    refused_last_ = reluctant && !refused_last_;
    count += refused_last_ ? 1 : 0;
    return refused_last_;
  }
  bool refused_last_ = false;
};

TEST(AllocatorFaults, WhatIsNotTakenBackAtTheEndIsOfferedOnceMore) {
  auto sim = make_sim_device({.capacity_bytes = 64_MiB});
  ReluctantDevice device(*sim);
  StreamHandle streams[2] = {};
  for (StreamHandle& stream : streams) ASSERT_EQ(device.create_stream(StreamRole::compute, stream), DeviceCode::ok);
  StreamOrder order;
  {
    CachingAllocator allocator(device, order);
    Address plain = 0;
    std::vector<Address> mapped(16);
    for (Address& address : mapped) ASSERT_EQ(allocator.allocate(3_MiB, streams[0], address), DeviceCode::ok);
    ASSERT_EQ(allocator.allocate_plain(3_MiB, streams[0], plain), DeviceCode::ok);
    for (std::size_t i = 0; i < mapped.size(); i += 2) {
      ASSERT_EQ(allocator.note_use(mapped[i], streams[1]), DeviceCode::ok);
      ASSERT_EQ(device.launch(streams[1], {.estimate_ns = 1000}), DeviceCode::ok);
      ASSERT_EQ(allocator.free(mapped[i]), DeviceCode::ok);
    }
    ASSERT_EQ(allocator.allocate(14_MiB, streams[0], plain), DeviceCode::ok);  // of what was freed, after a wait
    device.reluctant = true;
  }
  EXPECT_GT(std::min({device.unmaps, device.releases, device.frees, device.destroys}), 0);
  for (const StreamHandle stream : streams) EXPECT_EQ(device.destroy_stream(stream), DeviceCode::ok);
  EXPECT_EQ(sim->leaks(), "");
}

TEST(AllocatorFaults, CapacityThatShrinksIsMetByGivingBack) {
  auto device = make_sim_device({.capacity_bytes = 64_MiB});
  StreamHandle stream = {};
  ASSERT_EQ(device->create_stream(StreamRole::compute, stream), DeviceCode::ok);
  StreamOrder order;
  {
    CachingAllocator allocator(*device, order);
    Address a = 0, b = 0;
    ASSERT_EQ(allocator.allocate(20_MiB, stream, a), DeviceCode::ok);
    ASSERT_EQ(allocator.free(a), DeviceCode::ok);
    device->set_faults({{.point = FaultPoint::map, .first_call = 1, .capacity_bytes = 24_MiB}});
    ASSERT_EQ(allocator.allocate(22_MiB, stream, b), DeviceCode::ok) << allocator.last_error();
    EXPECT_EQ(allocator.allocate(4_MiB, stream, a), DeviceCode::out_of_memory);
    EXPECT_EQ(allocator.free(b), DeviceCode::ok);
    EXPECT_EQ(allocator.allocate(4_MiB, stream, a), DeviceCode::ok);
  }
  EXPECT_EQ(device->destroy_stream(stream), DeviceCode::ok);
  EXPECT_EQ(device->leaks(), "");
}

}  // namespace
}  // namespace tidemark::allocator
