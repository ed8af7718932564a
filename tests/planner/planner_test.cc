// The main job: all 16 ranks of the reference configuration (must-shows 4 and 7 of the planning issue).

#include "planner/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "core/verify.h"
#include "policies/policies.h"
#include "tests/support/pangu.h"

namespace tidemark::plan {
namespace {

PlanRequest pangu_request(std::string_view policy, double load) {
  return {.job = testing::pangu_job(),
          .machine = testing::ascend_910b(),
          .policy = policies::find_policy(policy),
          .load = load};
}

PlanOutcome planned(std::string_view policy, double load, Bytes host) {
  PlanRequest request = pangu_request(policy, load);
  request.host_budget_bytes = host;
  Result<PlanOutcome> outcome = plan_step(request);
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
  return std::move(outcome).value();
}

/// Where the rival fits (also in `host`), the step of the optimal plan is no longer; where `strictly`, each rank adds
/// less as well, but those that take a rival's rule for a shorter step.
void expect_no_dearer(const PlanOutcome& optimal, const PlanOutcome& rival, Bytes host, bool strictly,
                      const std::string& what) {
  for (std::size_t r = 0; r < optimal.ranks.size(); ++r) {
    const RankFigures& a = optimal.ranks[r].figures;
    const RankFigures& b = rival.ranks[r].figures;
    if (!b.fits || b.host_bytes > host || a.rule != "optimal") continue;
    if (strictly && a.added_ns > 0) {
      EXPECT_LT(a.added_ns, b.added_ns) << what << ", rank " << r;
    }
  }
  const bool fits = std::ranges::all_of(rival.ranks, [&](const RankPlan& r) { return r.figures.host_bytes <= host; });
  if (fits && rival.fits()) {
    EXPECT_LE(optimal.step.step_ns, rival.step.step_ns) << what;
  }
}

TEST(PlanStep, All16RanksFitAtEveryLoadAndHostBudgetAndCostLessThanTheOthers) {
  for (const double load : {1.0, 1.5, 2.0}) {
    std::map<std::string, PlanOutcome> rivals;  // rules that do not look at the host budget
    for (const char* name : {"keep-all", "full-recompute", "published-recipe"})
      rivals[name] = planned(name, load, 64 * kGiB);
    for (const Bytes host : {16 * kGiB, 32 * kGiB, 64 * kGiB}) {
      const PlanOutcome optimal = planned("optimal", load, host);
      ASSERT_EQ(optimal.ranks.size(), 16U);
      for (const RankPlan& r : optimal.ranks) {
        EXPECT_TRUE(r.figures.fits) << "rank " << r.figures.rank << ": " << r.figures.reason;
        EXPECT_LE(r.figures.peak_bytes, testing::ascend_910b().visible_bytes);
        EXPECT_LE(r.figures.host_bytes, host);
        EXPECT_LE(r.figures.lower_bound_ns, r.figures.added_ns);
      }
      const std::string at = " at load " + std::to_string(load) + ", host " + format_bytes(host);
      for (const auto& [name, rival] : rivals) expect_no_dearer(optimal, rival, host, name != "keep-all", name + at);
      expect_no_dearer(optimal, planned("greedy", load, host), host, false, "greedy" + at);
    }
  }
}

/// Ranks add where others are waited for: of what the dearest of them adds the step pays less than half.
TEST(PlanStep, PaysLittleOfWhatRanksAdd) {
  for (const double load : {1.0, 1.24}) {
    const PlanOutcome optimal = planned("optimal", load, 64 * kGiB);
    std::int64_t most_ns = 0;
    for (const RankPlan& rank : optimal.ranks) most_ns = std::max(most_ns, rank.figures.added_ns);
    EXPECT_LT(2 * (optimal.step.step_ns - optimal.step.keep_all_step_ns), most_ns) << load;
    EXPECT_GE(optimal.step.step_ns, optimal.step.keep_all_step_ns) << load;
  }
}

TEST(PlanStep, DoesNotDependOnTheThreadCount) {
  PlanRequest request = pangu_request("optimal", 1.2);
  request.threads = 1;
  const Result<PlanOutcome> one = plan_step(request);
  request.threads = 4;
  const Result<PlanOutcome> four = plan_step(request);
  ASSERT_TRUE(one.ok() && four.ok());
  for (std::size_t r = 0; r < 16; ++r) {
    EXPECT_EQ(one.value().ranks[r].decisions, four.value().ranks[r].decisions) << r;
    EXPECT_EQ(one.value().ranks[r].program.layout.offset_of, four.value().ranks[r].program.layout.offset_of) << r;
    EXPECT_EQ(one.value().ranks[r].program.estimate_ns, four.value().ranks[r].program.estimate_ns) << r;
  }
  EXPECT_EQ(one.value().step.step_ns, four.value().step.step_ns);
}

TEST(PlanStep, SaysWhatBindsWhenNothingFits) {
  PlanRequest request = pangu_request("optimal", 1.0);
  request.budget_bytes = 16 * kGiB;
  request.ranks = {2};
  const Result<PlanOutcome> planned = plan_step(request);
  ASSERT_TRUE(planned.ok()) << planned.error().message;
  const RankFigures& f = planned.value().ranks.front().figures;
  EXPECT_FALSE(f.fits);
  EXPECT_FALSE(f.reason.empty());
  ASSERT_GT(f.smallest_budget_bytes, *request.budget_bytes);
  // The smallest budget it names is one that works.
  request.budget_bytes = f.smallest_budget_bytes + 64 * kMiB;
  const Result<PlanOutcome> again = plan_step(request);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again.value().ranks.front().figures.fits) << again.value().ranks.front().figures.reason;
}

TEST(PlanStep, RefusesWhatItCannotPlan) {
  PlanRequest request = pangu_request("optimal", 1.0);
  request.ranks = {16};
  const Result<PlanOutcome> planned = plan_step(request);
  ASSERT_FALSE(planned.ok());
  EXPECT_EQ(planned.error().code, Error::Code::bad_input);
  EXPECT_NE(planned.error().message.find("0 to 15"), std::string::npos);
}

}  // namespace
}  // namespace tidemark::plan
