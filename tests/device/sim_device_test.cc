// The simulated device: virtual time, links, memory, contents.

#include "device/sim_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/device/sim_fixture.h"

namespace tidemark {
namespace {

using namespace literals;

std::map<std::int64_t, SimSpan> spans_by_id(SimDevice& device) {
  std::map<std::int64_t, SimSpan> spans;
  for (const SimSpan& span : device.take_timeline()) spans[span.id] = span;
  return spans;
}

// ---- time ----

TEST(SimTime, OneStreamRunsInOrderAndStreamsBesideEachOther) {
  const SimRig rig(slow_links());
  rig.work(rig.compute, 1, 100);
  rig.work(rig.compute, 2, 50);
  rig.work(rig.send, 3, 120);
  rig.finish();
  const auto spans = spans_by_id(*rig.device);
  EXPECT_EQ(spans.at(1).start_ns, 0);
  EXPECT_EQ(spans.at(2).start_ns, 100);
  EXPECT_EQ(spans.at(2).end_ns, 150);
  EXPECT_EQ(spans.at(3).start_ns, 0);
  EXPECT_EQ(rig->now_ns(), 150);
}

TEST(SimTime, SubmittingCostsNoTimeAndASynchronisationOnlyWhatItWaitsFor) {
  const SimRig rig(slow_links());
  rig.work(rig.compute, 1, 100);
  const EventHandle first = rig.mark(rig.compute);
  rig.work(rig.compute, 2, 1000);
  EXPECT_EQ(rig->now_ns(), 0);
  EXPECT_EQ(rig->synchronize_event(first), DeviceCode::ok);
  EXPECT_EQ(rig->now_ns(), 100);
  rig.work(rig.send, 3, 10);  // submitted at 100, so it starts then
  rig.finish();
  EXPECT_EQ(spans_by_id(*rig.device).at(3).start_ns, 100);
  EXPECT_EQ(rig->now_ns(), 1100);
}

TEST(SimTime, AWaitRefersToTheLatestRecordAtTheTimeOfTheCall) {
  const SimRig rig(slow_links());
  const EventHandle event = rig.mark(rig.compute);  // nothing before it
  rig.work(rig.compute, 1, 100);
  EXPECT_EQ(rig->wait_event(rig.d2h, event), DeviceCode::ok);
  rig.work(rig.d2h, 2, 10);
  EXPECT_EQ(rig->record_event(event, rig.compute), DeviceCode::ok);
  EXPECT_EQ(rig->wait_event(rig.h2d, event), DeviceCode::ok);
  rig.work(rig.compute, 3, 100);
  EXPECT_EQ(rig->record_event(event, rig.compute), DeviceCode::ok);  // anew: does not move the wait above
  rig.work(rig.h2d, 4, 10);
  rig.finish();
  const auto spans = spans_by_id(*rig.device);
  EXPECT_EQ(spans.at(2).start_ns, 0);
  EXPECT_EQ(spans.at(4).start_ns, 100);
}

TEST(SimTime, AnEventNeverRecordedIsComplete) {
  const SimRig rig;
  const EventHandle event = rig.event();
  EXPECT_EQ(rig->query_event(event), DeviceCode::ok);
  EXPECT_EQ(rig->synchronize_event(event), DeviceCode::ok);
  EXPECT_EQ(rig->wait_event(rig.compute, event), DeviceCode::ok);
  rig.work(rig.compute, 1, 5);
  rig.finish();
  EXPECT_EQ(rig->now_ns(), 5);
}

TEST(SimTime, PollingEnds) {
  const SimRig rig;
  rig.work(rig.compute, 1, 1'000'000);
  const EventHandle event = rig.mark(rig.compute);
  int polls = 0;
  while (rig->query_event(event) == DeviceCode::not_ready) ASSERT_LT(++polls, 2000);
  EXPECT_EQ(polls, 1000);  // one microsecond each
  EXPECT_EQ(rig->now_ns(), 1'000'000);
}

TEST(SimTime, ASynchronisationMayTimeOut) {
  const SimRig rig;
  rig.work(rig.compute, 1, 1000);
  const EventHandle event = rig.mark(rig.compute);
  EXPECT_EQ(rig->synchronize_event(event, 300), DeviceCode::not_ready);
  EXPECT_EQ(rig->now_ns(), 300);
  EXPECT_EQ(rig->synchronize_event(event, 700), DeviceCode::ok);
  EXPECT_EQ(rig->now_ns(), 1000);
}

TEST(SimTime, TheLongestTimeoutIsNone) {
  const SimRig rig;
  rig.work(rig.compute, 1, 1000);
  rig.finish();
  rig.work(rig.compute, 2, 1000);
  EXPECT_EQ(rig->synchronize_event(rig.mark(rig.compute), INT64_MAX), DeviceCode::ok);
  EXPECT_EQ(rig->now_ns(), 2000);
}

// ---- links ----

TEST(SimLinks, ACopyTakesLatencyPlusBytesOverRate) {
  SimOptions options;
  options.d2h = {.bytes_per_s = 20e9, .latency_ns = 7000};
  options.h2d = {.bytes_per_s = 40e9, .latency_ns = 300};
  options.device_copy_bytes_per_s = 1e12;
  options.copy_launch_ns = 50;
  options.record_timeline = true;
  const SimRig rig(options);
  const Address device = rig.plain(64_MiB), host = rig.pinned(64_MiB);
  rig.copy_out(rig.d2h, host, device, 20'000'000, 1);
  rig.finish();
  rig.copy_in(rig.h2d, device, host, 20'000'000, 2);
  rig.finish();
  EXPECT_EQ(rig->copy(rig.compute, device, device + 32_MiB, 20'000'000, CopyKind::device_to_device, 3), DeviceCode::ok);
  rig.finish();
  const auto spans = spans_by_id(*rig.device);
  EXPECT_EQ(spans.at(1).end_ns - spans.at(1).start_ns, 50 + 7000 + 1'000'000);
  EXPECT_EQ(spans.at(2).end_ns - spans.at(2).start_ns, 50 + 300 + 500'000);
  EXPECT_EQ(spans.at(3).end_ns - spans.at(3).start_ns, 50 + 20'000);
}

TEST(SimLinks, DirectionsRunBesideEachOtherAndOneDirectionIsShared) {
  const SimRig rig(slow_links());
  const Address device = rig.plain(1_MiB), host = rig.pinned(1_MiB);
  const StreamHandle other = rig.stream(StreamRole::d2h);
  rig.copy_out(rig.d2h, host, device, 1000, 1);
  rig.copy_out(other, host + 4096, device + 4096, 500, 2);
  rig.copy_in(rig.h2d, device + 8192, host + 8192, 800, 3);
  rig.finish();
  const auto spans = spans_by_id(*rig.device);
  EXPECT_EQ(spans.at(1).end_ns, 1000);
  EXPECT_EQ(spans.at(2).start_ns, 1000);  // first come, first served
  EXPECT_EQ(spans.at(2).end_ns, 1500);
  EXPECT_EQ(spans.at(3).start_ns, 0);
  EXPECT_EQ(spans.at(3).end_ns, 800);
}

TEST(SimLinks, StatisticsCountWhatWasDone) {
  const SimRig rig(slow_links());
  const Address device = rig.plain(1_MiB), host = rig.pinned(1_MiB);
  rig.copy_out(rig.d2h, host, device, 1000);
  rig.copy_out(rig.d2h, host, device, 500);
  rig.work(rig.compute, 1, 70);
  rig.finish();
  const SimStatistics statistics = rig->statistics();
  EXPECT_EQ(statistics.copies[0], 2);
  EXPECT_EQ(statistics.copied_bytes[0], 1500);
  EXPECT_EQ(statistics.copies[1], 0);
  EXPECT_EQ(statistics.launches, 1);
  EXPECT_EQ(statistics.first_start_ns, 0);
  EXPECT_EQ(statistics.last_end_ns, 1500);
  const auto of = [&](StreamHandle stream) {
    return *std::find_if(statistics.streams.begin(), statistics.streams.end(),
                         [&](const SimStreamStatistics& s) { return s.stream == stream; });
  };
  EXPECT_EQ(of(rig.d2h).busy_ns, 1500);
  EXPECT_EQ(of(rig.d2h).name, "d2h");
  EXPECT_EQ(of(rig.compute).busy_ns, 70);
  rig->reset_statistics();
  EXPECT_EQ(rig->statistics().launches, 0);
  EXPECT_EQ(rig->statistics().last_end_ns, -1);
}

TEST(SimLinks, CopiesOfTheWrongDirectionAreRefused) {
  const SimRig rig;
  const Address device = rig.plain(4096), host = rig.pinned(4096);
  EXPECT_EQ(rig->copy(rig.d2h, device, host, 64, CopyKind::device_to_host), DeviceCode::invalid);
  EXPECT_EQ(rig->copy(rig.d2h, host, host, 64, CopyKind::device_to_host), DeviceCode::invalid);
  EXPECT_EQ(rig->copy(rig.d2h, device, host, 64, CopyKind::device_to_device), DeviceCode::invalid);
  EXPECT_NE(rig->last_error(), "");
}

// ---- any schedule that is possible ----

/// Random work on some streams with random waits; who must come before whom is remembered.
struct RandomWork {
  std::vector<std::vector<std::int64_t>> by_stream;
  std::vector<std::pair<std::int64_t, std::int64_t>> ordered;  // (earlier, later) over events
};

RandomWork submit_random(const SimRig& rig, std::uint32_t seed) {
  std::mt19937 random(seed);
  const std::vector<StreamHandle> streams = {rig.compute, rig.send, rig.d2h, rig.h2d};
  const Address device = rig.plain(1_MiB), host = rig.pinned(1_MiB);
  RandomWork work;
  work.by_stream.resize(streams.size());
  std::vector<EventHandle> events;
  for (int i = 0; i < 5; ++i) events.push_back(rig.event());
  std::vector<std::int64_t> recorded_after(events.size(), -1);

  for (std::int64_t id = 0; id < 60; ++id) {
    const std::size_t s = random() % streams.size(), e = random() % events.size();
    if (random() % 3 == 0 && !work.by_stream[s].empty()) {
      EXPECT_EQ(rig->record_event(events[e], streams[s]), DeviceCode::ok);
      recorded_after[e] = work.by_stream[s].back();
    }
    if (random() % 3 == 0) {
      const std::size_t other = random() % events.size();
      EXPECT_EQ(rig->wait_event(streams[s], events[other]), DeviceCode::ok);
      if (recorded_after[other] >= 0) work.ordered.emplace_back(recorded_after[other], id);
    }
    if (streams[s] == rig.d2h) {
      rig.copy_out(rig.d2h, host, device, 1 + static_cast<Bytes>(random() % 5000), id);
    } else {
      rig.work(streams[s], id, static_cast<std::int64_t>(random() % 5000));
    }
    work.by_stream[s].push_back(id);
  }
  return work;
}

TEST(SimSchedules, StreamOrderAndEventsHoldUnderEverySeed) {
  std::set<std::vector<std::int64_t>> orders;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    SimOptions options = slow_links();
    options.check_races = false;
    const SimRig rig(options, {.seed = seed, .stall_ns = 20'000});
    const RandomWork work = submit_random(rig, static_cast<std::uint32_t>(seed / 50));
    rig.finish();
    std::vector<std::int64_t> order;
    std::map<std::int64_t, SimSpan> spans;
    for (const SimSpan& span : rig->take_timeline()) {
      spans[span.id] = span;
      order.push_back(span.id);
    }
    ASSERT_EQ(spans.size(), 60U);
    for (const auto& ids : work.by_stream)
      for (std::size_t i = 1; i < ids.size(); ++i) ASSERT_LE(spans.at(ids[i - 1]).end_ns, spans.at(ids[i]).start_ns);
    for (const auto& [earlier, later] : work.ordered)
      ASSERT_LE(spans.at(earlier).end_ns, spans.at(later).start_ns) << earlier << " before " << later;
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 250U);  // 6 programs: the seeds really make different executions
}

TEST(SimSchedules, SameSeedSameExecution) {
  const auto run = [](std::uint64_t seed) {
    const SimRig rig(slow_links(), {.seed = seed});
    (void)submit_random(rig, 3);
    rig.finish();
    std::vector<std::int64_t> ends;
    for (const SimSpan& span : rig->take_timeline()) ends.push_back(span.end_ns);
    return ends;
  };
  EXPECT_EQ(run(11), run(11));
  EXPECT_NE(run(11), run(12));
}

// ---- memory ----

TEST(SimMemoryOf, PeakCountsMappedAndPlainTogether) {
  SimOptions options;
  options.capacity_bytes = 64_MiB;
  const SimRig rig(options);
  const Address at = rig.mapped(32_MiB);
  const Address plain = rig.plain(16_MiB);
  Address none = 0;
  EXPECT_EQ(rig->allocate_plain(17_MiB, none), DeviceCode::out_of_memory);
  EXPECT_EQ(rig->free_plain(plain), DeviceCode::ok);
  EXPECT_EQ(rig->unmap(at, 4_MiB), DeviceCode::ok);
  const Address host = rig.pinned(3_MiB);
  SimStatistics statistics = rig->statistics();
  EXPECT_EQ(statistics.peak_device_bytes, 48_MiB);
  EXPECT_EQ(statistics.mapped_bytes, 28_MiB);
  EXPECT_EQ(statistics.plain_bytes, 0);
  EXPECT_EQ(statistics.pinned_bytes, 3_MiB);
  MemoryInfo info;
  EXPECT_EQ(rig->memory_info(info), DeviceCode::ok);
  EXPECT_EQ(info.total_bytes, 64_MiB);
  EXPECT_EQ(info.free_bytes, 36_MiB);
  rig->reset_statistics();
  EXPECT_EQ(rig->statistics().peak_device_bytes, 28_MiB);
  EXPECT_EQ(rig->free_pinned(host), DeviceCode::ok);
  EXPECT_EQ(rig->statistics().peak_pinned_bytes, 3_MiB);
}

TEST(SimMemoryOf, RefusesWhatHardwareWould) {
  const SimRig rig;
  Address base = 0;
  ASSERT_EQ(rig->reserve(8_MiB, base), DeviceCode::ok);
  EXPECT_EQ(rig->map(base + 1, 2_MiB), DeviceCode::invalid);
  EXPECT_EQ(rig->map(base, 1_MiB), DeviceCode::invalid);
  EXPECT_EQ(rig->map(base, 10_MiB), DeviceCode::invalid);
  EXPECT_EQ(rig->map(base, 4_MiB), DeviceCode::ok);
  EXPECT_EQ(rig->map(base + 2_MiB, 4_MiB), DeviceCode::invalid);  // partly mapped: nothing happens
  EXPECT_EQ(rig->statistics().mapped_bytes, 4_MiB);
  EXPECT_EQ(rig->unmap(base + 2_MiB, 4_MiB), DeviceCode::invalid);
  EXPECT_EQ(rig->release(base, 8_MiB), DeviceCode::invalid);
  EXPECT_EQ(rig->free_plain(base), DeviceCode::invalid);
  EXPECT_EQ(rig->unmap(base, 4_MiB), DeviceCode::ok);
  EXPECT_EQ(rig->release(base, 8_MiB), DeviceCode::ok);
  EXPECT_EQ(rig->destroy_event(EventHandle{7}), DeviceCode::invalid);
  EXPECT_EQ(rig->synchronize_stream(StreamHandle{99}), DeviceCode::invalid);
}

TEST(SimMemoryOf, CapabilitiesCanBeTakenAway) {
  SimOptions options;
  options.mapping = false;
  options.event_limit = 2;
  options.pinned_capacity_bytes = 1_MiB;
  options.product = "some accelerator";
  const SimRig rig(options);
  EXPECT_FALSE(rig->traits().mapping);
  EXPECT_FALSE(rig->traits().aliasing);
  EXPECT_TRUE(rig->traits().simulated);
  EXPECT_FALSE(rig->traits().has_bytes);
  EXPECT_EQ(rig->traits().product, "some accelerator");
  Address at = 0;
  EXPECT_EQ(rig->reserve(2_MiB, at), DeviceCode::unsupported);
  EXPECT_EQ(rig->allocate_pinned(2_MiB, at), DeviceCode::out_of_memory);
  const EventHandle first = rig.event();
  (void)rig.event();
  EventHandle third{};
  EXPECT_EQ(rig->create_event(third), DeviceCode::no_resource);
  EXPECT_EQ(rig->destroy_event(first), DeviceCode::ok);
  EXPECT_EQ(rig->create_event(third), DeviceCode::ok);
}

TEST(SimMemoryOf, LeaksAreNamed) {
  auto device = make_sim_device();
  EXPECT_EQ(device->leaks(), "");
  Address at = 0;
  ASSERT_EQ(device->allocate_pinned(4096, at), DeviceCode::ok);
  EventHandle event{};
  ASSERT_EQ(device->create_event(event), DeviceCode::ok);
  EXPECT_EQ(device->leaks(), "1 pinned allocations of 4.00 KiB, 1 events");
  EXPECT_EQ(device->free_pinned(at), DeviceCode::ok);
  EXPECT_EQ(device->destroy_event(event), DeviceCode::ok);
  EXPECT_EQ(device->leaks(), "");
}

// ---- contents ----

TEST(SimContentsOf, FillCopyOutFreeCopyInCheck) {
  const SimRig rig;
  const Address device = rig.plain(1_MiB), host = rig.pinned(1_MiB);
  rig.work(rig.compute, 1, 10, {writes(device, 1_MiB, 77)}, true);
  rig.order(rig.compute, rig.d2h);
  rig.copy_out(rig.d2h, host, device, 1_MiB);
  rig.order(rig.d2h, rig.compute);
  rig.work(rig.compute, 2, 10, {writes(device, 1_MiB, 78)}, true);
  rig.order(rig.compute, rig.h2d);
  rig.copy_in(rig.h2d, device, host, 1_MiB);
  rig.order(rig.h2d, rig.compute);
  rig.work(rig.compute, 3, 10, {reads(device, 1_MiB, 77)}, true);
  rig.finish();
  EXPECT_EQ(rig.mismatches(), 0);
  rig.work(rig.compute, 4, 10, {reads(device, 1_MiB, 78)}, true);
  rig.finish();
  Mismatch first;
  EXPECT_EQ(rig->mismatches(first), 1);
  EXPECT_EQ(first.work_id, 4);
  EXPECT_EQ(first.address, device);
  EXPECT_EQ(first.expected_seed, 78U);
  EXPECT_EQ(rig->race_count(), 0);
}

TEST(SimContentsOf, ShiftedAndPartialContentsAreNoticed) {
  const SimRig rig;
  const Address at = rig.plain(8192), host = rig.pinned(8192);
  rig.work(rig.compute, 1, 1, {writes(at, 4096, 5)}, true);
  rig.work(rig.compute, 2, 1, {reads(at, 4096, 5)}, true);      // right
  rig.work(rig.compute, 3, 1, {reads(at, 2048, 5)}, true);      // right: the pattern's beginning
  rig.work(rig.compute, 4, 1, {reads(at + 8, 2048, 5)}, true);  // wrong: shifted
  rig.work(rig.compute, 5, 1, {reads(at, 4097, 5)}, true);      // wrong: one byte never written
  rig.order(rig.compute, rig.d2h);
  rig.copy_out(rig.d2h, host + 100, at, 4096);
  rig.order(rig.d2h, rig.h2d);
  rig.copy_in(rig.h2d, at + 4096, host + 100, 2000);
  rig.order(rig.h2d, rig.compute);
  rig.work(rig.compute, 6, 1, {reads(at + 4096, 2000, 5)}, true);  // right
  rig.finish();
  EXPECT_EQ(rig.mismatches(), 2);
}

TEST(SimContentsOf, ASourceThatChangesUnderACopyArrivesAsUnknown) {
  SimOptions options = slow_links();
  const SimRig rig(options);
  const Address at = rig.plain(4096), host = rig.pinned(4096);
  rig.work(rig.compute, 1, 1, {writes(at, 4096, 5)}, true);
  rig.order(rig.compute, rig.d2h);
  rig.copy_out(rig.d2h, host, at, 4096);                       // 1 .. 4097
  rig.work(rig.compute, 2, 100, {writes(at, 1024, 6)}, true);  // unordered, amid the copy
  rig.order(rig.d2h, rig.h2d);
  rig.order(rig.compute, rig.h2d);
  rig.copy_in(rig.h2d, at, host, 4096);
  rig.order(rig.h2d, rig.compute);
  rig.work(rig.compute, 3, 1, {reads(at + 1024, 0, 5)}, true);
  rig.finish();
  EXPECT_EQ(rig.mismatches(), 0);
  rig.work(rig.compute, 4, 1, {reads(at, 1024, 5)}, true);
  rig.work(rig.compute, 5, 1, {reads(at, 1024, 6)}, true);
  rig.finish();
  EXPECT_EQ(rig.mismatches(), 2);  // neither the old nor the new
  EXPECT_EQ(rig->race_count(), 1);
}

TEST(SimContentsOf, AliasesShowTheSameMemoryAndRemapCarriesIt) {
  const SimRig rig;
  const Address at = rig.mapped(4_MiB);
  Address other = 0;
  ASSERT_EQ(rig->reserve(8_MiB, other), DeviceCode::ok);
  rig.work(rig.compute, 1, 1, {writes(at, 4_MiB, 9)}, true);
  ASSERT_EQ(rig->alias(other, at, 4_MiB), DeviceCode::ok);
  EXPECT_EQ(rig->statistics().mapped_bytes, 4_MiB);  // counted once
  rig.work(rig.compute, 2, 1, {reads(other, 4_MiB, 9)}, true);
  rig.work(rig.compute, 3, 1, {writes(other, 4_MiB, 10)}, true);
  rig.work(rig.compute, 4, 1, {reads(at, 4_MiB, 10)}, true);
  rig.finish();
  ASSERT_EQ(rig->unmap(at, 4_MiB), DeviceCode::ok);
  EXPECT_EQ(rig->statistics().mapped_bytes, 4_MiB);  // the alias keeps it
  ASSERT_EQ(rig->map(at, 2_MiB), DeviceCode::ok);    // new memory at the old address
  rig.work(rig.compute, 5, 1, {writes(at, 2_MiB, 11), reads(other, 4_MiB, 10)}, true);
  rig.finish();
  ASSERT_EQ(rig->remap(other + 4_MiB, other + 2_MiB, 2_MiB), DeviceCode::ok);
  EXPECT_EQ(rig->unmap(other + 2_MiB, 2_MiB), DeviceCode::invalid);  // moved away
  ASSERT_EQ(rig->remap(other + 6_MiB, at, 2_MiB), DeviceCode::ok);
  rig.work(rig.compute, 6, 1, {reads(other + 6_MiB, 2_MiB, 11), reads(other, 2_MiB, 10)}, true);
  rig.finish();
  EXPECT_EQ(rig.mismatches(), 0);
  EXPECT_EQ(rig->race_count(), 0);
  EXPECT_EQ(rig->statistics().mapped_bytes, 6_MiB);
  ASSERT_EQ(rig->unmap(other, 2_MiB), DeviceCode::ok);
  ASSERT_EQ(rig->unmap(other + 4_MiB, 4_MiB), DeviceCode::ok);
  EXPECT_EQ(rig->statistics().mapped_bytes, 0);
  EXPECT_EQ(rig->release(other, 8_MiB), DeviceCode::ok);
}

// Page tables against a plain model: address granule -> number of a memory granule.
TEST(SimContentsOf, RandomMappingAgreesWithAModel) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    constexpr std::size_t kGranules = 12;
    const SimRig rig;
    Address base = 0;
    ASSERT_EQ(rig->reserve(kGranules * 2_MiB, base), DeviceCode::ok);
    std::vector<int> behind(kGranules, -1);
    std::map<int, std::uint64_t> holds;
    int next = 0;
    const auto at = [&](std::size_t granule) { return base + granule * static_cast<Address>(2_MiB); };
    const auto all = [&](std::size_t from, std::size_t count, bool mapped) {
      for (std::size_t i = from; i < from + count; ++i)
        if ((behind[i] >= 0) != mapped) return false;
      return true;
    };
    for (int step = 0; step < 120; ++step) {
      const std::size_t count = 1 + random() % 3;
      const std::size_t from = random() % (kGranules - count + 1), to = random() % (kGranules - count + 1);
      const Bytes bytes = static_cast<Bytes>(count) * 2_MiB;
      const auto expect = [&](bool fits) { return fits ? DeviceCode::ok : DeviceCode::invalid; };
      switch (random() % 5) {
        case 0: {
          const bool fits = all(to, count, false);
          ASSERT_EQ(rig->map(at(to), bytes), expect(fits));
          for (std::size_t i = 0; fits && i < count; ++i) behind[to + i] = next++;
          break;
        }
        case 1: {
          const bool fits = all(from, count, true);
          ASSERT_EQ(rig->unmap(at(from), bytes), expect(fits));
          for (std::size_t i = 0; fits && i < count; ++i) behind[from + i] = -1;
          break;
        }
        case 2: {
          const bool fits = all(from, count, true) && all(to, count, false);
          ASSERT_EQ(rig->alias(at(to), at(from), bytes), expect(fits));
          for (std::size_t i = 0; fits && i < count; ++i) behind[to + i] = behind[from + i];
          break;
        }
        case 3: {
          const bool fits = all(from, count, true) && all(to, count, false);
          ASSERT_EQ(rig->remap(at(to), at(from), bytes), expect(fits));
          for (std::size_t i = 0; fits && i < count; ++i) behind[to + i] = std::exchange(behind[from + i], -1);
          break;
        }
        default:
          if (behind[to] < 0) break;
          holds[behind[to]] = static_cast<std::uint64_t>(step) + 1;
          rig.work(rig.compute, step, 1, {writes(at(to), 2_MiB, static_cast<std::uint64_t>(step) + 1)}, true);
          rig.finish();
      }
      std::set<int> live;
      for (std::size_t i = 0; i < kGranules; ++i) {
        if (behind[i] < 0) continue;
        live.insert(behind[i]);
        if (holds.contains(behind[i])) rig.work(rig.compute, 1000, 1, {reads(at(i), 2_MiB, holds[behind[i]])}, true);
      }
      rig.finish();
      ASSERT_EQ(rig->statistics().mapped_bytes, static_cast<Bytes>(live.size()) * 2_MiB);
      ASSERT_EQ(rig.mismatches(), 0);
      ASSERT_EQ(rig->race_count(), 0);
    }
  }
}

TEST(SimContentsOf, UnmappedMemoryHoldsNothingAndIsReported) {
  const SimRig rig;
  const Address at = rig.mapped(4_MiB);
  rig.work(rig.compute, 1, 1, {writes(at, 4_MiB, 9)}, true);
  rig.finish();
  ASSERT_EQ(rig->unmap(at + 2_MiB, 2_MiB), DeviceCode::ok);
  rig.work(rig.compute, 2, 1, {reads(at, 4_MiB, 9)}, true);
  rig.finish();
  EXPECT_EQ(rig.mismatches(), 1);
  ASSERT_EQ(rig->race_count(), 1);
  EXPECT_EQ(rig->races()[0].kind, RaceReport::Kind::not_allocated);
  EXPECT_EQ(rig->races()[0].begin, at + 2_MiB);
  ASSERT_EQ(rig->map(at + 2_MiB, 2_MiB), DeviceCode::ok);  // fresh memory: the old contents do not come back
  rig.work(rig.compute, 3, 1, {reads(at, 2_MiB, 9)}, true);
  rig.work(rig.compute, 4, 1, {reads(at, 4_MiB, 9)}, true);
  rig.finish();
  EXPECT_EQ(rig.mismatches(), 2);
}

// The number of the memory behind an address that lost it may still be in use: behind its other address.
void expect_all_stale(const SimRig& rig, Address stale, const std::string& freed_by) {
  rig->clear_races();
  rig.work(rig.compute, 1, 10, {writes(stale, 2_MiB)});
  rig.copy_in(rig.h2d, stale + 4096, rig.pinned(4096), 4096, 2);
  rig->host_access(stale, 4096, AccessKind::read, "look");
  EXPECT_EQ(rig->race_count(), 3);
  for (const RaceReport& report : rig->races()) {
    EXPECT_EQ(report.kind, RaceReport::Kind::not_allocated) << to_string(report);
    EXPECT_EQ(report.earlier.what, freed_by) << to_string(report);
    EXPECT_EQ(report.earlier.begin, stale);
  }
}

TEST(SimMemoryOf, AnAddressThatWasRemappedIsStale) {
  const SimRig rig;
  const Address a = rig.mapped(2_MiB);
  Address b = 0;
  ASSERT_EQ(rig->reserve(2_MiB, b), DeviceCode::ok);
  ASSERT_EQ(rig->remap(b, a, 2_MiB), DeviceCode::ok);
  expect_all_stale(rig, a, "remap");
  rig->clear_races();
  rig.work(rig.send, 1, 10, {writes(b, 2_MiB)});  // nothing touched it through `a`
  EXPECT_EQ(rig->race_count(), 0);
}

TEST(SimMemoryOf, AnAddressUnmappedWhileItsAliasLivesIsStale) {
  const SimRig rig;
  const Address a = rig.mapped(2_MiB);
  Address b = 0;
  ASSERT_EQ(rig->reserve(2_MiB, b), DeviceCode::ok);
  ASSERT_EQ(rig->alias(b, a, 2_MiB), DeviceCode::ok);
  ASSERT_EQ(rig->unmap(a, 2_MiB), DeviceCode::ok);
  expect_all_stale(rig, a, "unmap");
}

TEST(SimMemoryOf, SizesBeyondAnyCapacityAreRefused) {
  constexpr Bytes kMost = INT64_MAX;
  for (const Bytes pinned_capacity : {Bytes{0}, 1_GiB}) {
    SimOptions options;
    options.pinned_capacity_bytes = pinned_capacity;
    const SimRig rig(options);
    const Address plain = rig.plain(4096), pinned = rig.pinned(4096);
    Address at = 0;
    EXPECT_EQ(rig->allocate_plain(kMost, at), DeviceCode::out_of_memory);
    EXPECT_EQ(rig->allocate_pinned(kMost, at), DeviceCode::out_of_memory);
    EXPECT_EQ(rig->reserve(kMost / 2_MiB * 2_MiB, at), DeviceCode::out_of_memory);
    const Address base = rig.mapped(4_MiB);
    EXPECT_EQ(rig->map(base, kMost / 2_MiB * 2_MiB), DeviceCode::invalid);
    EXPECT_EQ(rig->statistics().plain_bytes, 4096);
    EXPECT_EQ(rig->statistics().pinned_bytes, 4096);
    EXPECT_EQ(rig->free_plain(plain), DeviceCode::ok);
    EXPECT_EQ(rig->free_pinned(pinned), DeviceCode::ok);
  }
  SimOptions endless;
  endless.capacity_bytes = kMost;
  const SimRig rig(endless);
  Address at = 0;
  EXPECT_EQ(rig->allocate_plain(kMost - 1, at), DeviceCode::out_of_memory);  // no addresses for it
  rig.copy_out(rig.d2h, rig.pinned(4096), rig.plain(4096), 4096);            // the spaces are apart as before
}

}  // namespace
}  // namespace tidemark
