// Faults on demand: each point, each effect, and what is left afterwards.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "device/sim_device.h"
#include "tests/device/sim_fixture.h"

namespace tidemark {
namespace {

using namespace literals;

struct PointCase {
  FaultPoint point;
  const char* name;
  std::function<DeviceCode(const SimRig&)> call;
};

// A call of every point that would succeed; memory for the copies is made before the faults are set.
std::vector<PointCase> points(Address base, Address device, Address host) {
  return {
      {FaultPoint::map, "map",
       [=](const SimRig& rig) {
         const DeviceCode code = rig->map(base, 2_MiB);
         if (code == DeviceCode::ok) {
           EXPECT_EQ(rig->unmap(base, 2_MiB), DeviceCode::ok);
         }
         return code;
       }},
      {FaultPoint::allocate_plain, "allocate_plain",
       [](const SimRig& rig) {
         Address at = 0;
         return rig->allocate_plain(64, at);
       }},
      {FaultPoint::allocate_pinned, "allocate_pinned",
       [](const SimRig& rig) {
         Address at = 0;
         return rig->allocate_pinned(64, at);
       }},
      {FaultPoint::create_stream, "create_stream",
       [](const SimRig& rig) {
         StreamHandle stream{};
         return rig->create_stream(StreamRole::compute, stream);
       }},
      {FaultPoint::create_event, "create_event",
       [](const SimRig& rig) {
         EventHandle event{};
         return rig->create_event(event);
       }},
      {FaultPoint::record_event, "record_event",
       [event = EventHandle{}](const SimRig& rig) mutable {
         if (event == EventHandle{}) event = rig.event();
         return rig->record_event(event, rig.compute);
       }},
      {FaultPoint::copy, "copy",
       [=](const SimRig& rig) { return rig->copy(rig.d2h, host, device, 64, CopyKind::device_to_host, 1); }},
      {FaultPoint::launch, "launch", [](const SimRig& rig) { return rig->launch(rig.compute, {.id = 1}); }},
      {FaultPoint::synchronize, "synchronize", [](const SimRig& rig) { return rig->synchronize_device(); }},
  };
}

TEST(SimFaults, TheKthCallOfEachPointFailsAndTheOthersDoNot) {
  const SimRig rig;
  Address base = 0;
  ASSERT_EQ(rig->reserve(2_MiB, base), DeviceCode::ok);
  for (const PointCase& point : points(base, rig.plain(4096), rig.pinned(4096))) {
    SCOPED_TRACE(point.name);
    for (const DeviceCode code : {DeviceCode::out_of_memory, DeviceCode::no_resource, DeviceCode::copy_failed}) {
      rig->set_faults({{.point = point.point, .first_call = 3, .calls = 2, .code = code}});
      for (int call = 1; call <= 6; ++call)
        ASSERT_EQ(point.call(rig), call == 3 || call == 4 ? code : DeviceCode::ok) << "call " << call;
      EXPECT_NE(rig->last_error().find("injected"), std::string::npos);
    }
  }
}

TEST(SimFaults, OnceLostEverythingIsLostButDestroyingIsAllowed) {
  const SimRig rig;
  Address base = 0;
  ASSERT_EQ(rig->reserve(2_MiB, base), DeviceCode::ok);
  const Address device = rig.plain(4096), host = rig.pinned(4096);
  const EventHandle event = rig.event();
  rig.work(rig.compute, 1, 1000);
  rig.order(rig.compute, rig.d2h);
  rig.copy_out(rig.d2h, host, device, 64);
  rig->set_faults({{.point = FaultPoint::copy, .first_call = 2, .code = DeviceCode::lost}});
  rig.copy_out(rig.d2h, host, device, 64);
  EXPECT_EQ(rig->copy(rig.d2h, host, device, 64, CopyKind::device_to_host), DeviceCode::lost);
  rig->set_faults({});
  for (const PointCase& point : points(base, device, host))
    if (point.point != FaultPoint::record_event) {
      EXPECT_EQ(point.call(rig), DeviceCode::lost) << point.name;
    }
  EXPECT_EQ(rig->record_event(event, rig.compute), DeviceCode::lost);
  EXPECT_EQ(rig->wait_event(rig.compute, event), DeviceCode::lost);
  EXPECT_EQ(rig->query_event(event), DeviceCode::lost);
  MemoryInfo info;
  EXPECT_EQ(rig->memory_info(info), DeviceCode::lost);
  EXPECT_NE(rig->last_error(), "");
  EXPECT_EQ(rig->destroy_event(event), DeviceCode::ok);
  EXPECT_EQ(rig->destroy_stream(rig.compute), DeviceCode::ok);
}

TEST(SimFaults, ALateFailureIsToldByTheNextSynchronisationOfThatStream) {
  const SimRig rig;
  const Address device = rig.plain(8192), host = rig.pinned(8192);
  rig->set_faults({{.point = FaultPoint::copy, .first_call = 2, .code = DeviceCode::copy_failed, .late = true}});
  rig.work(rig.compute, 1, 10, {writes(device, 8192, 3)}, true);
  rig.order(rig.compute, rig.d2h);
  rig.copy_out(rig.d2h, host, device, 4096, 11);
  const EventHandle before = rig.mark(rig.d2h);
  rig.copy_out(rig.d2h, host + 4096, device + 4096, 4096, 12);
  const EventHandle after = rig.mark(rig.d2h);
  EXPECT_EQ(rig->synchronize_event(before), DeviceCode::ok);
  EXPECT_EQ(rig->synchronize_event(after), DeviceCode::copy_failed);
  EXPECT_EQ(rig->last_error(), "copy 12 on d2h failed");
  EXPECT_EQ(rig->synchronize_stream(rig.compute), DeviceCode::ok);
  EXPECT_EQ(rig->synchronize_stream(rig.d2h), DeviceCode::copy_failed);
  EXPECT_EQ(rig->synchronize_stream(rig.d2h), DeviceCode::ok);  // told once
  // What it would have written is unknown, what came before it is there.
  rig.copy_in(rig.h2d, device, host, 4096);
  rig.copy_in(rig.h2d, device + 4096, host + 4096, 4096);
  rig.finish();
  rig.work(rig.compute, 2, 10, {reads(device, 4096, 3)}, true);
  rig.finish();
  EXPECT_EQ(rig.mismatches(), 0);
  rig.work(rig.compute, 3, 10, {reads(device, 8192, 3)}, true);
  rig.finish();
  EXPECT_EQ(rig.mismatches(), 1);
}

TEST(SimFaults, ACopyMayStall) {
  const SimRig rig(slow_links());
  const Address device = rig.plain(4096), host = rig.pinned(4096);
  rig->set_faults({{.point = FaultPoint::copy, .first_call = 2, .stall_ns = 5000}});
  rig.copy_out(rig.d2h, host, device, 1000);
  rig.copy_out(rig.d2h, host, device, 1000);
  rig.copy_out(rig.d2h, host, device, 1000);
  rig.finish();
  EXPECT_EQ(rig->now_ns(), 8000);
}

TEST(SimFaults, CapacityMayShrink) {
  SimOptions options;
  options.capacity_bytes = 64_MiB;
  const SimRig rig(options);
  rig->set_faults({{.point = FaultPoint::map, .first_call = 2, .capacity_bytes = 8_MiB}});
  Address base = 0;
  ASSERT_EQ(rig->reserve(64_MiB, base), DeviceCode::ok);
  EXPECT_EQ(rig->map(base, 16_MiB), DeviceCode::ok);
  EXPECT_EQ(rig->map(base + 16_MiB, 2_MiB), DeviceCode::out_of_memory);
  MemoryInfo info;
  ASSERT_EQ(rig->memory_info(info), DeviceCode::ok);
  EXPECT_EQ(info.total_bytes, 8_MiB);
  EXPECT_EQ(info.free_bytes, 0);
  EXPECT_EQ(rig->unmap(base, 12_MiB), DeviceCode::ok);
  EXPECT_EQ(rig->map(base, 2_MiB), DeviceCode::ok);  // 6 of 8 MiB
  EXPECT_EQ(rig->map(base + 2_MiB, 4_MiB), DeviceCode::out_of_memory);
}

TEST(SimFaults, EveryCallFromTheFirst) {
  SimOptions options;
  options.faults = {{.point = FaultPoint::allocate_pinned, .calls = Fault::kNoEnd, .code = DeviceCode::out_of_memory}};
  const SimRig rig(options);
  Address at = 0;
  for (int i = 0; i < 100; ++i) ASSERT_EQ(rig->allocate_pinned(64, at), DeviceCode::out_of_memory);
}

TEST(SimFaults, AFailureGoesAlongWithEvents) {
  for (const bool waits_when_complete : {false, true}) {
    SCOPED_TRACE(waits_when_complete ? "wait after completion" : "wait before completion");
    const SimRig rig;
    const Address device = rig.plain(4096), host = rig.pinned(4096);
    rig->set_faults({{.point = FaultPoint::copy, .code = DeviceCode::copy_failed, .late = true}});
    rig.copy_in(rig.h2d, device, host, 4096, 7);
    const EventHandle arrived = rig.mark(rig.h2d);
    if (waits_when_complete) {
      EXPECT_EQ(rig->synchronize_event(arrived), DeviceCode::copy_failed);
    }
    const EventHandle before = rig.mark(rig.compute);
    EXPECT_EQ(rig->wait_event(rig.compute, arrived), DeviceCode::ok);
    rig.work(rig.compute, 1, 10);
    const EventHandle after = rig.mark(rig.compute);
    EXPECT_EQ(rig->synchronize_event(before), DeviceCode::ok);
    EXPECT_EQ(rig->synchronize_event(after), DeviceCode::copy_failed);
    EXPECT_EQ(rig->synchronize_stream(rig.compute), DeviceCode::copy_failed);
    EXPECT_EQ(rig->last_error(), "copy 7 on h2d failed");
    EXPECT_EQ(rig->synchronize_stream(rig.compute), DeviceCode::ok);  // told once
    EXPECT_EQ(rig->synchronize_stream(rig.send), DeviceCode::ok);     // waited for nothing
  }
}

TEST(SimFaults, ADestroyedStreamTellsItsFailure) {
  const SimRig rig;
  const Address device = rig.plain(4096), host = rig.pinned(4096);
  rig->set_faults({{.point = FaultPoint::copy, .code = DeviceCode::copy_failed, .late = true}});
  rig.copy_in(rig.h2d, device, host, 4096, 7);
  EXPECT_EQ(rig->destroy_stream(rig.h2d), DeviceCode::copy_failed);
  EXPECT_EQ(rig->last_error(), "copy 7 on h2d failed");
  EXPECT_EQ(rig->synchronize_stream(rig.h2d), DeviceCode::invalid);  // it is destroyed all the same
  EXPECT_EQ(rig->synchronize_device(), DeviceCode::copy_failed);
  EXPECT_EQ(rig->synchronize_device(), DeviceCode::ok);
}

TEST(SimFaults, ALateLossTakesTheDeviceWhenTheWorkRuns) {
  const SimRig rig;
  rig->set_faults({{.point = FaultPoint::launch, .first_call = 2, .code = DeviceCode::lost, .late = true}});
  rig.work(rig.compute, 1, 10);
  const EventHandle before = rig.mark(rig.compute);
  rig.work(rig.compute, 2, 10);
  rig.work(rig.send, 3, 1000);
  rig.work(rig.compute, 4, 10);
  EXPECT_EQ(rig->synchronize_event(before), DeviceCode::ok);
  EXPECT_EQ(rig->synchronize_device(), DeviceCode::lost);
  EXPECT_EQ(rig->now_ns(), 20);
  EXPECT_EQ(rig->synchronize_event(before), DeviceCode::lost);
  EXPECT_EQ(rig->launch(rig.compute, {.id = 5}), DeviceCode::lost);
  EXPECT_EQ(rig->destroy_stream(rig.compute), DeviceCode::ok);
}

TEST(SimFaults, ALateFailureKeepsItsCode) {
  const SimRig rig;
  rig->set_faults({{.point = FaultPoint::launch, .code = DeviceCode::no_resource, .late = true}});
  rig.work(rig.compute, 1, 10);
  EXPECT_EQ(rig->synchronize_device(), DeviceCode::no_resource);
}

}  // namespace
}  // namespace tidemark
