#include "planner/graph_build/load_draws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tidemark::graph_build {
namespace {

const LoadShape kShape{
    .layers = {3, 4, 5, 9}, .micro_batches = 8, .devices = 16, .experts = 64, .mean_rows = 1000, .most_rows = 8000};

constexpr ExpertLoadSpec kOwn{.mean = 1, .coefficient_of_variation = 0.1, .layer_correlation = 0.25};

LoadDraws draws(LoadFamily family, std::uint64_t seed = 1) {
  return {kShape, family, kOwn, seed};
}

double load(const std::vector<std::int64_t>& rows, std::size_t layer, std::size_t micro_batch, std::size_t device) {
  return static_cast<double>(rows[(layer * 8 + micro_batch) * 16 + device]) / 1000;
}

std::vector<LoadFamily> families() {
  std::vector<LoadFamily> all;
  for (std::size_t i = 0; i < kLoadFamilyNames.size(); ++i) all.push_back(static_cast<LoadFamily>(i));
  return all;
}

/// Dropless: every (layer, micro-batch) has all its rows, on devices that can hold them.
TEST(LoadDraws, EveryRowIsSomewhere) {
  for (const LoadFamily family : families())
    for (const std::int64_t step : {0, 1, 499, 10'000}) {
      const std::vector<std::int64_t> rows = draws(family).rows(step);
      ASSERT_EQ(rows.size(), 4U * 8 * 16);
      for (std::size_t i = 0; i < rows.size(); i += 16) {
        const auto first = rows.begin() + static_cast<std::ptrdiff_t>(i);
        EXPECT_EQ(std::accumulate(first, first + 16, std::int64_t{0}), 16'000);
        EXPECT_GE(*std::min_element(first, first + 16), 0);
        EXPECT_LE(*std::max_element(first, first + 16), 8000);
      }
    }
}

TEST(LoadDraws, AStepIsTheSameWhateverWasDrawnBefore) {
  for (const LoadFamily family : families()) {
    const LoadDraws one = draws(family);
    const std::vector<std::int64_t> second = one.rows(2);
    (void)one.rows(7);
    EXPECT_EQ(one.rows(2), second);
    EXPECT_NE(one.rows(3), second);
    EXPECT_NE(draws(family, 2).rows(2), second);
  }
}

/// Four experts of 64 a device: their rows are its rows.
TEST(LoadDraws, ExpertsShareTheRowsOfTheirDevice) {
  LoadShape shape = kShape;
  shape.most_expert_rows = 2000;
  for (const LoadFamily family : families())
    for (const std::int64_t step : {0, 3, 700}) {
      const LoadDraws one(shape, family, kOwn, 5);
      const std::vector<std::int64_t> rows = one.rows(step), experts = one.expert_rows(step);
      ASSERT_EQ(experts.size(), 4 * rows.size());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto first = experts.begin() + static_cast<std::ptrdiff_t>(4 * i);
        EXPECT_EQ(std::accumulate(first, first + 4, std::int64_t{0}), rows[i]);
        EXPECT_GE(*std::min_element(first, first + 4), 0);
        EXPECT_LE(*std::max_element(first, first + 4), 2000);
      }
      EXPECT_EQ(one.expert_rows(step), experts);
    }
}

/// The deviation of f over all sites, devices and steps is the one asked for.
TEST(LoadDraws, OwnHasTheDistributionOfTheJob) {
  double squares = 0, common = 0;
  constexpr int kSteps = 200;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<std::int64_t> rows = draws(LoadFamily::own).rows(step);
    for (std::size_t device = 0; device < 16; ++device) {
      double mean = 0;
      for (std::size_t site = 0; site < 32; ++site) {
        const double f = load(rows, site / 8, site % 8, device);
        squares += (f - 1) * (f - 1);
        mean += f / 32;
      }
      common += (mean - 1) * (mean - 1);
    }
  }
  EXPECT_NEAR(std::sqrt(squares / (kSteps * 16 * 32)), 0.1, 0.005);
  // Of a device's mean over 32 sites: the common part, and a 32nd of the rest.
  EXPECT_NEAR(common / (kSteps * 16), 0.01 * (0.25 + 0.75 / 32), 0.0005);
}

TEST(LoadDraws, PersistentDevicesStayPopularInTheirLayer) {
  const LoadDraws persistent = draws(LoadFamily::persistent);
  double product = 0, square = 0;
  for (std::size_t layer = 0; layer < 4; ++layer)
    for (std::size_t device = 0; device < 16; ++device) {
      const double now = load(persistent.rows(0), layer, 0, device) - 1;
      const double later = load(persistent.rows(1000), layer, 5, device) - 1;
      product += now * later;
      square += (now * now + later * later) / 2;
    }
  EXPECT_GT(product / square, 0.6);  // 0.20^2 of 0.20^2 + 0.05^2 + 0.07^2 is 0.84
}

TEST(LoadDraws, AHotspotHasThreeTimesTheMeanInOneLayer) {
  std::size_t moved = 0, before = 0;
  for (int step = 0; step < 20; ++step) {
    const std::vector<std::int64_t> rows = draws(LoadFamily::hotspot).rows(step);
    std::size_t hot = 0, layer_of = 0;
    for (std::size_t layer = 0; layer < 4; ++layer)
      for (std::size_t device = 0; device < 16; ++device)
        for (std::size_t m = 0; m < 8; ++m)
          if (load(rows, layer, m, device) > 2.9) ++hot, layer_of = layer;
    EXPECT_EQ(hot, 8U);
    moved += layer_of != before ? 1 : 0;
    before = layer_of;
  }
  EXPECT_GT(moved, 5U);
}

TEST(LoadDraws, AColdStartWarmsUp) {
  const auto spread = [](std::int64_t step) {
    const std::vector<std::int64_t> rows = draws(LoadFamily::cold_start).rows(step);
    double squares = 0;
    for (const std::int64_t one : rows) squares += std::pow(static_cast<double>(one) / 1000 - 1, 2);
    return std::sqrt(squares / static_cast<double>(rows.size()));
  };
  EXPECT_GT(spread(0), 2.5 * spread(500));
  EXPECT_NEAR(spread(500), spread(5000), 0.02);
}

TEST(LoadDraws, TheWorstReachesWhatIsPhysical) {
  const auto at_worst = [](LoadFamily family) {
    const std::vector<std::int64_t> rows = draws(family).rows(4);
    return std::ranges::count(rows, 8000);
  };
  EXPECT_EQ(at_worst(LoadFamily::worst_site), 1);
  EXPECT_EQ(at_worst(LoadFamily::worst_layer), 8);
  EXPECT_EQ(at_worst(LoadFamily::worst_step), 32);
}

/// One device holds every expert that any token wants.
TEST(LoadDraws, AllRowsOnOneDevice) {
  LoadShape all = kShape;
  all.most_rows = all.all_rows();
  const std::vector<std::int64_t> rows = LoadDraws(all, LoadFamily::worst_step, kOwn, 1).rows(0);
  EXPECT_EQ(std::ranges::count(rows, all.all_rows()), 32);
  EXPECT_EQ(std::ranges::count(rows, 0), 32 * 15);
}

}  // namespace
}  // namespace tidemark::graph_build
