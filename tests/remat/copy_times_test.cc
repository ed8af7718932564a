// Pages on a link: what waits for what by hand-made examples, and when pages leave and come back against every choice.

#include "planner/remat/copy_times.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/link_replay.h"
#include "tests/remat/random_list.h"

namespace tidemark::remat {
namespace {

using testing::draw;

/// A way there and back: n layers of a byte and cost `cost`, each used again in reverse order.
OpList there_and_back(std::int32_t layers, std::int64_t cost, std::int64_t page_time) {
  OpList list{.cost_unit = OpList::CostUnit::ns, .link = OpList::Link{}};
  for (std::int32_t v = 0; v < 2 * layers; ++v) {
    list.storages.push_back(
        {.bytes = v < layers ? 1 : 0, .swappable = v < layers, .page_out_time = page_time, .page_in_time = page_time});
    OpList::Op op{.cost = cost, .writes = {v}};
    if (v >= layers) op.reads = {2 * layers - 1 - v};
    list.ops.push_back(std::move(op));
  }
  return list;
}

TEST(LinkReplay, AnOpWaitsForACopyOutWhoseRoomItTakes) {
  const OpList list = there_and_back(3, 10, 25);
  OpSchedule schedule = keep_all_schedule(list);
  schedule.swaps = {{.storage = 0, .after = 0, .before = 5, .gone = 1, .back = 2}};
  // 10 to 35 out, the op at 1 waits 25; in from 45 to 70, over long before 75.
  EXPECT_EQ(replay_link(list, schedule).waited, 25);
  EXPECT_EQ(replay_schedule(list, schedule, {}).profile, (std::vector<Bytes>{1, 1, 3, 3, 2, 1}));
  schedule.swaps[0].gone = 2;
  EXPECT_EQ(replay_link(list, schedule).waited, 15);
  schedule.swaps[0] = {.storage = 0, .after = 0, .before = 5, .gone = 4, .back = 5};
  EXPECT_EQ(replay_link(list, schedule).waited, 25);  // for the copy in, all of it
}

TEST(LinkReplay, CopiesOfADirectionFollowEachOther) {
  const OpList list = there_and_back(3, 10, 25);
  OpSchedule schedule = keep_all_schedule(list);
  schedule.swaps = {{.storage = 0, .after = 0, .before = 5, .gone = 4, .back = 4},
                    {.storage = 1, .after = 1, .before = 4, .gone = 4, .back = 4}};
  // Out 10 to 35 and 35 to 60; the op at 4 would run at 40 and waits 20. In from there: 1 first (needed first), to 85,
  // for which it waits 25 more; 0 to 110, while the op at 5 could run at 95 and waits 15.
  EXPECT_EQ(replay_link(list, schedule).waited, 20 + 25 + 15);
  EXPECT_EQ(replay_link(list, schedule).host_peak_bytes, 2);
  EXPECT_EQ(replay_schedule(list, schedule, {}).added_cost, 60);
}

TEST(LinkReplay, WhatHasOneVersionIsCopiedOutOnce) {
  OpList list = there_and_back(2, 10, 5);
  list.ops[2].reads = {0, 1};  // 0 is used at 2 and 3
  OpSchedule schedule = keep_all_schedule(list);
  schedule.swaps = {{.storage = 0, .after = 0, .before = 2}, {.storage = 0, .after = 2, .before = 3}};
  schedule.swaps[1].gone = schedule.swaps[1].back = 3;
  EXPECT_EQ(replay_schedule(list, schedule, {}).fault, "");
  EXPECT_EQ(replay_link(list, schedule).waited, 5 + 5 + 5);  // out, in, and in again
  EXPECT_EQ(replay_link(list, schedule).host_peak_bytes, 1);
}

TEST(LinkReplay, HostMemoryIsALimit) {
  OpList list = there_and_back(3, 10, 1);
  list.link->host_bytes = 1;
  OpSchedule schedule = keep_all_schedule(list);
  schedule.swaps = {{.storage = 0, .after = 0, .before = 5}};
  EXPECT_EQ(replay_schedule(list, schedule, {}).fault, "");
  schedule.swaps.push_back({.storage = 1, .after = 1, .before = 4});
  EXPECT_NE(replay_schedule(list, schedule, {}).fault.find("host memory: 2 B"), std::string::npos);
}

/// Where copies take as long as ops, half of the layers can go for the price of none.
TEST(CopyTimes, CopiesRunBesideOps) {
  const OpList list = there_and_back(8, 10, 10);
  OpSchedule schedule = keep_all_schedule(list);
  for (std::int32_t s = 0; s < 5; ++s) schedule.swaps.push_back({.storage = s, .after = s, .before = 15 - s});
  const OpSchedule timed = time_copies(list, schedule, 4);
  const ScheduleReplay replay = replay_schedule(list, timed, {});
  EXPECT_EQ(replay.fault, "");
  EXPECT_LE(replay.peak_bytes, 4);
  EXPECT_EQ(replay.waited, 0);
}

/// Every way to set gone and back within the limit: the least waiting.
std::int64_t least_waiting(const OpList& list, OpSchedule schedule, Bytes limit, std::size_t next = 0) {
  if (next == schedule.swaps.size()) {
    const ScheduleReplay replay = replay_schedule(list, schedule, {});
    return replay.peak_bytes <= limit ? replay.waited : std::numeric_limits<std::int64_t>::max();
  }
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  OpSchedule::Swap& swap = schedule.swaps[next];
  for (swap.gone = swap.after + 1; swap.gone <= swap.before; ++swap.gone)
    for (swap.back = swap.gone; swap.back <= swap.before; ++swap.back)
      least = std::min(least, least_waiting(list, schedule, limit, next + 1));
  return least;
}

TEST(CopyTimes, WithinTheLimitAndMostlyTheLeastWaiting) {
  int lists = 0, best = 0;
  for (std::uint64_t seed = 0; seed < 2000 && lists < 120; ++seed) {
    std::mt19937_64 random(seed);
    const OpList list =
        testing::with_link(testing::forward_and_back(seed, 4, true), seed, 5 + static_cast<std::int32_t>(seed % 40));
    OpSchedule schedule = keep_all_schedule(list);
    for (std::int32_t s = 0; s < 4 && schedule.swaps.size() < 2; ++s) {
      if (!list.storages[static_cast<std::size_t>(s)].swappable || draw(random, 3) == 0) continue;
      std::vector<std::int32_t> touches;
      for (std::int32_t v = 0; v < 8; ++v) {
        const OpList::Op& op = list.ops[static_cast<std::size_t>(v)];
        if (v == s || std::ranges::binary_search(op.reads, s)) touches.push_back(v);
      }
      for (std::size_t i = 0; i + 1 < touches.size(); ++i)
        if (touches[i + 1] > touches[i] + 2) {
          schedule.swaps.push_back({.storage = s, .after = touches[i], .before = touches[i + 1]});
          break;
        }
    }
    const ScheduleReplay serial = replay_schedule(list, schedule, {});
    ASSERT_EQ(serial.fault, "") << seed;
    const Bytes limit = serial.peak_bytes + draw(random, 6);
    if (replay_schedule(list, keep_all_schedule(list), {}).peak_bytes <= limit) continue;  // no page is needed
    ++lists;
    const ScheduleReplay timed = replay_schedule(list, time_copies(list, schedule, limit), {});
    ASSERT_EQ(timed.fault, "") << seed;
    EXPECT_LE(timed.peak_bytes, limit) << seed;
    EXPECT_LE(timed.waited, serial.waited) << seed;
    const std::int64_t least = least_waiting(list, schedule, limit);
    EXPECT_GE(timed.waited, least) << seed;
    best += timed.waited == least ? 1 : 0;
  }
  EXPECT_EQ(lists, 120);
  EXPECT_GE(best, 100);
}

}  // namespace
}  // namespace tidemark::remat
