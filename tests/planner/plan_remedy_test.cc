// A remedy is planned anew and judged; where none clears, the budget that is named does.

#include "planner/plan_remedy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "planner/budget/limit.h"
#include "planner/plan_holdings.h"
#include "policies/policies.h"
#include "tests/support/random_job.h"
#include "tests/support/sanitized.h"

namespace tidemark::plan {
namespace {

const Policy& optimal() {
  return *policies::find_policy("optimal");
}

PlanRequest request_for(const graph_build::JobSpec& job, const char* policy) {
  return {.job = job,
          .machine = testing::ascend_910b(),
          .policy = policies::find_policy(policy),
          .load = 1.0,
          .figures_only = true};
}

struct Span {
  Bytes floor = 0, peak = 0;  ///< of the rank with the most that is always there, and of the highest
  [[nodiscard]] Bytes at(int percent) const { return floor + (peak - floor) * percent / 100; }
};

Span span_of(const PlanOutcome& outcome) {
  Span span;
  for (const RankPlan& r : outcome.ranks) {
    span.floor = std::max(span.floor, r.figures.reserve_bytes + r.figures.static_bytes);
    span.peak = std::max(span.peak, r.figures.peak_bytes);
  }
  return span;
}

budget::Verdict verdict(const PlanRequest& request, const PlanOutcome& outcome, const MemoryLimits& limits) {
  return budget::worst(
      budget::judge(holdings_of(request, outcome, "job"),
                    {{.most_bytes = limits.device_bytes}, {.is_host = true, .most_bytes = limits.host_bytes}}));
}

/// What a remedy says is so: its own outcome, and a plan of all ranks made from nothing but its request, by a brief
/// search and by a whole one.
void expect_clears(const PlanRemedy& found, const MemoryLimits& limits, const std::string& what) {
  EXPECT_FALSE(found.remedy.edits.empty()) << what;
  EXPECT_NE(verdict(found.request, found.outcome, limits), budget::Verdict::fail) << what;
  EXPECT_LE(found.remedy.peak_bytes, limits.device_bytes) << what;
  PlanRequest anew = found.request;
  anew.figures_only = false;
  for (const bool is_brief : {true, false}) {
    anew.is_brief = is_brief;
    const Result<PlanOutcome> planned = plan_step(anew);
    ASSERT_TRUE(planned.ok()) << what << ": " << planned.error().message;
    EXPECT_TRUE(planned.value().fits()) << what;
    EXPECT_NE(verdict(anew, planned.value(), limits), budget::Verdict::fail) << what;
  }
}

TEST(PlanRemedy, ClearsAsItSaysOrNamesABudgetThatDoes) {
  testing::JobGenerator generator(20261201);
  int by_plan = 0, by_change = 0, none = 0;
  constexpr std::array<const char*, 2> kPolicies = {"keep-all", "full-recompute"};
  for (int i = 0; i < testing::cases(18); ++i) {
    const PlanRequest request = request_for(generator.next(), kPolicies[static_cast<std::size_t>(i) % 2]);
    Result<PlanOutcome> planned = plan_step(request);
    ASSERT_TRUE(planned.ok()) << planned.error().message;
    const Span span = span_of(planned.value());
    const MemoryLimits limits{.device_bytes = span.at(std::array{97, 60, 25, 5}[static_cast<std::size_t>(i / 2) % 4]),
                              .host_bytes = i % 3 == 0 ? 0 : request.machine.host_bytes_per_device};
    if (std::ranges::none_of(planned.value().ranks, [&](const RankPlan& r) { return exceeds(r.figures, limits); }))
      continue;
    const std::string what = "job " + std::to_string(i) + " " + std::string(request.policy->name);
    const Result<PlanRemedy> found =
        find_remedy({.request = request, .limits = limits, .search = optimal()}, std::move(planned).value());
    ASSERT_TRUE(found.ok()) << what << ": " << found.error().message;
    const budget::Remedy& remedy = found.value().remedy;
    EXPECT_FALSE(remedy.reason.empty()) << what;
    if (remedy.clears) {
      ++(found.value().request.job == request.job ? by_plan : by_change);
      EXPECT_TRUE(remedy.step_percent.has_value()) << what;
      expect_clears(found.value(), limits, what);
      continue;
    }
    ++none;
    EXPECT_TRUE(remedy.edits.empty()) << what;
    EXPECT_GT(remedy.peak_bytes, limits.device_bytes) << what << ": " << remedy.reason;
    PlanRequest enough = found.value().request;
    enough.budget_bytes = remedy.peak_bytes + 1;
    for (const bool is_brief : {true, false}) {
      enough.is_brief = is_brief;
      const Result<PlanOutcome> fits = plan_step(enough);
      ASSERT_TRUE(fits.ok()) << what;
      EXPECT_TRUE(fits.value().fits()) << what << ": " << remedy.reason;
    }
  }
  EXPECT_GT(by_plan + by_change + none, 0);
  if (testing::kSanitized) return;  // the few cases drawn there need not end in every way
  EXPECT_GT(by_plan, 0);
  EXPECT_GT(by_change + none, 0);
}

TEST(PlanRemedy, HalvesAMicroBatchWhereNoPlanFits) {
  graph_build::JobSpec job;
  for (testing::JobGenerator generator(3); job.parallel.micro_batch != 2 || job.parallel.pipeline == 1;)
    job = generator.next();
  const PlanRequest request = request_for(job, "optimal");
  PlanRequest halved = request;
  halved.job.parallel.micro_batch = 1;
  PlanRequest tight = request;
  tight.budget_bytes = kGiB;  // nothing fits: the smallest budgets are named
  tight.is_brief = true;      // as far as a remedy looks
  PlanRequest tight_halved = halved;
  tight_halved.budget_bytes = kGiB;
  tight_halved.is_brief = true;
  Bytes whole_least = 0, half_least = 0;
  const Result<PlanOutcome> least = plan_step(tight);
  const Result<PlanOutcome> half = plan_step(tight_halved);
  ASSERT_TRUE(least.ok() && half.ok());
  for (const RankPlan& r : least.value().ranks) whole_least = std::max(whole_least, r.figures.smallest_budget_bytes);
  for (const RankPlan& r : half.value().ranks) half_least = std::max(half_least, r.figures.smallest_budget_bytes);
  ASSERT_GT(whole_least, half_least);
  const MemoryLimits limits{.device_bytes = half_least, .host_bytes = request.machine.host_bytes_per_device};
  PlanRequest asked = request;
  asked.budget_bytes = limits.device_bytes;
  Result<PlanOutcome> planned = plan_step(asked);
  ASSERT_TRUE(planned.ok());
  ASSERT_FALSE(planned.value().fits());
  const Result<PlanRemedy> found =
      find_remedy({.request = asked, .limits = limits, .search = optimal()}, std::move(planned).value());
  ASSERT_TRUE(found.ok());
  ASSERT_TRUE(found.value().remedy.clears) << found.value().remedy.reason;
  EXPECT_FALSE(found.value().remedy.edits.front().where.text.empty());
  EXPECT_NE(found.value().request.job, job);
  expect_clears(found.value(), limits, "micro-batch halved");
}

TEST(PlanRemedy, OnlyRanksThatExceedAreChanged) {
  testing::JobGenerator generator(20261202);
  int checked = 0;
  for (int i = 0; i < testing::cases(30) && checked < 3; ++i) {
    const PlanRequest request = request_for(generator.next(), "keep-all");
    Result<PlanOutcome> planned = plan_step(request);
    ASSERT_TRUE(planned.ok());
    std::vector<Bytes> peaks;
    for (const RankPlan& r : planned.value().ranks) peaks.push_back(r.figures.peak_bytes);
    const auto [low, high] = std::ranges::minmax(peaks);
    if (high - low < kMiB) continue;
    const MemoryLimits limits{.device_bytes = low + (high - low) / 2,
                              .host_bytes = request.machine.host_bytes_per_device};
    const Result<PlanRemedy> found = find_remedy(
        {.request = request, .limits = limits, .search = optimal(), .changes_job = false}, std::move(planned).value());
    ASSERT_TRUE(found.ok());
    if (!found.value().remedy.clears) continue;
    ++checked;
    for (std::size_t r = 0; r < peaks.size(); ++r) {
      const RankPlan& rank = found.value().outcome.ranks[r];
      EXPECT_EQ(rank.graph.rank, static_cast<std::int32_t>(r));
      if (peaks[r] <= limits.device_bytes) {
        EXPECT_EQ(rank.figures.peak_bytes, peaks[r]);
        EXPECT_TRUE(rank.decisions.rows.empty());
      }
    }
    for (const budget::Edit& edit : found.value().remedy.edits)
      EXPECT_NE(edit.text.find(" on pp"), std::string::npos) << edit.text;
  }
  EXPECT_GT(checked, 0);
}

TEST(PlanRemedy, AFixedPolicyThatDoesNotFitIsPlannedOnceAndNamesItsBudget) {
  testing::JobGenerator generator(20261203);
  for (int i = 0; i < testing::cases(12); ++i) {
    const graph_build::JobSpec job = generator.next();
    for (const Policy& policy : policies::policies()) {
      if (!policy.is_fixed) continue;
      PlanRequest request = request_for(job, "keep-all");
      request.policy = &policy;
      const Result<PlanOutcome> ample = plan_step(request);
      ASSERT_TRUE(ample.ok());
      request.budget_bytes = span_of(ample.value()).at(80);
      const Result<PlanOutcome> short_of = plan_step(request);
      ASSERT_TRUE(short_of.ok());
      Bytes enough = 0;
      for (const RankPlan& r : short_of.value().ranks) {
        EXPECT_EQ(r.attempts.size(), 1U) << policy.name;
        enough = std::max(enough, r.figures.fits ? r.figures.peak_bytes : r.figures.smallest_budget_bytes);
      }
      request.budget_bytes = enough;
      const Result<PlanOutcome> again = plan_step(request);
      ASSERT_TRUE(again.ok());
      EXPECT_TRUE(again.value().fits()) << "job " << i << " " << policy.name;
    }
  }
}

TEST(PlanRemedy, FiguresAloneAreTheSameFigures) {
  testing::JobGenerator generator(20261204);
  for (int i = 0; i < testing::cases(12); ++i) {
    PlanRequest request = request_for(generator.next(), "keep-all");
    request.load.reset();
    request.job.expert_load = {.coefficient_of_variation = 0.1, .layer_correlation = 0.25, .quantile = i % 2 * 0.99};
    const Result<PlanOutcome> kept = plan_step(request);
    ASSERT_TRUE(kept.ok());
    request.budget_bytes = span_of(kept.value()).at(70);
    for (const Policy& policy : policies::policies()) {
      request.policy = &policy;
      request.figures_only = true;
      const Result<PlanOutcome> quick = plan_step(request);
      request.figures_only = false;
      const Result<PlanOutcome> whole = plan_step(request);
      ASSERT_TRUE(quick.ok() && whole.ok());
      for (std::size_t r = 0; r < whole.value().ranks.size(); ++r) {
        const RankFigures& a = quick.value().ranks[r].figures;
        const RankFigures& b = whole.value().ranks[r].figures;
        const std::string what = "job " + std::to_string(i) + " " + std::string(policy.name);
        EXPECT_EQ(a.peak_bytes, b.peak_bytes) << what;
        EXPECT_EQ(a.host_bytes, b.host_bytes) << what;
        EXPECT_EQ(a.added_ns, b.added_ns) << what;
        EXPECT_EQ(a.load, b.load) << what;
        EXPECT_LE(a.lower_bound_ns, b.lower_bound_ns) << what;
        EXPECT_EQ(quick.value().ranks[r].decisions, whole.value().ranks[r].decisions) << what;
      }
      EXPECT_EQ(quick.value().step.step_ns, whole.value().step.step_ns);
    }
  }
}

/// A trial that is of no use ends there, and one that is of use is the plan itself.
TEST(Trial, LeavesOutWhatIsOfNoUse) {
  graph_build::JobSpec job;
  for (testing::JobGenerator generator(20261206); job.parallel.pipeline < 3;) job = generator.next();
  PlanRequest request = request_for(job, "optimal");
  request.is_brief = true;
  const Result<PlanOutcome> whole = plan_step(request);
  ASSERT_TRUE(whole.ok());
  request.trial.emplace(Trial{.first = {1}});
  const Result<PlanOutcome> trial = plan_step(request);
  ASSERT_TRUE(trial.ok());
  EXPECT_TRUE(trial.value().is_whole);
  ASSERT_EQ(trial.value().ranks.size(), whole.value().ranks.size());
  for (std::size_t r = 0; r < whole.value().ranks.size(); ++r)
    EXPECT_EQ(trial.value().ranks[r].figures, whole.value().ranks[r].figures);
  EXPECT_EQ(trial.value().step, whole.value().step);

  request.trial->useless_step_ns = whole.value().step.keep_all_step_ns;
  const Result<PlanOutcome> slow = plan_step(request);
  ASSERT_TRUE(slow.ok());
  EXPECT_FALSE(slow.value().fits());
  EXPECT_TRUE(slow.value().ranks.empty());

  request.trial.emplace(Trial{.first = {1}});
  request.budget_bytes = kMiB;
  const Result<PlanOutcome> tight = plan_step(request);
  ASSERT_TRUE(tight.ok());
  EXPECT_FALSE(tight.value().is_whole);
  ASSERT_EQ(tight.value().ranks.size(), 1U);
  EXPECT_EQ(tight.value().ranks.front().figures.rank, 1);
  EXPECT_GT(tight.value().ranks.front().figures.smallest_budget_bytes, kMiB);
}

TEST(JobChanges, AreAllowedAndKeepTheTokensOfAStep) {
  testing::JobGenerator generator(20261205);
  int changes = 0;
  for (int i = 0; i < 50; ++i) {
    const graph_build::JobSpec job = generator.next();
    for (const JobChange& change : job_changes(job)) {
      graph_build::JobSpec changed = job;
      change.apply(changed);
      ++changes;
      EXPECT_TRUE(graph_build::find_problems(changed).empty()) << change.text;
      EXPECT_NE(changed, job) << change.text;
      EXPECT_EQ(changed.parallel.global_batch, job.parallel.global_batch) << change.text;
      EXPECT_EQ(changed.parallel.devices(), job.parallel.devices()) << change.text;
      EXPECT_EQ(changed.model, job.model) << change.text;
      EXPECT_TRUE(change.text.starts_with(std::string(change.key) + ": ")) << change.text;
    }
  }
  EXPECT_GT(changes, 50);
}

RankFigures adding(std::int32_t rank, std::int64_t added_ns, std::int64_t bound_ns) {
  RankFigures figures;
  figures.rank = rank;
  figures.added_ns = added_ns;
  figures.lower_bound_ns = bound_ns;
  return figures;
}

/// That the rank which adds most can add no less says nothing of the others.
TEST(PlanRemedy, IsTheCheapestOnlyWhereEveryRankMeetsItsBound) {
  constexpr std::int64_t kMs = 1'000'000;
  EXPECT_EQ(cost_text({adding(0, 100 * kMs, 100 * kMs), adding(1, 90 * kMs, 90 * kMs)}),
            "the cheapest (proven by rank); times are modelled");
  EXPECT_EQ(
      cost_text({adding(0, 100 * kMs, 100 * kMs), adding(1, 90 * kMs, 10 * kMs)}),
      "cheapest found by a short search, adds 100.0 ms to a rank at most; on rank 1 it adds 90.0 ms, no plan adds "
      "less than 10.0 ms there (proven); times are modelled");
  EXPECT_EQ(cost_text({adding(0, 100 * kMs, 20 * kMs), adding(1, 90 * kMs, 90 * kMs)}),
            "cheapest found by a short search, adds 100.0 ms to a rank at most, no plan adds less than 20.0 ms there "
            "(proven); times are modelled");
  EXPECT_EQ(cost_text({adding(0, 100 * kMs, 0)}),
            "cheapest found by a short search, adds 100.0 ms to a rank at most; times are modelled");
}

}  // namespace
}  // namespace tidemark::plan
