#include "planner/layout/lay_out.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tidemark::layout {
namespace {

constexpr Bytes kAlignment = 512;

Residency device(Bytes bytes, std::int32_t acquire, std::int32_t release) {
  return {.storage = id_of<StorageId>(0), .bytes = bytes, .acquire = acquire, .release = release};
}

Residency host(Bytes bytes, std::int32_t acquire, std::int32_t release) {
  Residency residency = device(bytes, acquire, release);
  residency.space = MemorySpace::host;
  return residency;
}

TEST(LayOut, PutsWhatLivesAllStepLowest) {
  Schedule schedule;
  schedule.compute_tasks = 10;
  schedule.residencies = {device(1000, 2, 7), device(300, 0, 20), device(4000, 7, 9), device(100, 0, 21)};
  const Layout layout = lay_out(schedule, 1 << 20, 1 << 20, kAlignment);
  EXPECT_EQ(layout.offset_of, (std::vector<Bytes>{1024, 0, 1024, 512}));
  EXPECT_EQ(layout.arenas[0].height_bytes, 1024 + 4096);
  EXPECT_EQ(layout.device_load_bytes, 1024 + 4096);
  EXPECT_FALSE(layout.packer.empty());
}

/// Temporaries, and gradients that stay from somewhere in the second half on.
Schedule step_with_gradients(std::mt19937& random) {
  const auto between = [&](std::int32_t least, std::int32_t most) {
    return std::uniform_int_distribution<std::int32_t>(least, most)(random);
  };
  Schedule schedule;
  schedule.compute_tasks = 40;
  for (int n = 0; n < 30; ++n) {
    const std::int32_t acquire = between(0, 70);
    schedule.residencies.push_back(device(between(1, 8) * kAlignment, acquire, between(acquire + 1, 80)));
  }
  for (int n = 0; n < 8; ++n) {
    Residency gradient = device(between(1, 4) * kAlignment, between(40, 78), 80);
    gradient.full_behind = true;
    schedule.residencies.push_back(gradient);
  }
  std::ranges::shuffle(schedule.residencies, random);
  return schedule;
}

/// Whether gradients lie from 0 on in the order in which they are made.
bool is_piled_up(const Schedule& schedule, const Layout& layout) {
  std::vector<std::size_t> rows;
  for (std::size_t r = 0; r < schedule.residencies.size(); ++r)
    if (schedule.residencies[r].full_behind) rows.push_back(r);
  std::ranges::stable_sort(rows, {}, [&](std::size_t r) { return schedule.residencies[r].acquire; });
  Bytes top = 0;
  for (const std::size_t r : rows) {
    if (layout.offset_of[r] != top) return false;
    top += schedule.residencies[r].bytes;
  }
  return true;
}

TEST(LayOut, PilesUpWhatTheStepLeavesBehindWhereThatCostsNoHeight) {
  std::mt19937 random(7);
  int piled = 0;
  constexpr int kSteps = 200;
  for (int n = 0; n < kSteps; ++n) {
    Schedule schedule = step_with_gradients(random);
    const Layout layout = lay_out(schedule, 1 << 20, 1 << 20, kAlignment);
    Schedule without = schedule;
    for (Residency& one : without.residencies) one.full_behind = false;
    const Layout lowest = lay_out(without, 1 << 20, 1 << 20, kAlignment);
    EXPECT_EQ(layout.device_load_bytes, lowest.device_load_bytes);
    const Bytes enough = layout.device_load_bytes + layout.device_load_bytes / 54;
    EXPECT_LE(layout.arenas[0].height_bytes, std::max(enough, lowest.arenas[0].height_bytes));
    const Bytes room = lowest.arenas[0].height_bytes;
    EXPECT_EQ(lay_out(schedule, room, 1 << 20, kAlignment).arenas[0].height_bytes <= room,
              lay_out(without, room, 1 << 20, kAlignment).arenas[0].height_bytes <= room);
    piled += is_piled_up(schedule, layout) ? 1 : 0;
    const Layout loose = lay_out(
        schedule,
        {.arenas = device_and_host(layout.device_load_bytes + 100, 1 << 20, 1), .arena_of = {}, .work = 20'000});
    for (const Bytes offset : loose.offset_of) EXPECT_EQ(offset % kAlignment, 0) << "as all sizes are multiples of it";
  }
  EXPECT_GT(piled, kSteps / 4);
  EXPECT_LT(piled, kSteps);  // some would be higher
}

TEST(LayOut, SeparatesDeviceFromHost) {
  Schedule schedule;
  schedule.compute_tasks = 10;
  schedule.residencies = {device(1000, 2, 7), host(2000, 1, 20), host(3000, 0, 20)};
  const Layout layout = lay_out(schedule, 5000, 9000, kAlignment);
  ASSERT_EQ(layout.arenas.size(), 2U);
  EXPECT_EQ(layout.arenas[0].space, MemorySpace::device);
  EXPECT_EQ(layout.arenas[1].space, MemorySpace::host);
  EXPECT_EQ(layout.arenas[1].kind, Arena::Kind::pinned);
  EXPECT_EQ(layout.arena_of, (std::vector<ArenaId>{id_of<ArenaId>(0), id_of<ArenaId>(1), id_of<ArenaId>(1)}));
  EXPECT_EQ(layout.arenas[0].height_bytes, 1024);
  EXPECT_EQ(layout.arenas[1].height_bytes, 2048 + 3072);
  EXPECT_EQ(layout.arenas[0].capacity_bytes, 5000);
  EXPECT_EQ(layout.arenas[1].capacity_bytes, 9000);
}

TEST(LayOut, PacksEachArenaOnItsOwn) {
  Schedule schedule;
  schedule.compute_tasks = 10;
  schedule.residencies = {device(1000, 2, 7), device(700, 0, 20), device(500, 3, 9),
                          device(600, 9, 12), host(800, 1, 20),   device(300, 0, 21)};
  const std::vector<Arena> arenas = {
      {.space = MemorySpace::device, .kind = Arena::Kind::mapped, .capacity_bytes = 9000, .alignment_bytes = 512},
      {.space = MemorySpace::host, .kind = Arena::Kind::pinned, .capacity_bytes = 900, .alignment_bytes = 64},
      {.space = MemorySpace::device, .kind = Arena::Kind::plain, .capacity_bytes = 4000, .alignment_bytes = 256}};
  const auto arena_of = [&](ResidencyId r) -> std::size_t {
    if (schedule.residencies[row(r)].space == MemorySpace::host) return 1;
    return row(r) == 1 || row(r) == 2 || row(r) == 3 ? 2 : 0;
  };
  const Layout layout = lay_out(schedule, {.arenas = arenas, .arena_of = arena_of});
  ASSERT_EQ(layout.arenas.size(), 3U);
  EXPECT_EQ(layout.arenas[0].height_bytes, 512 + 1024);
  EXPECT_EQ(layout.arenas[1].height_bytes, 832);
  EXPECT_EQ(layout.arenas[2].height_bytes, 768 + 768);  // 500 and 600 follow each other above what lives all step
  EXPECT_EQ(layout.offset_of, (std::vector<Bytes>{512, 0, 768, 768, 0, 0}));
  for (std::size_t a = 0; a < 3; ++a) {
    EXPECT_EQ(layout.arenas[a].kind, arenas[a].kind);
    EXPECT_EQ(layout.arenas[a].alignment_bytes, arenas[a].alignment_bytes);
  }
  EXPECT_EQ(layout.device_load_bytes, 512 + 1024);
  // Without a function the first of each space takes all of it.
  const Layout usual = lay_out(schedule, {.arenas = arenas, .arena_of = {}});
  EXPECT_EQ(usual.arenas[2].height_bytes, 0);
  EXPECT_EQ(usual.arena_of[2], id_of<ArenaId>(0));
}

TEST(LayOut, ReportsAHeightBeyondTheCapacity) {
  Schedule schedule;
  schedule.compute_tasks = 4;
  schedule.residencies = {device(1 << 20, 0, 3)};
  EXPECT_EQ(lay_out(schedule, 4096, 0, kAlignment).arenas[0].height_bytes, 1 << 20);
}

TEST(LayOut, AnEmptyScheduleNeedsNothing) {
  const Layout layout = lay_out(Schedule{}, 4096, 4096, kAlignment);
  EXPECT_EQ(layout.arenas[0].height_bytes, 0);
  EXPECT_EQ(layout.device_load_bytes, 0);
}

}  // namespace
}  // namespace tidemark::layout
