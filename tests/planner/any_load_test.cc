// Up to which load a plan promises every step, and what it names where it promises nothing.

#include "planner/any_load.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/row_sections.h"
#include "policies/policies.h"
#include "tests/support/pangu.h"

namespace tidemark::plan {
namespace {

PlanOutcome planned(double load, std::optional<Bytes> budget = {}) {
  Result<PlanOutcome> outcome = plan_step({.job = testing::small_job(),
                                           .machine = testing::ascend_910b(),
                                           .policy = policies::find_policy("optimal"),
                                           .budget_bytes = budget,
                                           .load = load});
  EXPECT_TRUE(outcome.ok());
  return outcome.ok() ? std::move(outcome).value() : PlanOutcome{};
}

/// Chunks stand in a slot of rows that are sent, which has the mean however few rows the plan counts on.
TEST(AnyLoad, APlanForNextToNoRowPromisesAnyLoad) {
  for (const RankPlan& rank : planned(0.001).ranks) {
    EXPECT_EQ(rank.figures.worst_load_f, 1) << rank.figures.reason;
    EXPECT_EQ(rank.figures.reason, "");
  }
}

/// The smallest budget of a plan that does not fit promises what any other does, and a little less does not.
TEST(AnyLoad, TheBudgetThatIsNamedIsEnoughForAnyLoad) {
  const Bytes reserve = reserve_of({.job = testing::small_job(), .machine = testing::ascend_910b()}).total();
  Bytes enough = 0;
  for (const RankPlan& rank : planned(1.2, reserve + kMiB).ranks) {
    EXPECT_FALSE(rank.figures.fits);
    EXPECT_EQ(rank.figures.worst_load_f, 0);
    enough = std::max(enough, rank.figures.smallest_budget_bytes);
  }
  ASSERT_GT(enough, reserve);
  for (const RankPlan& rank : planned(1.2, enough).ranks) EXPECT_EQ(rank.figures.worst_load_f, 1);
  EXPECT_FALSE(planned(1.2, enough - (enough - reserve) / 50).fits());
}

/// Parts of an exchange are planned one beside the other; in chunks the rows of one stand at a time.
TEST(AnyLoad, ChunksRunPartByPart) {
  graph_build::JobSpec job = testing::small_job();
  job.parallel.data = job.parallel.expert = 2;
  job.parallel.expert_exchange_parts = 3;
  job.parallel.global_batch *= 2;
  const Result<PlanOutcome> plan = plan_step(
      {.job = job, .machine = testing::ascend_910b(), .policy = policies::find_policy("optimal"), .load = 1.0});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  std::size_t sections = 0;
  for (const RankPlan& rank : plan.value().ranks) {
    EXPECT_GT(rank.figures.worst_load_f, 1) << rank.figures.reason;
    for (const RowSection& section : row_sections(rank.program)) {
      std::vector<std::string> parts;  // in the order in which they are taken up
      for (const TaskId task : section.loop) {
        const Task& of = rank.program.schedule.tasks[row(task)];
        const std::string& name = rank.graph.op_templates[row(of.op_template)].name;
        if (const auto at = name.find(".part");
            at != std::string::npos && (parts.empty() || parts.back() != name.substr(at)))
          parts.push_back(name.substr(at));
      }
      EXPECT_EQ(parts, (std::vector<std::string>{".part0", ".part1", ".part2"}));
      ++sections;
    }
  }
  EXPECT_GT(sections, 10U);
}

/// Few rows in many parts: a chunk of one row takes more than the slot of a part. The plan says so, and what would do.
TEST(AnyLoad, PartsOfTooFewRowsAreNamed) {
  graph_build::JobSpec job = testing::small_job();
  job.model.layers = testing::layer_kinds(0, 2);
  job.model.hidden = 1024;
  job.model.moe = {.experts = 7, .top_k = 1, .width = 256};
  job.parallel = {.micro_batch = 1, .global_batch = 7};
  job.parallel.data = job.parallel.expert = 7;
  job.parallel.hierarchical_expert_communication = false;
  testing::fill_slots(job);
  const auto promised = [&](std::int32_t parts, double load) {
    job.parallel.expert_exchange_parts = parts;
    const Result<PlanOutcome> plan = plan_step(
        {.job = job, .machine = testing::ascend_910b(), .policy = policies::find_policy("keep-all"), .load = load});
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    return plan.value().ranks.front().figures;
  };
  EXPECT_EQ(promised(1, 1).worst_load_f, 7);
  const RankFigures in_parts = promised(16, 1);
  EXPECT_EQ(in_parts.worst_load_f, 0);
  EXPECT_TRUE(in_parts.reason.ends_with("; fewer parts of the expert exchange leave more")) << in_parts.reason;
  EXPECT_EQ(promised(16, 7).worst_load_f, 7) << "all slots do for the worst load: nothing runs in chunks";
}

}  // namespace
}  // namespace tidemark::plan
