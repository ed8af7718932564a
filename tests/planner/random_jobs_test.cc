// Random jobs through the whole planner: every policy, random budgets, loads and host memory. plan_step itself runs the
// verifier on every program that fits; here the figures are held against one another. TIDEMARK_SOAK_JOBS and
// TIDEMARK_SOAK_SEED ask for more than the short form of ctest (scripts/soak).

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "core/verify.h"
#include "planner/planner.h"
#include "policies/policies.h"
#include "tests/support/random_job.h"
#include "tests/support/sanitized.h"

namespace tidemark::plan {
namespace {

/// A count from the environment, for the long form of this test.
int count_from(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::max(1, std::atoi(text));
}

/// A device that can do all that jobs ask for.
PlanRequest request_for(const graph_build::JobSpec& job, const Policy& policy) {
  PlanRequest request{.job = job, .machine = testing::ascend_910b(), .policy = &policy, .load = 1.0};
  DeviceSheet& sheet = request.machine.chip.sheet;
  sheet.flops_per_s[static_cast<std::size_t>(Precision::fp8)] = 2 * sheet.peak(Precision::bf16);
  return request;
}

Bytes largest_peak(const PlanOutcome& outcome) {
  Bytes peak = 0;
  for (const RankPlan& r : outcome.ranks) peak = std::max(peak, r.figures.peak_bytes);
  return peak;
}

/// A token's top-k lie on as few of the devices as hold that many experts: what G devices share can reach one of them.
double most_load(const graph_build::JobSpec& job) {
  const graph_build::ParallelSpec& p = job.parallel;
  const std::int64_t devices = std::int64_t{p.expert} * (p.tensor_extends_expert ? p.tensor : 1);
  const std::int64_t here = std::min<std::int64_t>(job.model.moe.top_k, job.model.moe.experts / devices);
  return static_cast<double>(devices * here) / static_cast<double>(job.model.moe.top_k);
}

void expect_consistent(const PlanOutcome& outcome, const PlanRequest& request, const std::string& what) {
  for (const RankPlan& r : outcome.ranks) {
    const RankFigures& f = r.figures;
    const std::string where = what + ", rank " + std::to_string(f.rank);
    EXPECT_EQ(f.peak_bytes, f.reserve_bytes + f.static_bytes + f.activation_peak_bytes) << where;
    EXPECT_GE(r.program.layout.arenas.front().height_bytes, r.program.layout.device_load_bytes) << where;
    EXPECT_EQ(f.added_ns, f.recompute_ns + f.exposed_communication_ns + f.exposed_copy_ns + f.copy_overhead_ns)
        << where;
    EXPECT_EQ(f.fits, f.peak_bytes <= f.budget_bytes && f.host_bytes <= *request.host_budget_bytes) << where;
    if (f.fits) {
      // Every layer that routes can run in chunks, whatever the policy and however little there is.
      EXPECT_EQ(f.worst_load_f, r.program.routed.empty() ? 1 : most_load(request.job)) << where << ": " << f.reason;
      EXPECT_LE(f.lower_bound_ns, f.added_ns) << where;
    } else {
      EXPECT_EQ(f.worst_load_f, 0) << where;
      EXPECT_FALSE(f.reason.empty()) << where;
      // None is known where a rule that heeds neither is short of both.
      EXPECT_TRUE(f.smallest_budget_bytes + f.smallest_host_budget_bytes > 0 ||
                  (f.peak_bytes > f.budget_bytes && f.host_bytes > *request.host_budget_bytes))
          << where;
      const Bytes host = f.smallest_host_budget_bytes;
      EXPECT_TRUE(f.smallest_budget_bytes == 0 || f.smallest_budget_bytes > f.budget_bytes) << where;
      EXPECT_TRUE(host == 0 || host > *request.host_budget_bytes) << where;
    }
    const auto violation = verify_program(r.graph, r.program);
    if (f.fits) {
      EXPECT_FALSE(violation.has_value()) << where << ": " << violation->detail;
    } else {
      ASSERT_TRUE(violation.has_value()) << where;
      EXPECT_EQ(violation->rule, Violation::Rule::out_of_arena) << where << ": " << violation->detail;
    }
  }
  EXPECT_GE(outcome.step.step_ns, outcome.step.keep_all_step_ns / 2) << what;
}

std::string explain(const RankPlan& plan) {
  std::string text = "\npeak " + format_bytes(plan.figures.peak_bytes) + ", host " +
                     format_bytes(plan.figures.host_bytes) + ", attempts";
  for (const PlanAttempt& a : plan.attempts)
    text += " [target " + format_bytes(a.target_bytes) + " load " + format_bytes(a.load_bytes) + " height " +
            format_bytes(a.height_bytes) + "]";
  return text + " " + plan.figures.reason;
}

void try_jobs(graph_build::JobSpec (testing::JobGenerator::*next)(), int seed, int jobs) {
  testing::JobGenerator generator(static_cast<std::uint32_t>(count_from("TIDEMARK_SOAK_SEED", seed)));
  int squeezed = 0;
  for (int i = 0; i < count_from("TIDEMARK_SOAK_JOBS", jobs); ++i) {
    const graph_build::JobSpec job = (generator.*next)();
    const std::string what = "job " + std::to_string(i);
    ASSERT_TRUE(graph_build::find_problems(job).empty())
        << what << ": " << graph_build::find_problems(job).front().message;
    PlanRequest keep = request_for(job, *policies::find_policy("keep-all"));
    keep.host_budget_bytes = keep.machine.host_bytes_per_device;
    const Result<PlanOutcome> kept = plan_step(keep);
    ASSERT_TRUE(kept.ok()) << what << ": " << kept.error().message;
    expect_consistent(kept.value(), keep, what + " keep-all");

    Bytes floor = 0;
    for (const RankPlan& r : kept.value().ranks)
      floor = std::max(floor, r.figures.reserve_bytes + r.figures.static_bytes);
    const Bytes span = largest_peak(kept.value()) - floor;
    const Bytes budget = floor + span * (45 + generator.below(60)) / 100;
    const Bytes host = generator.below(3) == 0 ? 0 : span * (1 + generator.below(100)) / 100;
    const double load = 1.0 + 0.1 * generator.below(6);

    std::vector<PlanOutcome> outcomes;
    for (const Policy& policy : policies::policies()) {
      PlanRequest request = request_for(job, policy);
      request.budget_bytes = budget;
      request.host_budget_bytes = host;
      request.load = load;
      Result<PlanOutcome> outcome = plan_step(request);
      ASSERT_TRUE(outcome.ok()) << what << " " << policy.name << ": " << outcome.error().message;
      expect_consistent(outcome.value(), request, what + " " + std::string(policy.name));
      outcomes.push_back(std::move(outcome).value());
    }
    const PlanOutcome& optimal = outcomes.back();
    ASSERT_EQ(policies::policies().back().name, "optimal");
    for (std::size_t p = 0; p + 1 < outcomes.size(); ++p)
      if (optimal.fits() && outcomes[p].fits()) {
        EXPECT_LE(optimal.step.step_ns, outcomes[p].step.step_ns)
            << what << " against " << policies::policies()[p].name;
      }
    for (std::size_t p = 0; p + 1 < outcomes.size(); ++p)
      for (std::size_t r = 0; r < optimal.ranks.size(); ++r) {
        const RankFigures& other = outcomes[p].ranks[r].figures;
        const RankFigures& best = optimal.ranks[r].figures;
        if (!other.fits) continue;
        EXPECT_TRUE(best.fits) << what << " rank " << r << ": " << policies::policies()[p].name
                               << " fits, optimal does not" << explain(outcomes[p].ranks[r])
                               << explain(optimal.ranks[r]);
        squeezed += best.added_ns > 0 ? 1 : 0;
      }
  }
  EXPECT_GT(squeezed, 0) << "no budget was tight: the test showed nothing";
}

TEST(RandomJobs, EveryPolicyIsConsistentAndNoStepIsShorterThanOfOptimal) {
  try_jobs(&testing::JobGenerator::next, 20261120, testing::cases(24));
}

TEST(RandomJobs, OfNewerPartsAreSoToo) {
  try_jobs(&testing::JobGenerator::next_of_newer_parts, 20261203, testing::cases(12));
}

}  // namespace
}  // namespace tidemark::plan
