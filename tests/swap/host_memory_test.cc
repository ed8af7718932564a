// Pinned memory of a rank: arenas and blocks of one pool, in one piece or in several, below one bound.

#include "swap/host_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <random>

#include "core/spare_host.h"
#include "device/sim_device.h"
#include "swap/executor.h"
#include "tests/support/planned_step.h"
#include "tests/support/small_pinned_device.h"

namespace tidemark::swap {
namespace {

using testing::PlannedStep;
using testing::SmallPinnedDevice;

Bytes sum_of(std::span<const HostRange> ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), Bytes{0},
                         [](Bytes sum, const HostRange& range) { return sum + range.bytes; });
}

TEST(HostMemory, AnArenaIsOnePieceAndTheBoundIsTheirs) {
  const std::unique_ptr<SimDevice> device = make_sim_device({});
  {
    HostMemory memory(*device);
    const std::array<Bytes, 4> arenas{10'000, 0, 600 * kMiB, 3 * kMiB};
    ASSERT_EQ(memory.open(arenas, HostMemory::bytes_for(arenas)), DeviceCode::ok);
    EXPECT_TRUE(memory.has(id_of<ArenaId>(0)));
    EXPECT_FALSE(memory.has(id_of<ArenaId>(1)));
    const auto address_of = [&](std::size_t arena, Bytes offset, Bytes bytes) {
      const HostPiece piece{.arena = id_of<ArenaId>(arena), .offset = offset, .bytes = bytes};
      const auto ranges = memory.ranges_of({&piece, 1});
      EXPECT_EQ(ranges.size(), 1U);
      EXPECT_EQ(sum_of(ranges), bytes);
      return ranges.front().address;
    };
    EXPECT_EQ(address_of(0, 9'000, 1'000), address_of(0, 0, 10'000) + 9'000);
    EXPECT_EQ(address_of(2, 599 * kMiB, kMiB), address_of(2, 0, 600 * kMiB) + static_cast<Address>(599 * kMiB));
    EXPECT_EQ(device->statistics().pinned_bytes, 12'288 + 603 * kMiB);
    EXPECT_EQ(memory.statistics().held_bytes, device->statistics().pinned_bytes);
    HostBlock block;
    EXPECT_EQ(memory.take(1, block), DeviceCode::out_of_memory);
  }
  EXPECT_EQ(device->leaks(), "");
}

TEST(HostMemory, WhatIsLargerThanTheDeviceGivesIsCut) {
  const std::unique_ptr<SimDevice> sim = make_sim_device({});
  SmallPinnedDevice device(*sim, kMiB + 1'000);
  {
    HostMemory memory(device);
    const std::array<Bytes, 2> arenas{5 * kMiB + 8, 3 * kMiB};
    ASSERT_EQ(memory.open(arenas, HostMemory::bytes_for(arenas) + 4 * kMiB), DeviceCode::ok);
    for (const HostPiece piece : {HostPiece{.arena = id_of<ArenaId>(0), .offset = 0, .bytes = arenas[0]},
                                  HostPiece{.arena = id_of<ArenaId>(0), .offset = kMiB - 8, .bytes = 16},
                                  HostPiece{.arena = id_of<ArenaId>(0), .offset = 2 * kMiB, .bytes = 3 * kMiB},
                                  HostPiece{.arena = id_of<ArenaId>(1), .offset = kMiB, .bytes = 0}}) {
      const auto ranges = memory.ranges_of({&piece, 1});
      EXPECT_EQ(sum_of(ranges), piece.bytes);
      EXPECT_EQ(ranges.size(), static_cast<std::size_t>((piece.offset % kMiB + piece.bytes + kMiB - 1) / kMiB));
    }
    HostBlock block;
    ASSERT_EQ(memory.take(3 * kMiB, block), DeviceCode::ok);
    EXPECT_EQ(sum_of(memory.ranges_of(block)), 3 * kMiB);
    EXPECT_EQ(block.pieces.size(), 3U);
    memory.free(block);
  }
  EXPECT_EQ(device.largest_taken(), kMiB);
  EXPECT_EQ(sim->leaks(), "");
}

/// Whatever lies free serves, so long as no cut is small.
TEST(HostMemory, BlocksAreServedFromWhatLiesApart) {
  std::mt19937 random(3);
  const std::unique_ptr<SimDevice> device = make_sim_device({});
  constexpr Bytes kBound = 64 * kMiB;
  {
    HostMemory memory(*device);
    ASSERT_EQ(memory.open({}, kBound), DeviceCode::ok);
    std::vector<HostBlock> blocks;
    std::vector<Bytes> sizes;
    Bytes used = 0;
    int cut = 0;
    for (int i = 0; i < 4000; ++i) {
      if (!blocks.empty() && random() % 2 == 0) {
        const std::size_t which = random() % blocks.size();
        memory.free(blocks[which]);
        used -= sizes[which];
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(which));
        sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(which));
        continue;
      }
      const Bytes bytes = kHostPiece * (1 + static_cast<Bytes>(random() % 40));
      HostBlock block;
      const DeviceCode code = memory.take(bytes, block);
      ASSERT_EQ(code, used + bytes <= kBound ? DeviceCode::ok : DeviceCode::out_of_memory) << i;
      if (code != DeviceCode::ok) continue;
      const auto ranges = memory.ranges_of(block);
      ASSERT_EQ(sum_of(ranges), bytes);
      for (const HostRange& range : ranges) ASSERT_GE(range.bytes, kHostPiece);
      cut += ranges.size() > 1 ? 1 : 0;
      used += bytes;
      blocks.push_back(std::move(block));
      sizes.push_back(bytes);
    }
    EXPECT_GT(cut, 50);
    EXPECT_EQ(memory.statistics().used_bytes, used);
  }
  EXPECT_LE(device->statistics().peak_pinned_bytes, kBound);
  EXPECT_EQ(device->leaks(), "");
}

TEST(HostMemory, WithoutRoomForAnArenaBlocksAreServed) {
  const std::unique_ptr<SimDevice> device = make_sim_device({});
  HostMemory memory(*device);
  const std::array<Bytes, 1> arenas{8 * kMiB};
  EXPECT_EQ(memory.open(arenas, 7 * kMiB), DeviceCode::out_of_memory);
  EXPECT_FALSE(memory.has(id_of<ArenaId>(0)));
  EXPECT_EQ(device->statistics().pinned_bytes, 0) << "nothing is pinned for what cannot be whole";
  HostBlock block;
  EXPECT_EQ(memory.take(6 * kMiB, block), DeviceCode::ok);
}

/// Copies of what storages hold across the cuts, each byte checked.
TEST(HostMemory, StepsAreRightOnADeviceThatPinsLittleAtOnce) {
  testing::StepGenerator generator(21);
  std::int64_t cut = 0, copies = 0;
  for (int i = 0; i < 6; ++i) {
    const PlannedStep step = i % 2 == 0 ? generator.next() : generator.next_routed(1.1, 50);
    for (const plan::RankPlan& rank : step.outcome.ranks) {
      const std::unique_ptr<SimDevice> sim = make_sim_device(run::sim_options_for(rank, step.request.machine));
      SmallPinnedDevice device(*sim, 256 * kKiB);
      {
        const RunOptions options{.verify = true,
                                 .load = [](SiteId site) { return 0.8 + 0.1 * static_cast<double>(row(site) % 8); }};
        const auto executor = Executor::open(rank.program, device, options);
        ASSERT_TRUE(executor.ok()) << executor.error().message;
        for (int n = 0; n < 2; ++n) {
          const Status issued = executor.value()->issue();
          ASSERT_TRUE(issued.ok()) << issued.error().message;
          const Result<RunReport> report = executor.value()->finish();
          ASSERT_TRUE(report.ok()) << report.error().message;
          const RunReport& r = report.value();
          EXPECT_EQ(r.mismatches, 0) << r.first_mismatch;
          EXPECT_EQ(r.pinned_bytes, sim->statistics().pinned_bytes);
          copies += r.out.copies + r.in.copies;
          cut += r.out.pieces + r.in.pieces;
        }
      }
      EXPECT_EQ(sim->race_count(), 0);
      EXPECT_EQ(sim->leaks(), "");
    }
  }
  EXPECT_GT(copies, 20);
  EXPECT_GT(cut, 2 * copies);
}

}  // namespace
}  // namespace tidemark::swap
