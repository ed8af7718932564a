// The graphs of the literature (shared reference data): figures that were published or reached before.

#include <gtest/gtest.h>

#include "integrations/formats/import_op_list.h"
#include "planner/remat/plan.h"
#include "tests/support/data.h"

namespace tidemark::remat {
namespace {

OpList data_list(const std::filesystem::path& path) {
  return read_op_list(testing::text_of(path), path.string()).value();
}

/// Checkmate's largest batch: within the memory limit at the cost of one more forward pass.
TEST(PlanStep, LargestBatches) {
  struct Case {
    const char* name;
    std::int64_t parameters;
    std::int64_t batch;
  };
  for (const auto& [name, parameters, batch] :
       {Case{"vgg19", 143'667'240, 289}, Case{"vgg16", 138'357'544, 289}, Case{"mobilenet", 4'253'864, 1231},
        Case{"resnet50", 25'636'712, 936}}) {
    const auto path = testing::data_path(std::string("graphs/") + name + "_flops.graph");
    if (!path) GTEST_SKIP() << "the reference data is not there";
    const OpList list = data_list(*path);
    std::int64_t forward = 0;
    for (const OpList::Op& op : list.ops)
      if (op.phase == OpList::Phase::forward) forward += op.cost;
    const StepPlan plan = plan_step_within(list, (16'000'000'000 - 8 * parameters) / batch);
    ASSERT_TRUE(plan.fits()) << name;
    EXPECT_LE(plan.replay.added_cost, forward) << name;
  }
}

/// What a frontier costs within a budget; -1: it does not reach it.
std::int64_t cost_within(const std::vector<FrontierPoint>& frontier, Bytes budget) {
  std::int64_t cost = -1;
  for (const FrontierPoint& point : frontier)
    if (point.peak_bytes <= budget) cost = point.added_cost;
  return cost;
}

TEST(PlanStep, PagesAndRerunsTogetherBeatEitherAlone) {
  const auto path = testing::data_path("graphs/poet_resnet18cifar_a72.swapgraph");
  if (!path) GTEST_SKIP() << "the reference data is not there";
  const OpList list = data_list(*path);
  const StepPlan loose = plan_step_within(list, 3'000'000);
  EXPECT_EQ(loose.replay.added_cost, 0);
  EXPECT_NEAR(list.to_units(loose.replay.cost), 7.88951, 5e-6);
  EXPECT_TRUE(loose.schedule.swaps.empty());
  OpList pages = list, reruns = list;
  for (OpList::Op& op : pages.ops) op.recompute = OpList::Recompute::never;
  for (OpList::Storage& row : reruns.storages) row.swappable = false;
  const PlanLimits limits{.effort = 0.1};
  const std::vector<FrontierPoint> joint = frontier_of(list, {}, limits);
  int better = 0, compared = 0;
  for (const OpList* alone : {&pages, &reruns})
    for (const FrontierPoint& point : frontier_of(*alone, {}, limits)) {
      const std::int64_t cost = cost_within(joint, point.peak_bytes);
      ASSERT_GE(cost, 0) << point.peak_bytes;
      EXPECT_LE(cost, point.added_cost) << point.peak_bytes;
      ++compared;
      better += cost < point.added_cost ? 1 : 0;
    }
  EXPECT_GT(compared, 100);
  EXPECT_GT(better, compared / 2);
  for (const Bytes budget : {2'000'000, 1'200'000, 700'000}) {
    const StepPlan plan = plan_step_within(list, budget, {}, {.effort = 0.05});
    ASSERT_TRUE(plan.fits()) << budget;
    for (const OpList* alone : {&pages, &reruns}) {
      const StepPlan other = plan_step_within(*alone, budget, {}, {.effort = 0.05});
      if (other.fits()) {
        EXPECT_LE(plan.replay.added_cost, other.replay.added_cost) << budget;
        if (budget < 2'000'000) {
          EXPECT_LT(plan.replay.added_cost, other.replay.added_cost) << budget;
        }
      }
    }
  }
}

/// A hundred budgets, and every tenth in a call of its own, which knows no other.
class BudgetDown : public ::testing::TestWithParam<const char*> {};

TEST_P(BudgetDown, PeaksNeverUpAndCostsNeverDown) {
  const auto path = testing::data_path(std::string("graphs/") + GetParam());
  if (!path) GTEST_SKIP() << "the reference data is not there";
  const OpList list = data_list(*path);
  const Bytes keep = replay_schedule(list, keep_all_schedule(list), {}).peak_bytes;
  const Bytes least = plan_step_within(list, keep).lower_bound_bytes;
  constexpr int kBudgets = 100;
  const PlanLimits limits{.effort = 0.01};
  StepPlanner planner(list, {}, limits);
  StepPlan last = plan_step_within(list, keep);
  int fitted = 0;
  for (int i = 0; i < kBudgets; ++i) {
    const Bytes budget = keep - (keep - least) * i / (kBudgets - 1);
    StepPlan plan = planner.within(budget);
    if (i % 10 == 5) {
      EXPECT_EQ(plan_step_within(list, budget, {}, limits).schedule, plan.schedule) << budget;
    }
    if (!plan.fits()) {
      last = plan;
      continue;
    }
    ASSERT_TRUE(last.fits()) << budget << " fits, and a looser budget did not";
    EXPECT_LE(plan.replay.peak_bytes, last.replay.peak_bytes) << budget;
    EXPECT_GE(plan.replay.added_cost, last.replay.added_cost) << budget;
    last = std::move(plan);
    ++fitted;
  }
  EXPECT_GE(fitted, 90);
}

INSTANTIATE_TEST_SUITE_P(ReferenceGraphs, BudgetDown,
                         ::testing::Values("vgg16_flops.graph", "vgg19_flops.graph", "mobilenet_flops.graph",
                                           "resnet50_flops.graph", "poet_resnet18cifar_a72.swapgraph"),
                         [](const auto& test) {
                           const std::string name = test.param;
                           return name.substr(0, name.find('_'));
                         });

}  // namespace
}  // namespace tidemark::remat
