// The graphs of the literature (shared reference data): figures that were published or reached before.

#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "integrations/formats/import_captured_step.h"
#include "planner/decide/flat/plan.h"
#include "tests/support/data.h"

namespace tidemark::decide::flat {
namespace {

/// A graph of the reference data with its problem, which borrows from its neighbours.
struct DataStep {
  explicit DataStep(Graph of, Bytes host_bytes_ = std::numeric_limits<Bytes>::max())
      : graph(std::move(of)), host_bytes(host_bytes_), problem(graph, machine, {}, host_bytes) {}
  explicit DataStep(const std::filesystem::path& path) : DataStep(step_at(path)) {}
  explicit DataStep(formats::CapturedStep step) : DataStep(std::move(step.graph), step.host_bytes) {}
  DataStep(const DataStep&) = delete;
  DataStep& operator=(const DataStep&) = delete;
  ~DataStep() = default;

  static formats::CapturedStep step_at(const std::filesystem::path& path) {
    return formats::read_captured_step(testing::text_of(path), path.string()).value();
  }

  Graph graph;
  Bytes host_bytes;
  Machine machine;  ///< all costs are given
  Problem problem;
};

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
    const DataStep step(*path);
    std::int64_t forward = 0;
    for (std::size_t v = 0; v < step.graph.ops.size(); ++v)
      if (step.graph.template_of(id_of<OpId>(v)).phase == OpPhase::forward) forward += step.problem.cost[v];
    const StepPlan plan = plan_step_within(step.problem, (16'000'000'000 - 8 * parameters) / batch);
    ASSERT_TRUE(plan.fits()) << name;
    EXPECT_LE(plan.outcome.added_cost, forward) << name;
  }
}

/// What a frontier costs within a budget; -1: it does not reach it.
std::int64_t cost_within(const std::vector<FrontierPoint>& frontier, Bytes budget) {
  std::int64_t cost = -1;
  for (const FrontierPoint& point : frontier)
    if (point.peak_bytes <= budget) cost = point.added_cost;
  return cost;
}

TEST(PlanStep, SwapsAndRecomputesTogetherBeatEitherAlone) {
  const auto path = testing::data_path("graphs/poet_resnet18cifar_a72.swapgraph");
  if (!path) GTEST_SKIP() << "the reference data is not there";
  const DataStep step(*path);
  const StepPlan loose = plan_step_within(step.problem, 3'000'000);
  EXPECT_EQ(loose.outcome.added_cost, 0);
  EXPECT_NEAR(step.graph.given_costs.to_units(loose.outcome.cost), 7.88951, 5e-6);
  EXPECT_TRUE(loose.order.swaps.empty());
  Graph only_swaps = step.graph, only_recomputes = step.graph;
  for (Recipe& recipe : only_swaps.recipes) recipe.pure = false;
  for (StorageTemplate& row : only_recomputes.storage_templates) row.swappable = false;
  const DataStep swaps(std::move(only_swaps), step.host_bytes);
  const DataStep recomputes(std::move(only_recomputes), step.host_bytes);
  const PlanLimits limits{.effort = 0.1};
  const std::vector<FrontierPoint> joint = frontier_of(step.problem, limits);
  int better = 0, compared = 0;
  for (const DataStep* alone : {&swaps, &recomputes})
    for (const FrontierPoint& point : frontier_of(alone->problem, limits)) {
      const std::int64_t cost = cost_within(joint, point.peak_bytes);
      ASSERT_GE(cost, 0) << point.peak_bytes;
      EXPECT_LE(cost, point.added_cost) << point.peak_bytes;
      ++compared;
      better += cost < point.added_cost ? 1 : 0;
    }
  EXPECT_GT(compared, 100);
  EXPECT_GT(better, compared / 2);
  for (const Bytes budget : {2'000'000, 1'200'000, 700'000}) {
    const StepPlan plan = plan_step_within(step.problem, budget, {.effort = 0.05});
    ASSERT_TRUE(plan.fits()) << budget;
    for (const DataStep* alone : {&swaps, &recomputes}) {
      const StepPlan other = plan_step_within(alone->problem, budget, {.effort = 0.05});
      if (other.fits()) {
        EXPECT_LE(plan.outcome.added_cost, other.outcome.added_cost) << budget;
        if (budget < 2'000'000) {
          EXPECT_LT(plan.outcome.added_cost, other.outcome.added_cost) << budget;
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
  const DataStep step(*path);
  const Bytes keep = step.problem.liveness.peak_bytes;
  const Bytes least = plan_step_within(step.problem, keep).lower_bound_bytes;
  constexpr int kBudgets = 100;
  const PlanLimits limits{.effort = 0.01};
  StepPlanner planner(step.problem, limits);
  StepPlan last = plan_step_within(step.problem, keep);
  int fitted = 0;
  for (int i = 0; i < kBudgets; ++i) {
    const Bytes budget = keep - (keep - least) * i / (kBudgets - 1);
    StepPlan plan = planner.within(budget);
    if (i % 10 == 5) {
      EXPECT_EQ(plan_step_within(step.problem, budget, limits).order, plan.order) << budget;
    }
    if (!plan.fits()) {
      last = plan;
      continue;
    }
    ASSERT_TRUE(last.fits()) << budget << " fits, and a looser budget did not";
    EXPECT_LE(plan.outcome.peak_bytes, last.outcome.peak_bytes) << budget;
    EXPECT_GE(plan.outcome.added_cost, last.outcome.added_cost) << budget;
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
}  // namespace tidemark::decide::flat
