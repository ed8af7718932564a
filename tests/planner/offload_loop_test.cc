// Random jobs with budgets on both sides of their static memory: how much state is offloaded, and what a plan says it
// adds. plan_step itself runs the checker on every program.

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "planner/planner.h"
#include "policies/policies.h"
#include "tests/support/pangu.h"
#include "tests/support/random_job.h"
#include "tests/support/sanitized.h"

namespace tidemark::plan {
namespace {

const Policy& optimal() {
  return *policies::find_policy("optimal");
}

PlanRequest request_for(const graph_build::JobSpec& job, const Policy& policy) {
  return {.job = job, .machine = testing::ascend_910b(), .policy = &policy, .load = 1.0};
}

PlanOutcome planned(const PlanRequest& request) {
  Result<PlanOutcome> outcome = plan_step(request);
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
  return std::move(outcome).value();
}

/// A budget between most of the static memory and what keeping everything takes, of a job of one rank.
Bytes random_budget(const RankFigures& kept, std::mt19937& random) {
  const Bytes fixed = kept.reserve_bytes + kept.static_bytes;
  const Bytes low = fixed - kept.static_bytes / 3;
  return low + (kept.peak_bytes - low) * static_cast<Bytes>(random() % 100) / 100;
}

graph_build::JobSpec one_rank_job(testing::JobGenerator& jobs) {
  graph_build::JobSpec job = jobs.next();
  while (job.parallel.pipeline > 1) job = jobs.next();
  return job;
}

TEST(OffloadLoop, NeverAddsMoreThanWithAllStateOnTheDevice) {
  testing::JobGenerator jobs(11);
  std::mt19937 random(11);
  Policy keeps_state = optimal();
  keeps_state.offloads_state = false;
  int offloaded = 0, only = 0;
  for (int round = 0; round < testing::cases(25); ++round) {
    const graph_build::JobSpec job = one_rank_job(jobs);
    const RankFigures kept = planned(request_for(job, *policies::find_policy("keep-all"))).ranks.front().figures;
    PlanRequest request = request_for(job, keeps_state);
    request.budget_bytes = random_budget(kept, random);
    const RankFigures without = planned(request).ranks.front().figures;
    request.policy = &optimal();
    const RankFigures with = planned(request).ranks.front().figures;
    if (without.fits) {
      EXPECT_TRUE(with.fits) << round;
      EXPECT_LE(with.added_ns, without.added_ns) << round;
    }
    offloaded += with.fits && with.offloaded_bytes > 0 ? 1 : 0;
    only += with.fits && !without.fits ? 1 : 0;
  }
  EXPECT_GT(offloaded, testing::kSanitized ? 0 : 5);
  EXPECT_GT(only, testing::kSanitized ? 0 : 2);
}

TEST(OffloadLoop, AddsNoMoreThanItSays) {
  testing::JobGenerator jobs(12);
  std::mt19937 random(12);
  int offloaded = 0;
  for (int round = 0; round < testing::cases(40); ++round) {
    const graph_build::JobSpec job = one_rank_job(jobs);
    const RankFigures kept = planned(request_for(job, *policies::find_policy("keep-all"))).ranks.front().figures;
    PlanRequest request = request_for(job, optimal());
    request.budget_bytes = random_budget(kept, random);
    const PlanOutcome outcome = planned(request);
    const RankFigures& f = outcome.ranks.front().figures;
    if (!f.fits || f.offloaded_bytes == 0) continue;
    ++offloaded;
    const StepFigures& step = outcome.step;
    EXPECT_LE(static_cast<double>(step.step_ns - step.keep_all_step_ns),
              static_cast<double>(f.added_ns) + 2e-3 * static_cast<double>(step.keep_all_step_ns))
        << round;
  }
  EXPECT_GT(offloaded, testing::kSanitized ? 0 : 8);
}

TEST(OffloadLoop, AdvisedBudgetsDo) {
  testing::JobGenerator jobs(13);
  std::mt19937 random(13);
  int advised = 0, host_advised = 0;
  for (int round = 0; round < testing::cases(60); ++round) {
    const graph_build::JobSpec job = one_rank_job(jobs);
    const RankFigures kept = planned(request_for(job, *policies::find_policy("keep-all"))).ranks.front().figures;
    PlanRequest request = request_for(job, optimal());
    request.budget_bytes = random_budget(kept, random);
    request.host_budget_bytes = kept.static_bytes * static_cast<Bytes>(random() % 30) / 100;
    const RankFigures f = planned(request).ranks.front().figures;
    if (f.fits) continue;
    if (f.smallest_budget_bytes > 0) {
      ++advised;
      PlanRequest more = request;
      more.budget_bytes = f.smallest_budget_bytes;
      EXPECT_TRUE(planned(more).fits()) << round;
      *more.budget_bytes += static_cast<Bytes>(random()) % (f.smallest_budget_bytes / 64);
      EXPECT_TRUE(planned(more).fits()) << round;
    }
    if (f.smallest_host_budget_bytes > 0) {
      ++host_advised;
      PlanRequest more = request;
      more.host_budget_bytes = f.smallest_host_budget_bytes;
      EXPECT_TRUE(planned(more).fits()) << round;
    }
  }
  EXPECT_GT(advised, testing::kSanitized ? 0 : 5);
  EXPECT_GT(host_advised, testing::kSanitized ? 0 : 1);
}

/// Nobody may cache an address across a gap: offsets belong to residencies.
TEST(Addresses, AStorageMayComeBackElsewhere) {
  testing::JobGenerator jobs(14);
  std::mt19937 random(14);
  int moved = 0;
  for (int round = 0; round < 10; ++round) {
    const graph_build::JobSpec job = one_rank_job(jobs);
    const RankFigures kept = planned(request_for(job, *policies::find_policy("keep-all"))).ranks.front().figures;
    PlanRequest request = request_for(job, optimal());
    request.budget_bytes = random_budget(kept, random);
    for (const RankPlan& rank : planned(request).ranks) {
      std::map<StorageId, std::set<Bytes>> offsets;
      const Program& program = rank.program;
      for (std::size_t r = 0; r < program.schedule.residencies.size(); ++r)
        if (program.schedule.residencies[r].space == MemorySpace::device)
          offsets[program.schedule.residencies[r].storage].insert(program.layout.offset_of[r]);
      for (const auto& [storage, at] : offsets) moved += at.size() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(moved, 0);
}

/// Where what needs the least is far above the budget, no search at the budget is made first: it would take most of the
/// time and find nothing. The advice does not depend on how far the budget is, and is one that does.
TEST(FarBudgets, AreRefusedWithoutASearchAtThem) {
  testing::JobGenerator jobs(15);
  int named = 0;
  for (int round = 0; round < testing::cases(15); ++round) {
    PlanRequest request = request_for(one_rank_job(jobs), optimal());
    const RankFigures kept =
        planned(request_for(request.job, *policies::find_policy("keep-all"))).ranks.front().figures;
    std::map<Bytes, RankFigures> by_budget;
    for (const Bytes percent : {2, 4}) {
      request.budget_bytes = kept.reserve_bytes + (kept.peak_bytes - kept.reserve_bytes) * percent / 100;
      const PlanOutcome outcome = planned(request);
      const RankPlan& rank = outcome.ranks.front();
      ASSERT_FALSE(rank.figures.fits) << round;
      for (const PlanAttempt& attempt : rank.attempts)  // 0: as little as can be
        EXPECT_TRUE(attempt.target_bytes == 0 || attempt.target_bytes > *request.budget_bytes - kept.reserve_bytes)
            << round;
      by_budget[percent] = rank.figures;
    }
    const Bytes smallest = by_budget[2].smallest_budget_bytes;
    EXPECT_EQ(smallest, by_budget[4].smallest_budget_bytes) << round;
    if (smallest == 0) continue;
    ++named;
    request.budget_bytes = smallest;
    EXPECT_TRUE(planned(request).fits()) << round;
  }
  EXPECT_GT(named, testing::kSanitized ? 0 : 10);
}

}  // namespace
}  // namespace tidemark::plan
