// The reference replay refuses each broken rule by itself, and counts by hand-made examples.

#include "tests/planner/decide/flat/reference_step.h"

#include <gtest/gtest.h>

#include "tests/planner/decide/flat/flat_step.h"

namespace tidemark::testing {
namespace {

using decide::flat::RunOrder;

/// a -> b -> c -> d(b, c) with 1, 2, 4, 8 bytes and costs 10, 20, 30, 40.
ReferenceStep diamond() {
  ReferenceStep step;
  for (const Bytes bytes : {1, 2, 4, 8}) step.storages.push_back({.bytes = bytes});
  step.ops = {{.name = "a", .cost = 10, .writes = {0}},
              {.name = "b", .cost = 20, .reads = {0}, .writes = {1}},
              {.name = "c", .cost = 30, .reads = {1}, .writes = {2}},
              {.name = "d", .cost = 40, .reads = {0, 2}, .writes = {3}}};
  return step;
}

TEST(ReferenceStep, KeepAll) {
  const ReferenceReplay one = replay(diamond(), keep_all(diamond()));
  EXPECT_EQ(one.fault, "");
  EXPECT_EQ(one.profile, (std::vector<Bytes>{1, 3, 7, 13}));
  EXPECT_EQ(one.cost, 100);
  EXPECT_EQ(one.added_cost, 0);
  EXPECT_EQ(one.peak_bytes, 13);
  EXPECT_EQ(one.peak_position, 3);
}

TEST(ReferenceStep, ARecomputeBridgesTheGap) {
  const RunOrder order{.order = {0, 1, 2, 0, 3}};
  const ReferenceReplay one = replay(diamond(), order);
  EXPECT_EQ(one.fault, "");
  EXPECT_EQ(one.profile, (std::vector<Bytes>{1, 3, 6, 5, 13}));  // a is gone while c runs
  EXPECT_EQ(one.added_cost, 10);
  EXPECT_EQ(absences_of(diamond(), order), (std::vector<ReferenceAbsence>{{.storage = 0, .after = 1, .before = 3}}));
  expect_carried_out(FlatStep(diamond()), order);
}

TEST(ReferenceStep, ASwapLeavesAGap) {
  ReferenceStep step = diamond();
  step.storages[0].swappable = true;
  step.storages[0].copies = {.out = {.compute = 3}, .in = {.compute = 4}};
  const RunOrder order{.order = {0, 1, 2, 3}, .swaps = {{.storage = 0, .after = 1, .before = 3}}};
  const ReferenceReplay one = replay(step, order);
  EXPECT_EQ(one.fault, "");
  EXPECT_EQ(one.profile, (std::vector<Bytes>{1, 3, 6, 13}));
  EXPECT_EQ(one.added_cost, 7);
  EXPECT_EQ(absences_of(step, order),
            (std::vector<ReferenceAbsence>{{.storage = 0, .after = 1, .before = 3, .swapped = true}}));
  expect_carried_out(FlatStep(step), order);
}

TEST(ReferenceStep, EveryRuleBrokenAlone) {
  const auto fault = [](const ReferenceStep& step, const RunOrder& order) { return replay(step, order).fault; };
  EXPECT_NE(fault(diamond(), {.order = {0, 1, 2}}).find("never run"), std::string::npos);
  EXPECT_NE(fault(diamond(), {.order = {0, 2, 1, 3}}).find("before op 1"), std::string::npos);
  EXPECT_NE(fault(diamond(), {.order = {0, 1, 2, 3, 0}}).find("behind the last op"), std::string::npos);
  EXPECT_NE(fault(diamond(), {.order = {0, 1, 2, 3, 4}}).find("no op 4"), std::string::npos);
  EXPECT_NE(fault(diamond(), {.order = {0, 1, 2, 3}, .swaps = {{.storage = 0, .after = 1, .before = 3}}})
                .find("not swappable"),
            std::string::npos);

  ReferenceStep step = diamond();
  step.ops[0].recompute = ReferenceStep::Recompute::routing;
  EXPECT_NE(fault(step, {.order = {0, 1, 2, 0, 3}}).find("must not be"), std::string::npos);
  step = diamond();
  step.storages[0].held_until = 2;
  EXPECT_EQ(fault(step, {.order = {0, 1, 2, 0, 3}}), "");
  step.storages[0].held_until = 3;
  EXPECT_NE(fault(step, {.order = {0, 1, 2, 0, 3}}).find("held"), std::string::npos);
  step = diamond();
  step.ops[2].writes = {0, 2};  // changes a
  EXPECT_NE(fault(step, {.order = {0, 1, 2, 0, 3}}).find("in place"), std::string::npos);
  EXPECT_NE(fault(step, {.order = {0, 1, 2, 1, 3}}).find("changed what it reads"), std::string::npos);

  step = diamond();
  for (ReferenceStep::Storage& row : step.storages) row.swappable = true;
  const auto swapped = [&](std::int32_t storage, std::int32_t after, std::int32_t before) {
    return fault(step, {.order = {0, 1, 2, 3}, .swaps = {{.storage = storage, .after = after, .before = before}}});
  };
  EXPECT_EQ(swapped(0, 1, 3), "");
  EXPECT_NE(swapped(0, 1, 2).find("another one"), std::string::npos);
  EXPECT_NE(swapped(0, 3, 1).find("later"), std::string::npos);
  EXPECT_NE(swapped(2, 0, 2).find("not there yet"), std::string::npos);
  EXPECT_NE(swapped(7, 0, 2).find("no storage"), std::string::npos);
  step.storages[0].held_until = 2;
  EXPECT_NE(swapped(0, 1, 3).find("held"), std::string::npos);
}

TEST(ReferenceStep, RandomAndCollectiveOpsNeedARule) {
  ReferenceStep step = diamond();
  step.ops[0].recompute = ReferenceStep::Recompute::collective;
  EXPECT_NE(replay(step, {.order = {0, 1, 2, 0, 3}}).fault, "");
  EXPECT_EQ(replay(step, {.order = {0, 1, 2, 0, 3}}, {.collective = true}).fault, "");
  step.ops[0].recompute = ReferenceStep::Recompute::random;
  EXPECT_EQ(replay(step, {.order = {0, 1, 2, 0, 3}}).fault, "");
  EXPECT_NE(replay(step, {.order = {0, 1, 2, 0, 3}}, {.random = false}).fault, "");
}

}  // namespace
}  // namespace tidemark::testing
