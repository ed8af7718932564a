// Rings of long lives, and what passes laid between them window after window.

#include "planner/layout/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "planner/layout/check_packing.h"
#include "planner/layout/clock_windows.h"
#include "planner/layout/packer.h"
#include "planner/layout/ring_first.h"
#include "tests/support/sanitized.h"

namespace tidemark::layout {
namespace {

// Micro-batches of `storages` each, sixteen of them alive at once: each begins as the oldest has ended.
std::vector<PackItem> micro_batches(std::mt19937& random, int count, int storages) {
  std::vector<PackItem> items;
  for (int m = 0; m < count; ++m) {
    for (int s = 0; s < storages; ++s)
      items.push_back({100 * m + s, 100 * (m + 16) - 10 - s, 1 + static_cast<Bytes>(random() % 100)});
  }
  return items;
}

// Free stretches of [0, height) at a moment.
std::vector<Bytes> free_stretches(const std::vector<PackItem>& items, const std::vector<Bytes>& addresses,
                                  std::int32_t moment, Bytes height) {
  std::vector<std::pair<Bytes, Bytes>> taken;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (addresses[i] != kAnywhere && items[i].begin <= moment && moment < items[i].end)
      taken.emplace_back(addresses[i], addresses[i] + items[i].bytes);
  }
  taken.emplace_back(height, height);
  std::sort(taken.begin(), taken.end());
  std::vector<Bytes> stretches;
  Bytes end = 0;
  for (const auto& [begin, next] : taken) {
    if (begin > end) stretches.push_back(begin - end);
    end = std::max(end, next);
  }
  return stretches;
}

// With room for one more micro-batch nobody is displaced, and what is free is in two pieces: ahead of the youngest,
// which may go over the seam, and what the seam could not use.
TEST(Ring, LeavesWhatIsFreeInOnePieceButForTheSeam) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const std::vector<PackItem> items = micro_batches(random, 60, 5 + static_cast<int>(random() % 20));
    const PackProblem problem{.items = items};
    const Bytes height = packing_load(problem) * 18 / 16;
    const Ring ring = lay_in_ring(Blocks(problem), 1, height, items.size());
    EXPECT_EQ(ring.displaced, 0U);
    Packing packing{.offsets = ring.addresses};
    for (std::size_t i = 0; i < items.size(); ++i)
      packing.height_bytes = std::max(packing.height_bytes, ring.addresses[i] + items[i].bytes);
    EXPECT_LE(packing.height_bytes, height);
    ASSERT_EQ(find_fault(problem, packing).value_or(""), "");
    for (int m = 16; m < 60; ++m) {
      std::vector<Bytes> stretches = free_stretches(items, ring.addresses, 100 * m - 5, height);
      std::sort(stretches.rbegin(), stretches.rend());
      ASSERT_GE(stretches.size(), 1U);
      for (std::size_t s = 2; s < stretches.size(); ++s) EXPECT_LE(stretches[s], 100) << "round " << round;
    }
  }
}

TEST(Ring, GoesRoundThoseWhoStayAndStandsOnTopWhereThereIsNoPlace) {
  // The longest of a birth comes first. It is still there when the ring comes round, which goes on behind it; who is
  // born when it has gone, and is small enough, fills the bytes left in front.
  const std::vector<PackItem> items = {{0, 50, 10},   {0, 300, 10}, {1, 51, 60},  {60, 200, 15}, {61, 200, 20},
                                       {62, 200, 30}, {63, 200, 9}, {64, 99, 80}, {600, 700, 1}};
  const PackProblem problem{.items = items};
  const Ring ring = lay_in_ring(Blocks(problem), 1, 100, items.size());
  EXPECT_EQ(ring.addresses, (std::vector<Bytes>{10, 0, 20, 80, 10, 30, 60, 100, 0}));
  EXPECT_EQ(ring.displaced, 2U);
}

// Lives of all lengths are no ring: it says so soon, however many there are.
TEST(Ring, EndsWhereTooManyAreDisplaced) {
  std::mt19937 random(4);
  PackProblem problem;
  for (int i = 0; i < 30'000; ++i) {
    const auto begin = static_cast<std::int32_t>(random() % 1'000'000);
    problem.items.push_back(
        {begin, begin + 1000 + static_cast<std::int32_t>(random() % 400'000), 1 + static_cast<Bytes>(random() % 1000)});
  }
  const Ring ring = lay_in_ring(Blocks(problem), 1000, packing_load(problem), 100);
  EXPECT_EQ(ring.displaced, 101U);
  EXPECT_GT(std::ranges::count(ring.addresses, kAnywhere), 15'000);
}

TEST(Ring, FindsWhereLongLivesBegin) {
  const auto first_long = [](std::vector<PackItem> items) {
    const PackProblem problem{.items = std::move(items)};
    return shortest_long_life(Blocks(problem));
  };
  EXPECT_EQ(first_long({}), 0);
  EXPECT_EQ(first_long({{0, 10, 5}, {0, 15, 5}, {0, 22, 5}}), 0);  // no wide space
  EXPECT_EQ(first_long({{0, 10, 5}, {0, 30, 5}, {0, 40, 5}}), 30);
  EXPECT_EQ(first_long({{0, 10, 5}, {0, 30, 5}, {0, 300, 5}}), 300);  // the widest
  EXPECT_EQ(
      first_long({{std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max(), 5}, {0, 1, 5}}),
      (std::int64_t{1} << 32) - 1);
}

// Whatever stands already: an answer is a packing in which what stood stands and nobody else is above the height, and
// with room to spare there is one.
TEST(ClockWindows, PlaceEveryoneAmongThoseWhoStand) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  std::mt19937 random(7);
  int without = 0;
  for (int round = 0; round < testing::cases(60); ++round) {
    PackProblem problem{.items = micro_batches(random, 30, 8), .alignment = Bytes{1} << (random() % 4)};
    const std::size_t standing = problem.items.size();
    const Ring ring =
        lay_in_ring(Blocks(problem), 1, round_up(packing_load(problem) * 9 / 8, problem.alignment), standing);
    for (int i = 0; i < 400; ++i) {
      const auto begin = static_cast<std::int32_t>(random() % 4000);
      problem.items.push_back(
          {begin, begin + 1 + static_cast<std::int32_t>(random() % 40), 1 + static_cast<Bytes>(random() % 300)});
    }
    const Blocks blocks(problem);
    const bool ample = round % 2 == 0;
    const Bytes height = round_up(packing_load(problem) * (ample ? 15 : 10) / 10, problem.alignment);
    std::vector<Bytes> addresses = ring.addresses;
    addresses.resize(problem.items.size(), kAnywhere);
    Effort effort(100'000'000, nullptr);
    if (!place_by_windows(blocks, height, effort, nullptr, addresses)) {
      EXPECT_FALSE(ample) << "round " << round;
      ++without;
      continue;
    }
    for (std::size_t i = 0; i < standing; ++i) EXPECT_EQ(addresses[i], ring.addresses[i]);
    const Packing packing = blocks.packing(addresses);
    ASSERT_EQ(find_fault(problem, packing).value_or(""), "") << "round " << round;
    EXPECT_LE(packing.height_bytes, std::max(height, blocks.height(std::span(ring.addresses))));
  }
  EXPECT_GT(without, 0) << "no round was tight enough to have no answer";
}

TEST(ClockWindows, GiveUpWhereAWindowHasNoAnswerOrTheEffortIsOver) {
  PackProblem problem;
  for (int i = 0; i < 300; ++i) problem.items.push_back({i, i + 10, 10});
  const Blocks blocks(problem);
  std::vector<Bytes> addresses(300, kAnywhere);
  Effort effort(100'000'000, nullptr);
  EXPECT_FALSE(place_by_windows(blocks, 90, effort, nullptr, addresses));
  addresses.assign(300, kAnywhere);
  Effort little(1, nullptr);
  EXPECT_FALSE(place_by_windows(blocks, 200, little, nullptr, addresses));
}

// The last stage of an interleaved pipeline: sixteen micro-batches stay while others pass with the transients of a
// loss; then each of those who stay gives way to another, storage by storage.
std::vector<PackItem> last_stage(std::mt19937& random) {
  constexpr int kStorages = 16;
  std::vector<PackItem> items;
  std::vector<std::vector<std::size_t>> staying;
  std::int32_t now = 0;
  const auto bytes = [&](Bytes mean) { return mean / 2 + static_cast<Bytes>(random()) % mean; };
  const auto stay = [&] {
    staying.back().push_back(items.size());
    items.push_back({now, 0, bytes(30'000)});
    items.push_back({now, now + 3, bytes(20'000)});
  };
  for (int m = 0; m < 16; ++m) {
    staying.emplace_back();
    for (int s = 0; s < kStorages; ++s, now += 2) stay();
  }
  for (std::size_t old = 0; old < 96; ++old) {
    for (int m = 0; old % 16 == 0 && m < 16; ++m, now += 60) {
      for (int s = 0; s < kStorages; ++s) items.push_back({now + s, now + 60 - s + (s < 6 ? 60 : 0), bytes(30'000)});
      for (int s = 0; s < 2; ++s) items.push_back({now + 12 + s, now + 19 + 2 * s, 600'000});
    }
    staying.emplace_back();
    for (int s = kStorages - 1; s >= 0; --s, now += 4) {
      items[staying[old][static_cast<std::size_t>(s)]].end = now + 2;
      if (old < 80) stay();
    }
  }
  return items;
}

TEST(RingFirst, IsLowerThanOrdersAndWalksWhereALossPasses) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  std::mt19937 random(11);
  for (int round = 0; round < 3; ++round) {
    const PackProblem problem{.items = last_stage(random), .alignment = 512};
    const PackAnswer order = best_order(problem, {});
    const PackAnswer ring = find_packer("ring_first")->pack(problem, {.work = 1'000'000});
    ASSERT_EQ(find_fault(problem, ring.packing).value_or(""), "");
    EXPECT_EQ(ring.packer, "ring_first");
    EXPECT_LT(ring.excess_percent(), 0.3);
    EXPECT_GT(order.excess_percent(), 1.0);
    EXPECT_LT(find_packer("auto")->pack(problem, {.work = 1'000'000}).excess_percent(), 0.3);
  }
}

// What is low enough is not laid again, and nothing above what there is already.
TEST(RingFirst, SpendsNothingOnHeightsThatCannotHelp) {
  std::mt19937 random(11);
  const PackProblem problem{.items = last_stage(random), .alignment = 512};
  const Blocks blocks(problem);
  const Bytes load = packing_load(problem);
  const Bytes goal = load + load / 100;
  const auto spent = [&](std::vector<Bytes>& addresses) {
    Effort effort(10'000'000, nullptr);
    pack_ring_first(blocks, load, goal, effort, nullptr, addresses);
    return 10'000'000 - effort.left();
  };
  std::vector<Bytes> addresses = blocks.addresses(best_order(problem, {}).packing);
  EXPECT_GT(spent(addresses), std::ssize(problem.items));
  EXPECT_LE(blocks.packing(addresses).height_bytes, goal);
  EXPECT_LT(spent(addresses), std::ssize(problem.items));
}

// Whatever the clock counts from.
TEST(RingFirst, IsTheSameOnAnyClock) {
  std::mt19937 random(13);
  PackProblem problem{.items = last_stage(random), .alignment = 512};
  const PackAnswer answer = find_packer("ring_first")->pack(problem, {.work = 300'000});
  for (PackItem& item : problem.items) {
    item.begin -= 2'000'000'000;
    item.end -= 2'000'000'000;
  }
  EXPECT_EQ(find_packer("ring_first")->pack(problem, {.work = 300'000}).packing.offsets, answer.packing.offsets);
}

// A prefix of one sequence: more work never ends higher.
TEST(RingFirst, IsNeverHigherForMoreWork) {
  std::mt19937 random(12);
  const PackProblem problem{.items = last_stage(random), .alignment = 512};
  Bytes before = packing_load(problem) * 10;
  for (const std::int64_t work : {0, 10'000, 100'000, 400'000, 1'000'000, 4'000'000}) {
    const PackAnswer answer = find_packer("ring_first")->pack(problem, {.work = work});
    ASSERT_EQ(find_fault(problem, answer.packing).value_or(""), "");
    EXPECT_LE(answer.packing.height_bytes, before) << work;
    before = answer.packing.height_bytes;
  }
}

}  // namespace
}  // namespace tidemark::layout
