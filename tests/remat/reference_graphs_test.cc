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
        Case{"resnet50", 25'636'712, 900}}) {
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

TEST(PlanStep, PagesAndRerunsTogetherBeatEitherAlone) {
  const auto path = testing::data_path("graphs/poet_resnet18cifar_a72.swapgraph");
  if (!path) GTEST_SKIP() << "the reference data is not there";
  const OpList list = data_list(*path);
  const StepPlan loose = plan_step_within(list, 3'000'000);
  EXPECT_EQ(loose.replay.added_cost, 0);
  EXPECT_TRUE(loose.schedule.swaps.empty());
  OpList pages = list, reruns = list;
  for (OpList::Op& op : pages.ops) op.recompute = OpList::Recompute::never;
  for (OpList::Storage& row : reruns.storages) row.swappable = false;
  for (const Bytes budget : {2'000'000, 1'200'000, 700'000}) {
    const PlanLimits limits{.effort = 0.3};
    const StepPlan joint = plan_step_within(list, budget, {}, limits);
    ASSERT_TRUE(joint.fits()) << budget;
    for (const OpList* alone : {&pages, &reruns}) {
      const StepPlan plan = plan_step_within(*alone, budget, {}, limits);
      if (plan.fits()) {
        EXPECT_LE(joint.replay.added_cost, plan.replay.added_cost) << budget;
      }
    }
  }
}

}  // namespace
}  // namespace tidemark::remat
