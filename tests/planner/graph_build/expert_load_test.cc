#include "planner/graph_build/expert_load.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numbers>

#include "planner/graph_build/load_model.h"
#include "planner/schedule/scheduler.h"
#include "tests/support/rank_fixture.h"
#include "tests/support/tiny_graph.h"

namespace tidemark::graph_build {
namespace {

/// Routed storages of equal size alive together, made by one op each and read by the last op.
std::unique_ptr<testing::RankFixture> together(int layers, int micro_batches = 1) {
  testing::GraphBuilder b;
  const BlockId block =
      b.block("routed", {{.name = "rows", .routed_rows = 1000, .routed_row_bytes = 1000, .saved_for_backward = true}});
  const OpTemplateId make = b.timed_op("make", 1000), use = b.timed_op("use", 1000);
  std::vector<StorageId> all;
  SiteId last{};
  for (int s = 0; s < layers * micro_batches; ++s) {
    last = b.site(block, {.layer = s / micro_batches, .micro_batch = s % micro_batches});
    all.push_back(b.at(last, 0));
    b.run(make, last, {}, {all.back()});
  }
  b.run(use, last, all, {});
  return testing::RankFixture::of(std::move(b).finish());
}

double load_of(const testing::RankFixture& f, const ExpertLoadSpec& spec, std::int64_t devices = 1) {
  const Plan keep;
  const Result<Schedule> schedule =
      schedule::build_schedule({.graph = f.graph, .liveness = f.liveness, .nominal = f.nominal, .plan = keep});
  return PeakLoads(f.graph, schedule.value(), spec, 16).load_at(spec.quantile, devices);
}

TEST(PeakLoads, FollowsTheClosedFormOfASumOfNormals) {
  // Peak of n equal sites is mean (1 + cv (sqrt(r) z + sqrt((1 - r) / n) e)): a normal of known deviation.
  const double z99 = 2.3263;
  for (const int sites : {1, 4, 64})
    for (const double correlation : {0.0, 0.5, 1.0}) {
      const auto f = together(sites);
      ASSERT_NE(f, nullptr);
      const ExpertLoadSpec spec{
          .mean = 1.2, .coefficient_of_variation = 0.1, .layer_correlation = correlation, .quantile = 0.99};
      const double deviation = 0.1 * std::sqrt(correlation + (1 - correlation) / sites);
      const double expected = 1.2 * (1 + z99 * deviation);
      // 512 samples: mean and deviation are known to 0.044 and 0.031 deviations, the quantile to 0.085.
      EXPECT_NEAR(load_of(*f, spec), expected, 1.2 * deviation * 0.3) << sites << " sites, correlation " << correlation;
    }
}

/// Popularity is common to the sites of a layer, and new in each of `layers`: with m sites in each, the peak deviates
/// by cv sqrt(p / layers + (1 - p) / (layers m)).
TEST(PeakLoads, PopularityAveragesOverLayersOnly) {
  for (const int layers : {1, 4}) {
    const auto f = together(layers, 16);
    ASSERT_NE(f, nullptr);
    const ExpertLoadSpec spec{.mean = 1.2, .coefficient_of_variation = 0.1, .quantile = 0.99, .popularity_share = 0.5};
    const double deviation = 0.1 * std::sqrt(0.5 / layers + 0.5 / (layers * 16));
    EXPECT_NEAR(load_of(*f, spec), 1.2 * (1 + 2.3263 * deviation), 1.2 * deviation * 0.6) << layers;
    // Persistence says how long it stays, not how large it is.
    ExpertLoadSpec drifting = spec;
    drifting.persistence = 0.5;
    EXPECT_DOUBLE_EQ(load_of(*f, drifting), load_of(*f, spec));
  }
}

/// All of a group run in chunks where one has no room: P(none of n devices exceeds it) is the quantile.
TEST(PeakLoads, IsThatOfTheFullestDeviceOfTheGroup) {
  const auto f = together(4);
  ASSERT_NE(f, nullptr);
  const ExpertLoadSpec spec{.mean = 1.0, .coefficient_of_variation = 0.1, .layer_correlation = 0.25, .quantile = 0.9};
  const double deviation = 0.1 * std::sqrt(0.25 + 0.75 / 4);
  // Phi^-1(0.9), and of 0.9^(1/8), 0.9^(1/32): 1.28155, 2.22372, 2.71768.
  const std::map<std::int64_t, double> deviations{{1, 1.28155}, {8, 2.22372}, {32, 2.71768}};
  for (const auto& [devices, z] : deviations)
    EXPECT_NEAR(load_of(*f, spec, devices), 1 + z * deviation, 0.3 * deviation) << devices;
}

TEST(PeakLoads, ExceedALoadByTheClosedFormOfANormal) {
  const auto f = together(4);
  ASSERT_NE(f, nullptr);
  const ExpertLoadSpec spec{.mean = 1.0, .coefficient_of_variation = 0.1, .layer_correlation = 0.25};
  const Plan keep;
  const Result<Schedule> schedule =
      schedule::build_schedule({.graph = f->graph, .liveness = f->liveness, .nominal = f->nominal, .plan = keep});
  const PeakLoads peaks(f->graph, schedule.value(), spec, 16);
  EXPECT_DOUBLE_EQ(peaks.bytes_per_load(1.0), 4e6);
  const double deviation = 0.1 * std::sqrt(0.25 + 0.75 / 4);
  for (const double quantile : {0.1, 0.9, 0.999})
    EXPECT_NEAR(peaks.share_within(peaks.load_at(quantile, 8), 8), quantile, 1e-9);
  // Of a standard normal, E[(e - z)+] = phi(z) - z (1 - Phi(z)).
  const std::map<double, double> excess{{0.0, 0.39894}, {1.0, 0.083315}, {2.0, 0.0084907}};
  for (const auto& [z, mean] : excess)
    EXPECT_NEAR(peaks.mean_excess(1 + z * deviation, 8), 8 * deviation * mean, 8 * deviation * 0.1 * (0.1 + mean)) << z;
}

TEST(NormalQuantile, InvertsTheDistribution) {
  for (const double p : {1e-9, 0.01, 0.3, 0.5, 0.9, 0.99, 1 - 1e-9})
    EXPECT_NEAR(std::erfc(-normal_quantile(p) / std::numbers::sqrt2) / 2, p, 1e-12) << p;
}

TEST(PeakLoads, GrowsWithTheQuantileAndIsTheMeanWithoutRoutedStorages) {
  const auto f = together(8);
  double before = 0;
  for (const double quantile : {0.5, 0.9, 0.99, 0.999}) {
    const double load =
        load_of(*f, {.mean = 1.0, .coefficient_of_variation = 0.3, .layer_correlation = 0.2, .quantile = quantile});
    EXPECT_GT(load, before);
    before = load;
  }
  const auto dense = testing::RankFixture::of(testing::chain_graph());
  EXPECT_DOUBLE_EQ(load_of(*dense, {.mean = 1.0, .coefficient_of_variation = 0.3}), 1.0);
}

}  // namespace
}  // namespace tidemark::graph_build
