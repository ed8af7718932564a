// For which load a rank is planned where memory has a price, and where it does not fit at that load.

#include "planner/load_prices.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "planner/graph_build/expert_load.h"
#include "planner/graph_build/load_model.h"
#include "policies/policies.h"
#include "tests/support/pangu.h"
#include "tests/support/sanitized.h"

namespace tidemark::plan {
namespace {

/// Expected time at f, where the peak of each of `devices` is that of a normal load: closed form of E[(M - f)+].
double expected_ns(const LoadPrices& prices, double devices, double f) {
  constexpr double kMean = 1, kDeviation = 0.07;
  const double z = (f - kMean) / kDeviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  const double excess = kDeviation * (density - z * std::erfc(z / std::numbers::sqrt2) / 2);
  return prices.held_ns * f + prices.short_ns * devices * excess;
}

TEST(BestQuantile, IsWhereTheExpectedStepIsShortest) {
  for (const double devices : {1.0, 4.0, 32.0})
    for (const double share : {1e-4, 0.01, 0.3, 0.9}) {  // held over short
      const LoadPrices prices{.held_ns = share * 1e9, .short_ns = 1e9};
      double best = 0, least = std::numeric_limits<double>::infinity();
      for (double f = 0.5; f < 1.6; f += 1e-5)
        if (const double ns = expected_ns(prices, devices, f); ns < least) {
          least = ns;
          best = f;
        }
      const double quantile = best_quantile(prices, static_cast<std::int64_t>(devices));
      const double one = std::pow(quantile, 1 / devices);
      EXPECT_NEAR(1 + 0.07 * graph_build::normal_quantile(one), best, 1e-4) << devices << " devices, " << share;
    }
}

TEST(BestQuantile, IsNoneWhereMemoryIsDearerThanChunks) {
  EXPECT_EQ(best_quantile({.held_ns = 5, .short_ns = 1}, 4), 0);
  EXPECT_EQ(best_quantile({.held_ns = 0, .short_ns = 1}, 4), 1);
}

class PlannedLoads : public ::testing::Test {
 protected:
  static constexpr graph_build::ExpertLoadSpec kLoad{
      .mean = 1, .coefficient_of_variation = 0.3, .layer_correlation = 0.5};

  static PlanRequest request(double quantile) {
    graph_build::JobSpec job = grouped_job();
    job.expert_load = kLoad;
    job.expert_load.quantile = quantile;
    return {.job = std::move(job), .machine = testing::ascend_910b(), .policy = policies::find_policy("optimal")};
  }
  static PlanOutcome planned(double quantile, std::optional<Bytes> budget = {}, std::optional<double> load = {},
                             int threads = 0) {
    PlanRequest of = request(quantile);
    of.budget_bytes = budget;
    of.load = load;
    of.threads = threads;
    Result<PlanOutcome> outcome = plan_step(of);
    EXPECT_TRUE(outcome.ok());
    return outcome.ok() ? std::move(outcome).value() : PlanOutcome{};
  }
  static Bytes enough_for(double load) {
    Bytes enough = 0;
    for (const RankPlan& rank : planned(0, reserve() + kMiB, load).ranks)
      enough = std::max(enough, rank.figures.smallest_budget_bytes);
    return enough;
  }
  static Bytes reserve() { return reserve_of({.job = grouped_job(), .machine = testing::ascend_910b()}).total(); }

  static constexpr std::int64_t kDevices = 4;
  static constexpr double kMostLoad = 4;

  /// Four devices share the experts, so any of them may get all rows: load 4.
  static graph_build::JobSpec grouped_job() {
    graph_build::JobSpec job = testing::small_job();
    job.model.layers = testing::layer_kinds(0, 2);
    job.model.mtp_layers = 0;
    job.parallel.data = job.parallel.expert = 4;
    job.parallel.global_batch = 8;
    job.model.sequence = 2048;
    job.model.moe.width = 1024;
    testing::fill_slots(job);
    return job;
  }
};

TEST_F(PlannedLoads, AreOfTheQuantileThatIsAskedFor) {
  double before = 1;
  for (const double quantile : {0.8, 0.99}) {
    const PlanOutcome outcome = planned(quantile);
    ASSERT_TRUE(outcome.fits());
    for (const RankPlan& rank : outcome.ranks) EXPECT_GE(rank.figures.load_quantile, quantile);
    EXPECT_GT(outcome.ranks[0].figures.load, before);
    before = outcome.ranks[0].figures.load;
  }
}

/// Their schedules are known before their addresses are, which take long to find.
TEST_F(PlannedLoads, OfAFixedPolicyAreFoundBeforeItsRanksAreLaidOut) {
  for (const char* policy : {"keep-all", "full-recompute", "published-recipe"}) {
    SCOPED_TRACE(policy);
    graph_build::JobSpec job = grouped_job();
    job.expert_load = kLoad;
    job.expert_load.quantile = 0.9;
    std::atomic<std::size_t> laid_out{0};
    const Result<PlanOutcome> outcome = plan_step({.job = std::move(job),
                                                   .machine = testing::ascend_910b(),
                                                   .policy = policies::find_policy(policy),
                                                   .budget_bytes = Bytes{1} << 40,
                                                   .progress = [&](int, int) { ++laid_out; }});
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(laid_out, outcome.value().ranks.size());
    for (const RankPlan& rank : outcome.value().ranks) EXPECT_GE(rank.figures.load_quantile, 0.9);
  }
}

/// Planned for no given load a rank has a step that is expected to be shorter by much.
TEST_F(PlannedLoads, AreWhereTheExpectedStepIsShortest) {
  const Bytes enough = enough_for(1.5);
  int lower = 0;
  for (const int tenths : {-2, 1}) {
    const Bytes budget = enough + tenths * (enough - reserve()) / 10;
    const PlanOutcome outcome = planned(0, budget);
    ASSERT_TRUE(outcome.fits());
    const auto expected_ns = [&](const RankPlan& rank) {
      const RankFigures& f = rank.figures;
      const graph_build::PeakLoads peaks(rank.graph, rank.program.schedule, kLoad, kMostLoad);
      const LoadPrices prices = load_prices(rank, request(0), peaks.bytes_per_load(f.load));
      return static_cast<double>(f.added_ns) + prices.short_ns * peaks.mean_excess(f.load, kDevices);
    };
    for (const double load : {1.0, 1.1, 1.2, 1.3, 1.5, 2.0}) {
      const PlanOutcome given = planned(0, budget, load);
      for (std::size_t r = 0; r < outcome.ranks.size(); ++r) {
        if (!given.ranks[r].figures.fits) continue;
        EXPECT_LE(expected_ns(outcome.ranks[r]),
                  1.04 * expected_ns(given.ranks[r]) + 0.04 * static_cast<double>(outcome.step.keep_all_step_ns))
            << "rank " << r << " at " << outcome.ranks[r].figures.load << ", given " << load;
      }
    }
    for (const RankPlan& rank : outcome.ranks) {
      const RankFigures& f = rank.figures;
      EXPECT_GT(f.load_quantile, 0);
      EXPECT_LE(f.load_quantile, 1);
      EXPECT_GE(f.load, 1);
      lower += f.load_quantile < 0.99 ? 1 : 0;
    }
  }
  EXPECT_GT(lower, 0);  // memory was dear somewhere
}

TEST_F(PlannedLoads, DoNotDependOnTheThreadCount) {
  const Bytes budget = enough_for(1.2);
  const PlanOutcome one = planned(0, budget, {}, 1), four = planned(0, budget, {}, 4);
  ASSERT_EQ(one.ranks.size(), four.ranks.size());
  for (std::size_t r = 0; r < one.ranks.size(); ++r) {
    EXPECT_EQ(one.ranks[r].figures, four.ranks[r].figures);
    EXPECT_EQ(one.ranks[r].program.layout.offset_of, four.ranks[r].program.layout.offset_of);
  }
}

/// A budget that is enough for the mean load is enough: what no memory is held for runs in chunks.
TEST_F(PlannedLoads, AreAsHighAsTheBudgetAllows) {
  const Bytes mean = enough_for(1.0);
  const PlanOutcome roomy = planned(0);
  const Bytes usual = enough_for(roomy.ranks[0].figures.load);
  ASSERT_GT(usual, mean);
  EXPECT_FALSE(planned(0.99, mean).fits());
  double before = 1;
  for (const Bytes budget : {mean, mean + (usual - mean) / 2, usual}) {
    const PlanOutcome outcome = planned(0, budget);
    ASSERT_TRUE(outcome.fits()) << budget;
    double least = roomy.ranks[0].figures.load;
    for (const RankPlan& rank : outcome.ranks) {
      EXPECT_EQ(rank.figures.worst_load_f, 4) << rank.figures.reason;
      EXPECT_LE(rank.figures.peak_bytes, budget);
      least = std::min(least, rank.figures.load);
    }
    EXPECT_GE(least, before) << budget;
    before = least;
  }
  EXPECT_GT(before, 1);
  const PlanOutcome none = planned(0, mean - (mean - reserve()) / 20);
  EXPECT_FALSE(none.fits());
  Bytes smallest = 0;
  for (const RankPlan& rank : none.ranks) smallest = std::max(smallest, rank.figures.smallest_budget_bytes);
  EXPECT_TRUE(planned(0, smallest).fits()) << smallest;
}

}  // namespace
}  // namespace tidemark::plan
