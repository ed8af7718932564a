// Steps on real memory, with streams that are threads: the shipped small model at 1/64, every byte checked.

#include <gtest/gtest.h>

#include "integrations/formats/file.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/run/run_plan.h"
#include "planner/planner.h"
#include "policies/policies.h"

namespace tidemark {
namespace {

PlanRequest small_request(std::optional<Bytes> budget) {
  const std::string root = TIDEMARK_SOURCE_DIR;
  const std::string model = root + "/models/small-mla-moe.yaml", device = root + "/devices/ascend-910b-64g.yaml";
  return {.job = read_job(read_file(model).value(), model).value(),
          .machine = read_machine(read_file(device).value(), device).value(),
          .policy = find_policy("optimal"),
          .budget_bytes = budget,
          .load = 1.1};
}

/// Under ThreadSanitizer one rank is enough, and all the time there is.
#ifdef __SANITIZE_THREAD__
constexpr std::optional<std::int32_t> kRank = 0;
#else
constexpr std::optional<std::int32_t> kRank;
#endif

void expect_right(const PlanRequest& request, std::optional<LoadChange> load) {
  const Result<PlanOutcome> plan = plan_step(request);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_TRUE(plan.value().fits());
  const RunAsk ask{.device = RunDevice::host, .rank = kRank, .scale = 64, .verify = true, .load = load};
  const Result<RunOutcome> run = run_plan(plan.value(), request.machine, ask);
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_TRUE(run.value().problems.empty()) << run.value().problems.front();
  EXPECT_FALSE(run.value().simulated);
  for (const RankOutcome& rank : run.value().ranks) EXPECT_GT(rank.report.verified_reads, 1000);
}

TEST(HostRun, EveryByteOfTheSmallModelIsRight) {
  expect_right(small_request(std::nullopt), std::nullopt);
}

TEST(HostRun, EveryByteIsRightWithCopiesUnderPressure) {
  expect_right(small_request(5300 * kMiB), std::nullopt);
}

TEST(HostRun, EveryByteIsRightAboveThePlannedLoad) {
  expect_right(small_request(std::nullopt), LoadChange{.load = 1.5, .from_op = 200});
}

/// Memory that the plan's figure does not cover is found by what the device gave, on every back end.
TEST(HostRun, MoreTakenThanThePlanSaysIsTold) {
  const PlanRequest request = small_request(std::nullopt);
  Result<PlanOutcome> plan = plan_step(request);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  for (RankPlan& rank : plan.value().ranks)
    for (Arena& arena : rank.program.layout.arenas)
      if (arena.space == MemorySpace::device) {
        arena.height_bytes += 256 * kMiB;
        arena.capacity_bytes += 512 * kMiB;
      }
  for (const RunDevice device : {RunDevice::sim, RunDevice::host}) {
    const std::int64_t scale = device == RunDevice::sim ? 1 : 64;
    const Result<RunOutcome> run =
        run_plan(plan.value(), request.machine, {.device = device, .rank = 0, .scale = scale});
    ASSERT_TRUE(run.ok()) << run.error().message;
    ASSERT_FALSE(run.value().problems.empty());
    EXPECT_NE(run.value().problems.front().find("the plan allows"), std::string::npos) << run.value().problems.front();
  }
}

}  // namespace
}  // namespace tidemark
