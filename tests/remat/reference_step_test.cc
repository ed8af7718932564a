// The check of schedules refuses each broken rule by itself, and counts by hand-made examples.

#include "core/op_schedule.h"

#include <gtest/gtest.h>

namespace tidemark {
namespace {

/// a -> b -> c -> d(b, c) with 1, 2, 4, 8 bytes and costs 10, 20, 30, 40.
OpList diamond() {
  OpList list;
  for (const Bytes bytes : {1, 2, 4, 8}) list.storages.push_back({.bytes = bytes});
  list.ops = {{.name = "a", .cost = 10, .writes = {0}},
              {.name = "b", .cost = 20, .reads = {0}, .writes = {1}},
              {.name = "c", .cost = 30, .reads = {1}, .writes = {2}},
              {.name = "d", .cost = 40, .reads = {0, 2}, .writes = {3}}};
  return list;
}

TEST(OpSchedule, KeepAll) {
  const ScheduleReplay replay = replay_schedule(diamond(), keep_all_schedule(diamond()), {});
  EXPECT_EQ(replay.fault, "");
  EXPECT_EQ(replay.profile, (std::vector<Bytes>{1, 3, 7, 13}));
  EXPECT_EQ(replay.cost, 100);
  EXPECT_EQ(replay.added_cost, 0);
  EXPECT_EQ(replay.peak_bytes, 13);
  EXPECT_EQ(replay.peak_position, 3);
  EXPECT_EQ(residents_at(diamond(), keep_all_schedule(diamond()), 3), (std::vector<std::int32_t>{0, 2, 3}));
}

TEST(OpSchedule, ASecondRunBridgesTheGap) {
  const ScheduleReplay replay = replay_schedule(diamond(), {.order = {0, 1, 2, 0, 3}}, {});
  EXPECT_EQ(replay.fault, "");
  EXPECT_EQ(replay.profile, (std::vector<Bytes>{1, 3, 6, 5, 13}));  // a is gone while c runs
  EXPECT_EQ(replay.added_cost, 10);
}

TEST(OpSchedule, APageLeavesAHole) {
  OpList list = diamond();
  list.storages[0].swappable = true;
  list.storages[0].page_out_cost = 3;
  list.storages[0].page_in_cost = 4;
  const ScheduleReplay replay =
      replay_schedule(list, {.order = {0, 1, 2, 3}, .swaps = {{.storage = 0, .after = 1, .before = 3}}}, {});
  EXPECT_EQ(replay.fault, "");
  EXPECT_EQ(replay.profile, (std::vector<Bytes>{1, 3, 6, 13}));
  EXPECT_EQ(replay.added_cost, 7);
}

TEST(OpSchedule, EveryRuleBrokenAlone) {
  const auto fault = [](const OpList& list, const OpSchedule& schedule) {
    return replay_schedule(list, schedule, {}).fault;
  };
  EXPECT_NE(fault(diamond(), {.order = {0, 1, 2}}).find("never run"), std::string::npos);
  EXPECT_NE(fault(diamond(), {.order = {0, 2, 1, 3}}).find("before op 1"), std::string::npos);
  EXPECT_NE(fault(diamond(), {.order = {0, 1, 2, 3, 0}}).find("behind the last op"), std::string::npos);
  EXPECT_NE(fault(diamond(), {.order = {0, 1, 2, 3, 4}}).find("no op 4"), std::string::npos);
  EXPECT_NE(
      fault(diamond(), {.order = {0, 1, 2, 3}, .swaps = {{.storage = 0, .after = 1, .before = 3}}}).find("must stay"),
      std::string::npos);

  OpList list = diamond();
  list.ops[0].recompute = OpList::Recompute::routing;
  EXPECT_NE(fault(list, {.order = {0, 1, 2, 0, 3}}).find("must not"), std::string::npos);
  list = diamond();
  list.storages[0].pinned_until = 2;
  EXPECT_EQ(fault(list, {.order = {0, 1, 2, 0, 3}}), "");
  list.storages[0].pinned_until = 3;
  EXPECT_NE(fault(list, {.order = {0, 1, 2, 0, 3}}).find("held"), std::string::npos);
  list = diamond();
  list.ops[2].writes = {0, 2};  // changes a
  EXPECT_NE(fault(list, {.order = {0, 1, 2, 0, 3}}).find("in place"), std::string::npos);
  EXPECT_NE(fault(list, {.order = {0, 1, 2, 1, 3}}).find("changed what it reads"), std::string::npos);

  list = diamond();
  for (OpList::Storage& row : list.storages) row.swappable = true;
  const auto paged = [&](std::int32_t storage, std::int32_t after, std::int32_t before) {
    return fault(list, {.order = {0, 1, 2, 3}, .swaps = {{.storage = storage, .after = after, .before = before}}});
  };
  EXPECT_EQ(paged(0, 1, 3), "");
  EXPECT_NE(paged(0, 1, 2).find("another one"), std::string::npos);
  EXPECT_NE(paged(0, 3, 1).find("later"), std::string::npos);
  EXPECT_NE(paged(2, 0, 2).find("not there yet"), std::string::npos);
  EXPECT_NE(paged(7, 0, 2).find("no storage"), std::string::npos);
  list.storages[0].pinned_until = 2;
  EXPECT_NE(paged(0, 1, 3).find("held"), std::string::npos);
}

TEST(OpSchedule, RandomAndCollectiveOpsNeedARule) {
  OpList list = diamond();
  list.ops[0].recompute = OpList::Recompute::collective;
  EXPECT_NE(replay_schedule(list, {.order = {0, 1, 2, 0, 3}}, {}).fault, "");
  EXPECT_EQ(replay_schedule(list, {.order = {0, 1, 2, 0, 3}}, {.collective = true}).fault, "");
  list.ops[0].recompute = OpList::Recompute::random;
  EXPECT_EQ(replay_schedule(list, {.order = {0, 1, 2, 0, 3}}, {}).fault, "");
  EXPECT_NE(replay_schedule(list, {.order = {0, 1, 2, 0, 3}}, {.random = false}).fault, "");
}

}  // namespace
}  // namespace tidemark
