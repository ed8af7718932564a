// Loads other than the planned one: whatever routing does, every step completes in the memory of its plan, nothing
// races and nothing holds what it should not.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "core/row_sections.h"
#include "planner/graph_build/load_shape.h"
#include "policies/policies.h"
#include "tests/support/pangu.h"
#include "tests/support/planned_step.h"
#include "tests/support/sanitized.h"

namespace tidemark::swap {
namespace {

using testing::expect_clean;
using testing::PlannedStep;
using testing::run_of;
using testing::StepGenerator;

struct Seen {
  std::size_t beside_slot = 0, spilled = 0, in_chunks = 0;
  std::int32_t most_chunks = 0;
};

void count(const run::SimRun& run, Seen& seen) {
  for (const run::SimRankRun& rank : run.ranks) {
    seen.beside_slot += rank.report.oversized.size();
    seen.spilled += rank.report.spills.size();
    seen.in_chunks += rank.report.sections.size();
    for (const SectionRecord& s : rank.report.sections) seen.most_chunks = std::max(seen.most_chunks, s.chunks);
  }
}

/// From nothing to far beyond the plan, most of it around the plan.
double any_load(std::mt19937& random) {
  const double share = static_cast<double>(random() % 1001) / 1000;
  return random() % 8 == 0 ? 0 : 1.1 * std::exp(3 * share * share * (random() % 4 == 0 ? -1 : 1));
}

TEST(AnyLoadRun, EveryStepCompletes) {
  StepGenerator generator(21);
  Seen seen;
  for (int i = 0; i < testing::cases(15); ++i) {
    const PlannedStep step = generator.next_routed(1.0 + 0.1 * generator.below(4), 50 + 5 * (i % 10));
    for (std::uint32_t trial = 0; trial < 4; ++trial) {
      run::SimRunRequest request = run_of(step, trial);
      request.verify = true;
      std::mt19937 random(trial + 100);
      const double everywhere = trial == 0 ? 16 : 0;
      request.load = [&](std::int32_t, SiteId) { return everywhere > 0 ? everywhere : any_load(random); };
      const Result<run::SimRun> run = run::run_on_sim(request);
      const std::string what = "job " + std::to_string(i) + ", trial " + std::to_string(trial);
      ASSERT_TRUE(run.ok()) << what << ": " << run.error().message;
      expect_clean(step, run.value(), what);
      count(run.value(), seen);
    }
  }
  if (testing::kSanitized) return;  // too few to see everything
  EXPECT_GT(seen.beside_slot, 200U);
  EXPECT_GT(seen.spilled, 20U);
  EXPECT_GT(seen.in_chunks, 500U);
  EXPECT_GT(seen.most_chunks, 8);
}

/// Whatever the group says: chunks where nobody here needs them, and more of them than here are needed.
TEST(AnyLoadRun, TheGroupMayAskForChunksAnywhere) {
  StepGenerator generator(33);
  std::size_t unasked = 0;
  for (int i = 0; i < testing::cases(6); ++i) {
    const PlannedStep step = generator.next_routed(1.1, 50 + 8 * i);
    for (std::uint32_t trial = 0; trial < 3; ++trial) {
      run::SimRunRequest request = run_of(step, trial);
      request.verify = true;
      request.agree = [&](std::int32_t rank, std::int32_t section, ChunkWish wish) -> std::int32_t {
        const bool others = (section * 7 + rank + static_cast<std::int32_t>(trial)) % 3 == 0;
        return wish.wanted || others ? wish.chunks + section % 3 : 1;
      };
      std::mt19937 random(trial + 300);
      if (trial > 0) request.load = [&](std::int32_t, SiteId) { return any_load(random); };
      const Result<run::SimRun> run = run::run_on_sim(request);
      const std::string what = "job " + std::to_string(i) + ", trial " + std::to_string(trial);
      ASSERT_TRUE(run.ok()) << what << ": " << run.error().message;
      expect_clean(step, run.value(), what);
      for (const run::SimRankRun& rank : run.value().ranks)
        for (const SectionRecord& s : rank.report.sections) unasked += s.wanted ? 0 : 1;
    }
  }
  EXPECT_GT(unasked, testing::cases(100U));
}

/// From some micro-batch on.
TEST(AnyLoadRun, ALoadThatRisesMidStepCompletes) {
  StepGenerator generator(22);
  for (int i = 0; i < 6; ++i) {
    const PlannedStep step = generator.next_routed(1.1, 50 + 10 * (i % 5));
    run::SimRunRequest request = run_of(step);
    request.verify = true;
    request.load = [&](std::int32_t rank, SiteId site) {
      const plan::RankPlan& plan = step.outcome.ranks[static_cast<std::size_t>(rank)];
      return plan.graph.sites[row(site)].micro_batch >= 1 ? 3.0 : plan.figures.load;
    };
    const Result<run::SimRun> run = run::run_on_sim(request);
    ASSERT_TRUE(run.ok()) << run.error().message;
    expect_clean(step, run.value(), "job " + std::to_string(i));
  }
}

/// At the planned load nothing is done that the plan does not say.
TEST(AnyLoadRun, AsPlannedNoRungIsTaken) {
  StepGenerator generator(24);
  for (int i = 0; i < 4; ++i) {
    const PlannedStep step = generator.next_routed(1.2, 60);
    run::SimRunRequest request = run_of(step);
    const Result<run::SimRun> plain = run::run_on_sim(request);
    request.load = [&](std::int32_t rank, SiteId) {
      return step.outcome.ranks[static_cast<std::size_t>(rank)].figures.load;
    };
    const Result<run::SimRun> loaded = run::run_on_sim(request);
    ASSERT_TRUE(plain.ok() && loaded.ok());
    Seen seen;
    count(loaded.value(), seen);
    EXPECT_EQ(seen.beside_slot + seen.spilled + seen.in_chunks, 0U);
    EXPECT_EQ(plain.value().step_ns, loaded.value().step_ns);
  }
}

TEST(AnyLoadRun, AGroupThatDoesNotAgreeIsToldBeforeAnythingIsOverwritten) {
  const PlannedStep step = StepGenerator(23).next_routed(1.1, 60);
  run::SimRunRequest request = run_of(step);
  request.load = [](std::int32_t, SiteId) { return 64.0; };
  request.agree = [](std::int32_t, std::int32_t, ChunkWish) -> std::int32_t { return 1; };
  const Result<run::SimRun> run = run::run_on_sim(request);
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code, Error::Code::infeasible);
  for (const char* word : {"rank ", "layer ", "micro-batch ", "load 64", "the group did not agree"})
    EXPECT_NE(run.error().message.find(word), std::string::npos) << run.error().message;
}

/// A group that is lost ends the step of every rank, also of one that needs no chunks, at the section that asks.
TEST(AnyLoadRun, AGroupThatIsLostEndsTheStepOfARankThatNeedsNothing) {
  const PlannedStep step = StepGenerator(23).next_routed(1.1, 60);
  run::SimRunRequest request = run_of(step);
  request.agree = [](std::int32_t, std::int32_t section, ChunkWish wish) -> Result<std::int32_t> {
    EXPECT_FALSE(wish.wanted);
    if (section == 1) return infeasible("rank 7 is gone");
    return 1;
  };
  const Result<run::SimRun> run = run::run_on_sim(request);
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code, Error::Code::infeasible);
  for (const char* word : {"layer ", "micro-batch ", "section 1: rank 7 is gone"})
    EXPECT_NE(run.error().message.find(word), std::string::npos) << run.error().message;
}

TEST(AnyLoadRun, ALoadThatIsNoneIsRefusedByName) {
  const PlannedStep step = StepGenerator(23).next_routed(1.1, 60);
  for (const double load :
       {-1.0, 1048577.0, 1e300, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    run::SimRunRequest request = run_of(step);
    request.load = [&](std::int32_t, SiteId) { return load; };
    const Result<run::SimRun> run = run::run_on_sim(request);
    ASSERT_FALSE(run.ok()) << load;
    EXPECT_EQ(run.error().code, Error::Code::bad_input) << run.error().message;
    for (const char* word : {"rank ", "layer ", "from 0 to 1048576"})
      EXPECT_NE(run.error().message.find(word), std::string::npos) << run.error().message;
  }
}

/// All rows of a very wide group on one device.
TEST(AnyLoadRun, AWideGroupCompletesItsWorstLoad) {
  PlannedStep step{.request = {.job = testing::small_job(),
                               .machine = testing::ascend_910b(),
                               .policy = policies::find_policy("keep-all"),
                               .load = 1}};
  graph_build::JobSpec& job = step.request.job;
  job.model.layers = testing::layer_kinds(0, 1);
  job.model.moe = {.experts = 2048, .top_k = 1, .width = 64};
  job.model.mtp_layers = 0;
  job.parallel = {.micro_batch = 1, .global_batch = 2048};
  job.parallel.data = job.parallel.expert = 2048;
  testing::fill_slots(job);
  Result<plan::PlanOutcome> planned = plan::plan_step(step.request);
  ASSERT_TRUE(planned.ok()) << planned.error().message;
  step.outcome = std::move(planned).value();
  const graph_build::LoadShape shape = graph_build::load_shape(job, step.request.machine).value();
  EXPECT_EQ(shape.most_load(), 2048);
  EXPECT_EQ(step.outcome.ranks.front().figures.worst_load_f, 2048);
  run::SimRunRequest request = run_of(step);
  request.load = [&](std::int32_t, SiteId) { return shape.worst(); };
  const Result<run::SimRun> run = run::run_on_sim(request);
  ASSERT_TRUE(run.ok()) << run.error().message;
  expect_clean(step, run.value(), "all rows on one device");
}

/// Sections as planned can run in chunks in every plan, however the layout is squeezed.
TEST(AnyLoadRun, EverySectionOfAPlanCanRunInChunks) {
  StepGenerator generator(25);
  std::size_t sections = 0;
  for (int i = 0; i < testing::cases(20); ++i) {
    const PlannedStep step = generator.next_routed(1.0 + 0.1 * (i % 4), 45 + 3 * i);
    for (const plan::RankPlan& rank : step.outcome.ranks)
      for (const RowSection& section : row_sections(rank.program)) {
        ++sections;
        EXPECT_EQ(section.fault, "") << "job " << i << ", rank " << rank.figures.rank;
        const Bytes room = rank.program.schedule.residencies[row(section.room)].bytes;
        EXPECT_GT(least_chunks(rank.program, section, 64, room), 0) << "job " << i << ", rank " << rank.figures.rank;
      }
  }
  EXPECT_GT(sections, testing::kSanitized ? 15U : 300U);
}

}  // namespace
}  // namespace tidemark::swap
