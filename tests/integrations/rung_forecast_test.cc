// How often steps take each rung: predicted from steps that are drawn, and what the steps of a trace show.

#include "integrations/run/rung_forecast.h"

#include <gtest/gtest.h>

#include <map>

#include "integrations/run/sim_run.h"
#include "planner/graph_build/load_draws.h"
#include "planner/planner.h"
#include "policies/policies.h"
#include "tests/support/pangu.h"
#include "tests/support/sanitized.h"

namespace tidemark::run {
namespace {

/// Two ranks and four devices that share eight experts, planned so that some steps need every rung and some none.
class RungForecasts : public ::testing::Test {
 protected:
  static constexpr std::int64_t kFitted = 12, kSeen = 10, kDrawn = 30;

  void SetUp() override {
    request_.job = testing::small_job();
    request_.job.parallel.data = request_.job.parallel.expert = 4;
    request_.job.parallel.global_batch = 16;
    request_.job.model.sequence = 2048;
    request_.job.model.moe.width = 1024;
    request_.job.expert_load = {.mean = 1, .coefficient_of_variation = 0.12, .layer_correlation = 0.25};
    request_.machine = testing::ascend_910b();
    request_.policy = policies::find_policy("optimal");
    request_.load = 1.3;
    request_.budget_bytes = plan::reserve_of(request_).total() + kMiB;
    Bytes enough = 0;
    for (const plan::RankPlan& rank : planned().ranks) enough = std::max(enough, rank.figures.smallest_budget_bytes);
    request_.budget_bytes = enough;
    plan_ = planned();
    ASSERT_TRUE(plan_.fits());
    charge_copies(plan_, request_.machine);
    const Result<graph_build::LoadShape> shape = graph_build::load_shape(request_.job, request_.machine);
    ASSERT_TRUE(shape.ok());
    shape_ = shape.value();
  }
  plan::PlanOutcome planned() const {
    Result<plan::PlanOutcome> plan = plan::plan_step(request_);
    EXPECT_TRUE(plan.ok());
    return plan.ok() ? std::move(plan).value() : plan::PlanOutcome{};
  }
  RungForecast forecast(graph_build::LoadFamily family, std::uint64_t seed) const {
    const graph_build::LoadDraws draws(shape_, family, request_.job.expert_load, seed);
    graph_build::LoadFitter fitter(
        {.layers = std::ssize(shape_.layers), .micro_batches = shape_.micro_batches, .devices = shape_.devices});
    LoadForecast loads{.is_behind = true};
    for (std::int64_t step = 0; step < kFitted + kSeen; ++step) {
      NumberedLoads one{step, StepLoads::of_rows(draws.rows(step), shape_)};
      if (step < kFitted) fitter.add(one.loads.all());
      (step < kFitted ? loads.fitted : loads.seen).push_back(std::move(one));
    }
    loads.fit = fitter.fit();
    Result<RungForecast> forecast = forecast_rungs(plan_, request_.machine, shape_, {}, loads, kDrawn);
    EXPECT_TRUE(forecast.ok());
    return forecast.ok() ? std::move(forecast).value() : RungForecast{};
  }

  plan::PlanRequest request_;
  plan::PlanOutcome plan_;
  graph_build::LoadShape shape_;
};

TEST_F(RungForecasts, HoldWhatTheNextStepsShow) {
  constexpr int kTraces = testing::cases(8);
  std::map<Rung, int> held, between;  // between: neither none nor all of the steps seen
  for (const auto family : {graph_build::LoadFamily::own, graph_build::LoadFamily::persistent})
    for (std::uint64_t seed = 1; seed <= kTraces; ++seed) {
      const RungForecast f = forecast(family, seed);
      for (const Rung rung : {Rung::room, Rung::spill, Rung::chunks}) {
        const RungShare share = f.share(rung);
        held[rung] += share.is_held() ? 1 : 0;
        between[rung] += share.seen > 0 && share.seen < 1 ? 1 : 0;
      }
      for (const GroupStep& step : f.seen) EXPECT_EQ(step.refused, 0);
      for (const GroupStep& step : f.drawn) EXPECT_EQ(step.refused, 0);
    }
  for (const auto& [rung, count] : held)
    EXPECT_GE(count, 2 * kTraces - 2) << kRungNames[static_cast<std::size_t>(rung)];
  EXPECT_GE(between[Rung::chunks], kTraces / 2) << "the test says little";
}

/// A hot spot is not as the model has loads; what the fitted steps showed bounds what the next ones do.
TEST_F(RungForecasts, BoundWhatIsNotNormal) {
  constexpr int kTraces = testing::cases(4);
  int held = 0, all = 0;
  for (const auto family : {graph_build::LoadFamily::hotspot, graph_build::LoadFamily::cold_start})
    for (std::uint64_t seed = 1; seed <= kTraces; ++seed) {
      const RungForecast f = forecast(family, seed);
      for (const Rung rung : {Rung::room, Rung::spill, Rung::chunks}) {
        const RungShare share = f.share(rung);
        EXPECT_GE(share.at_most, share.high);
        held += share.seen <= share.at_most ? 1 : 0;
        ++all;
      }
    }
  EXPECT_GE(held, all - all / 12);
}

TEST_F(RungForecasts, AreTheSameEveryTime) {
  const RungForecast once = forecast(graph_build::LoadFamily::own, 1),
                     again = forecast(graph_build::LoadFamily::own, 1);
  EXPECT_EQ(rung_forecast_text(once), rung_forecast_text(again));
  EXPECT_EQ(with_rungs("{}", once), with_rungs("{}", again));
}

}  // namespace
}  // namespace tidemark::run
