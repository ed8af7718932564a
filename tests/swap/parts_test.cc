// The parts of the executor alone: granules in the order of the clock, streams for the p2p lane, spare host pieces.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <random>
#include <set>

#include "core/dynamic_region.h"
#include "core/spare_host.h"
#include "device/host_device.h"
#include "swap/arena_memory.h"
#include "swap/bound_program.h"
#include "swap/dynamic_region.h"
#include "swap/granule_pool.h"
#include "swap/storage_versions.h"
#include "swap/stream_set.h"
#include "tests/support/planned_step.h"

namespace tidemark::swap {
namespace {

/// Stays taken in the order of the clock fit whenever at every half-step their sum does, and no granule has two owners.
TEST(GranulePool, NeverRefusesWhatFitsAtEveryHalfStep) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    struct Stay {
      std::int32_t acquire, release;
      std::int64_t granules;
    };
    std::vector<Stay> stays;
    for (int i = 0; i < 40; ++i) {
      const auto acquire = static_cast<std::int32_t>(random() % 100);
      stays.push_back(
          {acquire, acquire + 1 + static_cast<std::int32_t>(random() % 30), static_cast<std::int64_t>(random() % 9)});
    }
    std::sort(stays.begin(), stays.end(), [](const Stay& a, const Stay& b) { return a.acquire < b.acquire; });
    std::int64_t most = 0;
    for (std::int32_t t = 0; t < 140; ++t) {
      std::int64_t sum = 0;
      for (const Stay& s : stays) sum += s.acquire <= t && t < s.release ? s.granules : 0;
      most = std::max(most, sum);
    }
    GranulePool pool(10, most), tight(10, most - 1);
    std::vector<std::int32_t> free_from(static_cast<std::size_t>(most) + 10, 0);
    bool refused = most == 0;
    for (const Stay& s : stays) {
      std::vector<std::int64_t> granules, unused;
      ASSERT_TRUE(pool.take(s.granules, s.acquire, granules));
      for (const std::int64_t g : granules) {
        ASSERT_LE(free_from[static_cast<std::size_t>(g)], s.acquire);
        free_from[static_cast<std::size_t>(g)] = s.release;
      }
      pool.give_back(granules, s.release);
      refused = refused || !tight.take(s.granules, s.acquire, unused);
      tight.give_back(unused, s.release);
    }
    EXPECT_TRUE(refused) << "one granule less must not do";
  }
}

/// A wait that FIFO order or another wait implies is dropped.
TEST(TaskStreams, KeepsWhatIsNotImplied) {
  Schedule s;
  const auto task = [&](Lane lane, std::vector<std::int32_t> waits, std::vector<Schedule::Touch> touches) {
    s.tasks.push_back({.lane = lane,
                       .first_wait = static_cast<std::int32_t>(s.waits.size()),
                       .first_touch = static_cast<std::int32_t>(s.touches.size())});
    for (const std::int32_t wait : waits) s.waits.push_back(static_cast<TaskId>(wait));
    s.touches.insert(s.touches.end(), touches.begin(), touches.end());
  };
  const auto read = [](int r) { return Schedule::Touch{static_cast<ResidencyId>(r), AccessKind::read}; };
  task(Lane::compute, {}, {read(1)});         // 0
  task(Lane::send, {0}, {read(0)});           // 1
  task(Lane::receive, {}, {});                // 2
  task(Lane::compute, {1, 2}, {read(0)});     // 3
  task(Lane::send, {0, 3}, {read(1)});        // 4: task 0 is implied by its own lane and by task 3
  task(Lane::intra_comm, {}, {read(1)});      // 5: a read of what another lane reads orders nothing
  task(Lane::intra_comm, {2, 3}, {read(0)});  // 6: task 2 is implied by task 3
  s.residencies.resize(2);
  const TaskStreams streams = bind_streams(s);
  EXPECT_EQ(streams.stream[1], StreamRole::send);
  EXPECT_EQ(streams.stream[2], StreamRole::receive);
  const auto waits = [&](int t) {
    std::vector<int> list;
    for (const TaskId wait : streams.waits_of(static_cast<TaskId>(t))) list.push_back(static_cast<int>(wait));
    std::sort(list.begin(), list.end());
    return list;
  };
  EXPECT_EQ(waits(1), (std::vector<int>{0}));
  EXPECT_EQ(waits(3), (std::vector<int>{1, 2}));
  EXPECT_EQ(waits(4), (std::vector<int>{3}));
  EXPECT_TRUE(waits(5).empty());
  EXPECT_EQ(waits(6), (std::vector<int>{3}));
  EXPECT_EQ(streams.implied, 2);
}

TEST(SpareHost, DemandGrowsWithTheLoadAndFitsAtTheLimit) {
  testing::StepGenerator generator(51);
  for (int i = 0; i < 4; ++i) {
    const testing::PlannedStep step = generator.next_routed(1.1, 50);
    for (const plan::RankPlan& rank : step.outcome.ranks) {
      const double limit = rank.program.contingency_limit_f;
      EXPECT_LE(spare_host_demand(rank.program, limit), spare_host_room(rank.program.layout));
      EXPECT_LE(spare_host_demand(rank.program, limit), spare_host_demand(rank.program, 2 * limit));
      EXPECT_EQ(spare_host_demand(rank.program, 0), 0);
    }
  }
}

TEST(GranulePool, ThePeakIsThatOfTheStep) {
  GranulePool pool(0, 8);
  std::vector<std::int64_t> taken;
  ASSERT_TRUE(pool.take(5, 0, taken));
  pool.give_back(taken, 4);
  EXPECT_EQ(pool.peak(), 5);
  pool.restart();
  EXPECT_EQ(pool.peak(), 0);
  taken.clear();
  ASSERT_TRUE(pool.take(2, 0, taken));
  EXPECT_EQ(pool.peak(), 2);
}

TEST(StorageVersions, NoPatternComesBackInALaterStep) {
  StorageVersions versions(3);
  std::set<std::uint64_t> seeds;
  for (int step = 0; step < 20; ++step) {
    versions.restart();
    for (std::size_t s = 0; s < 50; ++s) {
      const auto storage = id_of<StorageId>(s);
      for (const std::int32_t version : {0, 1}) {
        versions.set(storage, version);
        EXPECT_TRUE(seeds.insert(versions.seed(storage)).second);
      }
    }
  }
}

/// A task may change a residency in place, and touch its neighbour, but not write it over another.
TEST(BoundProgram, RefusesATaskThatWritesOverWhatItReads) {
  Program program;
  program.layout.arenas.push_back({.capacity_bytes = 4096, .height_bytes = 4096});
  for (const std::int32_t storage : {0, 1}) {
    program.schedule.residencies.push_back({.storage = static_cast<StorageId>(storage),
                                            .bytes = 1024,
                                            .first_task = static_cast<TaskId>(0),
                                            .last_task = static_cast<TaskId>(0)});
    program.layout.arena_of.push_back(static_cast<ArenaId>(0));
    program.layout.offset_of.push_back(storage * Bytes{1024});
  }
  program.schedule.tasks.push_back({});
  program.schedule.touches = {{static_cast<ResidencyId>(0), AccessKind::read},
                              {static_cast<ResidencyId>(0), AccessKind::write},
                              {static_cast<ResidencyId>(1), AccessKind::read}};
  EXPECT_TRUE(bind_program(program, 1).ok());
  program.layout.offset_of[1] = 512;
  const Result<BoundProgram> bound = bind_program(program, 1);
  ASSERT_FALSE(bound.ok());
  EXPECT_NE(bound.error().message.find("task 0 writes residency 0 over residency 1"), std::string::npos);
}

/// Ops listed in another order than that of their numbers mean the same versions as ever.
TEST(StorageVersions, FollowTheNumbersOfOpsNotTheOrderOfSubmission) {
  Schedule s;
  const auto task = [&](TaskKind kind, std::int32_t op, std::vector<AccessKind> touches) {
    s.tasks.push_back(
        {.kind = kind, .op = static_cast<OpId>(op), .first_touch = static_cast<std::int32_t>(s.touches.size())});
    for (const AccessKind access : touches) s.touches.push_back({static_cast<ResidencyId>(0), access});
  };
  s.residencies.push_back({.storage = static_cast<StorageId>(0)});
  task(TaskKind::op, 2, {AccessKind::read});
  task(TaskKind::op, 0, {AccessKind::write});
  task(TaskKind::op, 1, {AccessKind::read, AccessKind::write});
  task(TaskKind::recompute, 2, {AccessKind::write});
  task(TaskKind::op, 3, {AccessKind::write});
  const TouchVersions versions = versions_of(s);
  EXPECT_EQ(versions.of_touch, (std::vector<std::int32_t>{2, 1, 1, 2, 2, 3}));
  EXPECT_EQ(versions.at_end, (std::vector<std::int32_t>{3}));
}

/// A record that fails gives its event back and leaves the caller's handle alone, so that nobody holds it twice.
TEST(StreamSet, AFailedRecordHandsOutNoEvent) {
  const std::unique_ptr<SimDevice> device =
      make_sim_device({.event_limit = 1,
                       .faults = {{.point = FaultPoint::record_event, .first_call = 2, .code = DeviceCode::copy_failed},
                                  {.point = FaultPoint::record_event, .first_call = 4, .code = DeviceCode::lost}}});
  {
    StreamSet streams(*device);
    ASSERT_EQ(streams.open(), DeviceCode::ok);
    EventHandle first{}, other{};
    ASSERT_EQ(streams.record(StreamRole::compute, first), DeviceCode::ok);
    streams.release(first);
    EXPECT_EQ(streams.record(StreamRole::d2h, other), DeviceCode::copy_failed);
    EXPECT_EQ(other, EventHandle{});
    EXPECT_EQ(streams.records(), 1);
    ASSERT_EQ(streams.record(StreamRole::h2d, other), DeviceCode::ok);
    EXPECT_EQ(other, first);
    streams.release(other);
    EventHandle after_loss{};
    EXPECT_EQ(streams.record(StreamRole::h2d, after_loss), DeviceCode::lost);
    EXPECT_EQ(after_loss, EventHandle{});
    EXPECT_EQ(streams.records(), 2);
  }
  EXPECT_EQ(device->leaks().find("event"), std::string::npos) << device->leaks();
}

/// Marks hold events, too: with more of them outstanding than the device has, the host waits for the oldest, and a wait
/// for one that has completed is no wait.
TEST(StreamSet, MoreMarksThanEventsAreWaitedFor) {
  const std::unique_ptr<SimDevice> device = make_sim_device({.event_limit = 2});
  {
    StreamSet streams(*device);
    ASSERT_EQ(streams.open(), DeviceCode::ok);
    streams.begin_step(0);
    std::vector<std::optional<StreamSet::Mark>> marks(5);
    for (auto& mark : marks) {
      ASSERT_EQ(streams.make_mark(StreamRole::d2h, mark), DeviceCode::ok);
      ASSERT_TRUE(mark.has_value());
    }
    EXPECT_EQ(streams.host_waits(), 3);
    for (auto& mark : marks) {
      EXPECT_EQ(streams.wait_mark(StreamRole::compute, mark), DeviceCode::ok);
      EXPECT_FALSE(mark.has_value());
    }
    EXPECT_EQ(streams.waits(), 2);
  }
  EXPECT_EQ(device->leaks(), "");
}

/// The granule with the tail pad has memory already, wherever the height ends.
TEST(DynamicRegion, MapsNoGranuleTwiceBehindATailPad) {
  for (const Bytes height : {8 * kMiB, 8 * kMiB - 32, 8 * kMiB - 512, 8 * kMiB + 512}) {
    const std::unique_ptr<SimDevice> device =
        make_sim_device({.capacity_bytes = 64 * kMiB, .tail_pad_bytes = 32, .aliasing = false});
    Arena arena{.space = MemorySpace::device, .kind = Arena::Kind::mapped, .capacity_bytes = 40 * kMiB};
    arena.alignment_bytes = 512;
    arena.height_bytes = height;
    arena.dynamic_bytes = 24 * kMiB - height;
    {
      ArenaMemory memory(*device);
      ASSERT_TRUE(
          memory
              .take({{.mapped = true, .bytes = height + 32, .region_begin = height + 32, .region_end = 24 * kMiB + 32}},
                    "test")
              .ok());
      DynamicRegion region(*device, memory, arena, id_of<ArenaId>(0), 1);
      OversizedStay stay;
      EXPECT_EQ(region.take(0, 2 * kMiB, 3 * kMiB, 0, {}, stay), DynamicRegion::Taken::ok)
          << height << ": " << device->last_error();
    }
    EXPECT_EQ(device->leaks(), "");
  }
}

/// A window of a slot, a hole of the plan and the dynamic region: its bytes are those of the arena's granules.
TEST(DynamicRegion, AWindowUsesTheHoleItWasGiven) {
  const Result<std::unique_ptr<Device>> device = open_host_device({.capacity_bytes = 64 * kMiB});
  ASSERT_TRUE(device.ok()) << device.error().message;
  Arena arena{.space = MemorySpace::device, .kind = Arena::Kind::mapped, .capacity_bytes = 40 * kMiB};
  arena.alignment_bytes = 512;
  arena.height_bytes = 16 * kMiB;
  arena.dynamic_bytes = 4 * kMiB;
  {
    const auto id = id_of<ArenaId>(0);
    ArenaMemory memory(*device.value());
    ASSERT_TRUE(memory
                    .take({{.mapped = true,
                            .bytes = arena.height_bytes,
                            .region_begin = arena.height_bytes,
                            .region_end = arena.height_bytes + arena.dynamic_bytes}},
                          "test")
                    .ok());
    DynamicRegion region(*device.value(), memory, arena, id, 1);
    ASSERT_TRUE(region.promises_limit());
    const std::array holes{GranuleRange{.first = 6, .count = 1}, GranuleRange{.first = 3, .count = 1}};
    OversizedStay stay;
    ASSERT_EQ(region.take(2 * kMiB, 4 * kMiB, 10 * kMiB, 0, holes, stay), DynamicRegion::Taken::ok);
    EXPECT_EQ(stay.extra_bytes, 2 * kMiB) << "two of the three granules beyond the slot are holes";
    ASSERT_EQ(stay.granules.size(), 1U);
    const std::array<std::int64_t, 5> granules{1, 2, 6, 3, stay.granules.front()};
    for (std::size_t i = 0; i < granules.size(); ++i) {
      auto* window = reinterpret_cast<unsigned char*>(stay.address) + i * static_cast<std::size_t>(2 * kMiB);
      std::memset(window, static_cast<int>(i + 1), static_cast<std::size_t>(2 * kMiB));
    }
    for (std::size_t i = 0; i < granules.size(); ++i) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(memory.at(id, granules[i] * 2 * kMiB));
      EXPECT_EQ(bytes[0], i + 1) << "granule " << granules[i];
      EXPECT_EQ(bytes[2 * kMiB - 1], i + 1) << "granule " << granules[i];
    }
    const auto* untouched = reinterpret_cast<const unsigned char*>(memory.at(id, 8 * kMiB));
    EXPECT_EQ(untouched[0], 0);
    region.give_back(stay, 2);
  }
}

/// Room for several at once is there exactly if one after the other gets it.
TEST(DynamicRegion, HasRoomForWhatItThenServes) {
  std::mt19937 random(6);
  int served = 0, refused = 0;
  for (int round = 0; round < 300; ++round) {
    const bool aliasing = round % 2 == 0;
    const std::unique_ptr<SimDevice> device = make_sim_device({.capacity_bytes = kGiB, .aliasing = aliasing});
    Arena arena{.space = MemorySpace::device, .kind = Arena::Kind::mapped, .capacity_bytes = 80 * kMiB};
    arena.alignment_bytes = 512;
    arena.height_bytes = 40 * kMiB;
    arena.dynamic_bytes = 40 * kMiB;
    ArenaMemory memory(*device);
    ASSERT_TRUE(memory
                    .take({{.mapped = true,
                            .bytes = arena.height_bytes,
                            .region_begin = arena.height_bytes,
                            .region_end = arena.height_bytes + arena.dynamic_bytes}},
                          "test")
                    .ok());
    DynamicRegion region(*device, memory, arena, id_of<ArenaId>(0), 1);
    const std::vector<GranuleRange> hole{{.first = 0, .count = 1}};
    for (std::int32_t t = 0; t < 10; ++t) {
      std::vector<DynamicRegion::Need> needs;
      for (auto n = random() % 3; n > 0; --n)
        needs.push_back({.slot_offset = static_cast<Bytes>(random() % 30) * kMiB,
                         .planned_bytes = 5 * kMiB,
                         .actual_bytes = (6 + static_cast<Bytes>(random() % 12)) * kMiB,
                         .holes = n % 2 == 0 ? std::span<const GranuleRange>(hole) : std::span<const GranuleRange>()});
      const bool room = region.has_room(needs, t);
      bool all = true;
      for (const DynamicRegion::Need& need : needs) {
        OversizedStay stay;
        all = all && region.take(need.slot_offset, need.planned_bytes, need.actual_bytes, t, need.holes, stay) ==
                         DynamicRegion::Taken::ok;
        if (all) region.give_back(stay, t + 1 + static_cast<std::int32_t>(random() % 4));
      }
      // In one piece there may be no room where there are bytes enough.
      EXPECT_TRUE(room == all || (!aliasing && room)) << "round " << round;
      ++(room ? served : refused);
    }
  }
  EXPECT_GT(served, 500);
  EXPECT_GT(refused, 100);
}

TEST(RoutedBytes, SaturateInsteadOfOverflowing) {
  const RoutedResidency routed{.fixed_bytes = 100, .rows = 8192, .row_bytes = 15360};
  EXPECT_EQ(routed_bytes(routed, 1), 100 + Bytes{8192} * 15360);
  EXPECT_EQ(routed_bytes(routed, 0), 100);
  for (const double load : {1e15, 1e300, std::numeric_limits<double>::infinity()})
    EXPECT_GT(routed_bytes(routed, load), Bytes{1} << 59) << load;
}

}  // namespace
}  // namespace tidemark::swap
