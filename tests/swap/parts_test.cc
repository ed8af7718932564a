// The parts of the executor alone: granules in the order of the clock, streams for the p2p lane, spare host pieces.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "core/dynamic_region.h"
#include "core/spare_host.h"
#include "device/host_device.h"
#include "swap/arena_memory.h"
#include "swap/bound_program.h"
#include "swap/dynamic_region.h"
#include "swap/granule_pool.h"
#include "swap/plan_gaps.h"
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
      std::vector<GranulePool::Run> runs, unused;
      ASSERT_TRUE(pool.take(s.granules, s.acquire, s.release, runs));
      for (const GranulePool::Run& run : runs)
        for (std::int64_t g = run.granules.first; g < run.granules.first + run.granules.count; ++g) {
          ASSERT_LE(free_from[static_cast<std::size_t>(g)], s.acquire);
          free_from[static_cast<std::size_t>(g)] = s.release;
        }
      pool.give_back(runs, s.release);
      refused = refused || !tight.take(s.granules, s.acquire, s.release, unused);
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

TEST(GranulePool, ThePeakIsThatOfTheStep) {
  GranulePool pool(0, 8);
  std::vector<GranulePool::Run> taken;
  ASSERT_TRUE(pool.take(5, 0, 4, taken));
  pool.give_back(taken, 4);
  EXPECT_EQ(pool.peak(), 5);
  pool.restart();
  EXPECT_EQ(pool.peak(), 0);
  taken.clear();
  ASSERT_TRUE(pool.take(2, 0, 4, taken));
  EXPECT_EQ(pool.peak(), 2);
}

/// What is lent goes first, the soonest wanted again before the others, and never to who needs it longer.
TEST(GranulePool, WhatIsLentGoesFirst) {
  GranulePool pool(0, 2);
  pool.lend({.first = 10, .count = 2}, 0, 6);
  pool.lend({.first = 20, .count = 2}, 0, 9);
  pool.lend({.first = 30, .count = 1}, 5, 20);
  using Run = GranulePool::Run;
  std::vector<Run> taken;
  ASSERT_TRUE(pool.take(3, 1, 5, taken));
  EXPECT_EQ(taken, (std::vector<Run>{{.granules = {.first = 10, .count = 2}, .until = 6},
                                     {.granules = {.first = 20, .count = 1}, .until = 9}}));
  EXPECT_EQ(pool.in_use(), 0);
  EXPECT_EQ(pool.available(1, 10), 2) << "of those always free";
  EXPECT_EQ(pool.available(5, 10), 3) << "and what is lent from half-step 5";
  EXPECT_FALSE(pool.take(4, 5, 10, taken));
  taken.clear();
  ASSERT_TRUE(pool.take(3, 6, 10, taken));
  EXPECT_EQ(pool.in_use(), 2);
}

/// Against an obvious model: whoever has a granule has it alone, for as long as he asked, and only while it is free.
TEST(GranulePool, NobodySharesAGranule) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    struct Free {
      std::int32_t from = 0, until = GranulePool::kAlways;
    };
    std::map<std::int64_t, std::vector<Free>> free;
    std::map<std::int64_t, std::int32_t> held_until;
    GranulePool pool(0, 6);
    for (std::int64_t g = 0; g < 6; ++g) free[g].push_back({});
    for (std::int32_t now = 0; now < 60; ++now) {
      if (random() % 3 == 0) {
        const std::int64_t first = 100 + 10 * now;
        const auto count = static_cast<std::int64_t>(1 + random() % 3);
        const auto from = now + static_cast<std::int32_t>(random() % 4);
        const auto until = from + static_cast<std::int32_t>(1 + random() % 12);
        pool.lend({.first = first, .count = count}, from, until);
        for (std::int64_t g = first; g < first + count; ++g) free[g].push_back({.from = from, .until = until});
      }
      const auto until = now + static_cast<std::int32_t>(1 + random() % 8);
      const auto wanted = static_cast<std::int64_t>(1 + random() % 4);
      std::int64_t there = 0;
      for (const auto& [g, times] : free)
        for (const Free& time : times) there += time.from <= now && time.until >= until && held_until[g] <= now ? 1 : 0;
      std::vector<GranulePool::Run> taken;
      EXPECT_EQ(pool.available(now, until), there);
      ASSERT_EQ(pool.take(wanted, now, until, taken), there >= wanted);
      for (const GranulePool::Run& run : taken)
        for (std::int64_t g = run.granules.first; g < run.granules.first + run.granules.count; ++g) {
          ASSERT_LE(held_until[g], now) << "granule " << g;
          held_until[g] = until;
        }
      pool.give_back(taken, until);
    }
  }
}

/// Against every unit at every half-step.
TEST(PlanGaps, AreWhatNoResidencyTouches) {
  std::mt19937 random(11);
  constexpr Bytes kUnit = 8;
  for (int round = 0; round < 300; ++round) {
    Program program;
    program.layout.arenas = {{.capacity_bytes = 100, .height_bytes = 80}};
    std::vector<std::vector<char>> busy(10, std::vector<char>(31, 0));
    for (int i = 0; i < 12; ++i) {
      Residency r{.bytes = static_cast<Bytes>(1 + random() % 30), .acquire = static_cast<std::int32_t>(random() % 28)};
      r.release = std::min(30, r.acquire + static_cast<std::int32_t>(1 + random() % 8));
      const auto offset = static_cast<Bytes>(random() % static_cast<unsigned>(80 - r.bytes));
      bool free = true;
      const auto each = [&](const auto& what) {
        for (Bytes u = offset / kUnit; u <= (offset + r.bytes - 1) / kUnit; ++u)
          for (std::int32_t t = r.acquire; t < r.release; ++t)
            what(busy[static_cast<std::size_t>(u)][static_cast<std::size_t>(t)]);
      };
      each([&](char& b) { free = free && b == 0; });
      if (!free) continue;
      each([](char& b) { b = 1; });
      program.schedule.residencies.push_back(r);
      program.layout.offset_of.push_back(offset);
      program.layout.arena_of.push_back(id_of<ArenaId>(0));
    }
    std::vector<std::vector<char>> empty(10, std::vector<char>(31, 0));
    for (const PlanGap& gap : plan_gaps(program, id_of<ArenaId>(0), kUnit))
      for (std::int64_t u = gap.units.first; u < gap.units.first + gap.units.count; ++u)
        for (std::int32_t t = gap.from; t < std::min(30, gap.until); ++t) {
          char& e = empty[static_cast<std::size_t>(u)][static_cast<std::size_t>(t)];
          EXPECT_EQ(e, 0) << "two gaps for one unit at one time";
          e = 1;
        }
    for (std::size_t u = 0; u < 10; ++u)
      for (std::size_t t = 0; t < 30; ++t) EXPECT_EQ(empty[u][t] != 0, busy[u][t] == 0) << u << ", " << t;
  }
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

Program with_region(Bytes height, Bytes region) {
  Program program;
  program.layout.arenas = {{.capacity_bytes = 80 * kMiB, .height_bytes = height, .dynamic_bytes = region}};
  return program;
}

/// A storage of the plan, so that it stands in no gap.
void add_storage(Program& program, Bytes offset, Bytes bytes, std::int32_t acquire, std::int32_t release) {
  program.schedule.residencies.push_back({.bytes = bytes, .acquire = acquire, .release = release});
  program.layout.offset_of.push_back(offset);
  program.layout.arena_of.push_back(id_of<ArenaId>(0));
}

Status take_arena(ArenaMemory& memory, const Program& program, Bytes pad = 0) {
  const Arena& arena = program.layout.arenas.front();
  return memory.take({{.mapped = true,
                       .bytes = arena.height_bytes + pad,
                       .region_begin = arena.height_bytes + pad,
                       .region_end = arena.height_bytes + arena.dynamic_bytes + pad}},
                     "test");
}

/// The granule with the tail pad has memory already, wherever the height ends.
TEST(DynamicRegion, MapsNoGranuleTwiceBehindATailPad) {
  for (const Bytes height : {8 * kMiB, 8 * kMiB - 32, 8 * kMiB - 512, 8 * kMiB + 512}) {
    const std::unique_ptr<SimDevice> device = make_sim_device({.capacity_bytes = 64 * kMiB, .tail_pad_bytes = 32});
    Program program = with_region(height, 24 * kMiB - height);
    add_storage(program, 0, height, 0, 8);
    {
      ArenaMemory memory(*device);
      ASSERT_TRUE(take_arena(memory, program, 32).ok());
      DynamicRegion region(*device, memory, program, id_of<ArenaId>(0), 1);
      region.restart();
      RoutedWindow window;
      EXPECT_EQ(region.take({.offset = 0, .bytes = 2 * kMiB, .acquire = 0, .release = 8}, 15 * kMiB, 0, window),
                DynamicRegion::Taken::ok)
          << height << ": " << device->last_error();
    }
    EXPECT_EQ(device->leaks(), "");
  }
}

/// A window of a slot, of what stands empty by the plan and of the region: its bytes are those of the arena's granules.
TEST(DynamicRegion, AWindowIsMadeOfWhatIsFreeLongEnough) {
  const Result<std::unique_ptr<Device>> device = open_host_device({.capacity_bytes = 64 * kMiB});
  ASSERT_TRUE(device.ok()) << device.error().message;
  Program program = with_region(16 * kMiB, 4 * kMiB);
  add_storage(program, 0, 6 * kMiB, 0, 10);         // granules 0 to 2; the slot is 1 and 2 of it
  add_storage(program, 6 * kMiB, 2 * kMiB, 4, 10);  // granule 3 stands empty until 4, too short
  add_storage(program, 8 * kMiB, 2 * kMiB, 6, 10);  // granule 4 until 6
  add_storage(program, 10 * kMiB, 6 * kMiB, 0, 10);
  const auto id = id_of<ArenaId>(0);
  ArenaMemory memory(*device.value());
  ASSERT_TRUE(take_arena(memory, program).ok());
  DynamicRegion region(*device.value(), memory, program, id, 1);
  ASSERT_TRUE(region.has_windows());
  region.restart();
  RoutedWindow window;
  const DynamicRegion::Slot slot{.offset = 2 * kMiB, .bytes = 4 * kMiB, .acquire = 0, .release = 6};
  ASSERT_EQ(region.take(slot, 8 * kMiB, 0, window), DynamicRegion::Taken::ok);
  EXPECT_EQ(window.extra_granules(), 2);
  EXPECT_EQ(window.bytes, 8 * kMiB);
  const std::array<std::int64_t, 4> granules{1, 2, 4, 8};
  for (std::size_t i = 0; i < granules.size(); ++i) {
    auto* bytes = reinterpret_cast<unsigned char*>(window.address) + i * static_cast<std::size_t>(2 * kMiB);
    std::memset(bytes, static_cast<int>(i + 1), static_cast<std::size_t>(2 * kMiB));
  }
  for (std::size_t i = 0; i < granules.size(); ++i) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(memory.at(id, granules[i] * 2 * kMiB));
    EXPECT_EQ(bytes[0], i + 1) << "granule " << granules[i];
    EXPECT_EQ(bytes[2 * kMiB - 1], i + 1) << "granule " << granules[i];
  }
  EXPECT_EQ(*reinterpret_cast<const unsigned char*>(memory.at(id, 6 * kMiB)), 0);
  RoutedWindow most;
  EXPECT_EQ(region.take(slot, 14 * kMiB, 0, most), DynamicRegion::Taken::no_room);
  ASSERT_EQ(region.take_most(slot, 14 * kMiB, 0, most), DynamicRegion::Taken::ok);
  EXPECT_EQ(most.bytes, 6 * kMiB) << "one granule of the region was left";
  region.give_back(most, 0);
  region.give_back(window, 2);
  region.lend({.offset = 0, .bytes = 6 * kMiB, .acquire = 2, .release = 10}, 2 * kMiB);
  EXPECT_EQ(region.take({.offset = 10 * kMiB, .bytes = 2 * kMiB, .acquire = 2, .release = 10}, 10 * kMiB, 2, window),
            DynamicRegion::Taken::ok)
      << "two of the region and two that a smaller storage lends";
}

/// Where no granule can be shown twice, or only coarser ones, nothing stands beside its slot.
TEST(DynamicRegion, WithoutAliasingThereAreNoWindows) {
  for (const SimOptions& options : {SimOptions{.capacity_bytes = kGiB, .aliasing = false},
                                    SimOptions{.capacity_bytes = kGiB, .granule_bytes = 4 * kMiB}}) {
    const std::unique_ptr<SimDevice> device = make_sim_device(options);
    const Program program = with_region(40 * kMiB, 40 * kMiB);
    ArenaMemory memory(*device);
    ASSERT_TRUE(take_arena(memory, program).ok());
    DynamicRegion region(*device, memory, program, id_of<ArenaId>(0), 1);
    region.restart();
    EXPECT_FALSE(region.has_windows());
    RoutedWindow window;
    const DynamicRegion::Slot slot{.offset = 0, .bytes = 2 * kMiB, .acquire = 0, .release = 8};
    EXPECT_EQ(region.take(slot, 3 * kMiB, 0, window), DynamicRegion::Taken::no_room);
    EXPECT_EQ(region.take_most(slot, 3 * kMiB, 0, window), DynamicRegion::Taken::no_room);
  }
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
