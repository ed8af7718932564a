// Copies that take time: what waits for what by hand-made examples, and when copies begin against every choice.

#include "planner/decide/flat/copy_times.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/planner/decide/flat/flat_step.h"
#include "tests/planner/decide/flat/random_steps.h"

namespace tidemark::decide::flat {
namespace {

using testing::draw;
using testing::FlatStep;
using testing::ReferenceReplay;
using testing::ReferenceStep;

/// A way there and back: n layers of a byte and cost `cost`, each used again in reverse order.
ReferenceStep there_and_back(std::int32_t layers, std::int64_t cost, std::int64_t copy_time) {
  ReferenceStep step;
  for (std::int32_t v = 0; v < 2 * layers; ++v) {
    step.storages.push_back({.bytes = v < layers ? 1 : 0,
                             .swappable = v < layers,
                             .copies = {.out = {.link = copy_time}, .in = {.link = copy_time}}});
    ReferenceStep::Op op{.cost = cost, .writes = {v}};
    if (v >= layers) op.reads = {2 * layers - 1 - v};
    step.ops.push_back(std::move(op));
  }
  return step;
}

TEST(ReferenceCopies, AnOpWaitsForACopyOutWhoseRoomItTakes) {
  const FlatStep flat(there_and_back(3, 10, 25));
  RunOrder schedule = keep_all(flat.step);
  schedule.swaps = {{.storage = 0, .after = 0, .before = 5, .gone = 1, .back = 2}};
  // 10 to 35 out, the op at 1 waits 25; in from 45 to 70, over long before 75.
  EXPECT_EQ(replay(flat.step, schedule).waited, 25);
  EXPECT_EQ(replay(flat.step, schedule).profile, (std::vector<Bytes>{1, 1, 3, 3, 2, 1}));
  schedule.swaps[0].gone = 2;
  EXPECT_EQ(replay(flat.step, schedule).waited, 15);
  schedule.swaps[0] = {.storage = 0, .after = 0, .before = 5, .gone = 4, .back = 5};
  EXPECT_EQ(replay(flat.step, schedule).waited, 25);  // for the copy in, all of it
}

TEST(ReferenceCopies, CopiesOfADirectionFollowEachOther) {
  const FlatStep flat(there_and_back(3, 10, 25));
  RunOrder schedule = keep_all(flat.step);
  schedule.swaps = {{.storage = 0, .after = 0, .before = 5, .gone = 4, .back = 4},
                    {.storage = 1, .after = 1, .before = 4, .gone = 4, .back = 4}};
  // Out 10 to 35 and 35 to 60; the op at 4 would run at 40 and waits 20. In from there: 1 first (needed first), to 85,
  // for which it waits 25 more; 0 to 110, while the op at 5 could run at 95 and waits 15.
  EXPECT_EQ(replay(flat.step, schedule).waited, 20 + 25 + 15);
  EXPECT_EQ(replay(flat.step, schedule).host_peak_bytes, 2);
  EXPECT_EQ(replay(flat.step, schedule).added_cost, 60);
}

TEST(ReferenceCopies, WhatHasOneVersionIsCopiedOutOnce) {
  ReferenceStep step = there_and_back(2, 10, 5);
  step.ops[2].reads = {0, 1};  // 0 is used at 2 and 3
  const FlatStep flat(std::move(step));
  RunOrder schedule = keep_all(flat.step);
  schedule.swaps = {{.storage = 0, .after = 0, .before = 2}, {.storage = 0, .after = 2, .before = 3}};
  schedule.swaps[1].gone = schedule.swaps[1].back = 3;
  EXPECT_EQ(replay(flat.step, schedule).fault, "");
  EXPECT_EQ(replay(flat.step, schedule).waited, 5 + 5 + 5);  // out, in, and in again
  EXPECT_EQ(replay(flat.step, schedule).host_peak_bytes, 1);
}

TEST(ReferenceCopies, HostMemoryIsALimit) {
  ReferenceStep step = there_and_back(3, 10, 1);
  step.host_bytes = 1;
  const FlatStep flat(std::move(step));
  RunOrder schedule = keep_all(flat.step);
  schedule.swaps = {{.storage = 0, .after = 0, .before = 5}};
  EXPECT_EQ(replay(flat.step, schedule).fault, "");
  schedule.swaps.push_back({.storage = 1, .after = 1, .before = 4});
  EXPECT_NE(replay(flat.step, schedule).fault.find("host memory: 2 B"), std::string::npos);
}

/// Where copies take as long as ops, half of the layers can go for the price of none.
TEST(CopyTimes, CopiesRunBesideOps) {
  const FlatStep flat(there_and_back(8, 10, 10));
  RunOrder schedule = keep_all(flat.step);
  for (std::int32_t s = 0; s < 5; ++s) schedule.swaps.push_back({.storage = s, .after = s, .before = 15 - s});
  const RunOrder timed = time_copies(flat.problem, schedule, 4);
  const ReferenceReplay reference = replay(flat.step, timed);
  EXPECT_EQ(reference.fault, "");
  EXPECT_LE(reference.peak_bytes, 4);
  EXPECT_EQ(reference.waited, 0);
}

/// Every way to set gone and back within the limit: the least waiting.
std::int64_t least_waiting(const ReferenceStep& step, RunOrder schedule, Bytes limit, std::size_t next = 0) {
  if (next == schedule.swaps.size()) {
    const ReferenceReplay reference = replay(step, schedule);
    return reference.peak_bytes <= limit ? reference.waited : std::numeric_limits<std::int64_t>::max();
  }
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  RunOrder::Swap& swap = schedule.swaps[next];
  for (swap.gone = swap.after + 1; swap.gone <= swap.before; ++swap.gone)
    for (swap.back = swap.gone; swap.back <= swap.before; ++swap.back)
      least = std::min(least, least_waiting(step, schedule, limit, next + 1));
  return least;
}

TEST(CopyTimes, WithinTheLimitAndMostlyTheLeastWaiting) {
  int steps = 0, best = 0;
  for (std::uint64_t seed = 0; seed < 2000 && steps < 120; ++seed) {
    std::mt19937_64 random(seed);
    const FlatStep flat(
        testing::with_link(testing::forward_and_back(seed, 4, true), seed, 5 + static_cast<std::int32_t>(seed % 40)));
    RunOrder schedule = keep_all(flat.step);
    for (std::int32_t s = 0; s < 4 && schedule.swaps.size() < 2; ++s) {
      if (!flat.step.storages[static_cast<std::size_t>(s)].swappable || draw(random, 3) == 0) continue;
      std::vector<std::int32_t> touches;
      for (std::int32_t v = 0; v < 8; ++v) {
        const ReferenceStep::Op& op = flat.step.ops[static_cast<std::size_t>(v)];
        if (v == s || std::ranges::binary_search(op.reads, s)) touches.push_back(v);
      }
      for (std::size_t i = 0; i + 1 < touches.size(); ++i)
        if (touches[i + 1] > touches[i] + 2) {
          schedule.swaps.push_back({.storage = s, .after = touches[i], .before = touches[i + 1]});
          break;
        }
    }
    const ReferenceReplay serial = replay(flat.step, schedule);
    ASSERT_EQ(serial.fault, "") << seed;
    const Bytes limit = serial.peak_bytes + draw(random, 6);
    if (keep_all_peak(flat.step) <= limit) continue;  // no swap is needed
    ++steps;
    const RunOrder order = time_copies(flat.problem, schedule, limit);
    const ReferenceReplay timed = replay(flat.step, order);
    ASSERT_EQ(timed.fault, "") << seed;
    EXPECT_LE(timed.peak_bytes, limit) << seed;
    EXPECT_LE(timed.waited, serial.waited) << seed;
    expect_carried_out(flat, schedule);
    expect_carried_out(flat, order);
    const std::int64_t least = least_waiting(flat.step, schedule, limit);
    EXPECT_GE(timed.waited, least) << seed;
    best += timed.waited == least ? 1 : 0;
  }
  EXPECT_EQ(steps, 120);
  EXPECT_GE(best, 100);
}

}  // namespace
}  // namespace tidemark::decide::flat
