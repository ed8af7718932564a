// Rows that capacities drop: counted against a naive count, modelled against draws.

#include "planner/graph_build/dropped_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "planner/graph_build/load_draws.h"

namespace tidemark::graph_build {
namespace {

/// Factors in tenths, so that whole numbers say what is right.
TEST(CapacityOf, IsTheDecimalRoundedUp) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const auto tenths = static_cast<std::int64_t>(random() % 40) + 1;
    const auto rows = static_cast<std::int64_t>(random() % 1'000'000),
               holders = static_cast<std::int64_t>(random() % 512) + 1;
    const std::int64_t whole = (tenths * rows + 10 * holders - 1) / (10 * holders);
    EXPECT_EQ(capacity_of(static_cast<double>(tenths) / 10, rows, holders), whole)
        << tenths << " tenths of " << rows << " over " << holders;
  }
}

/// Row by row: each is taken while its holder has room.
std::int64_t naively_dropped(const std::vector<std::int64_t>& counts, std::int64_t per_holder, std::int64_t capacity) {
  std::int64_t dropped = 0;
  std::vector<std::int64_t> taken(counts.size() / static_cast<std::size_t>(per_holder), 0);
  for (std::size_t i = 0; i < counts.size(); ++i)
    for (std::int64_t row = 0; row < counts[i]; ++row) {
      std::int64_t& of_holder = taken[i / static_cast<std::size_t>(per_holder)];
      if (of_holder < capacity)
        ++of_holder;
      else
        ++dropped;
    }
  return dropped;
}

TEST(AddDropped, IsANaiveCount) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 300; ++i) {
    const std::int64_t per_holder = 1 + static_cast<std::int64_t>(random() % 4);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(per_holder) * (1 + random() % 12));
    std::int64_t rows = 0;
    for (std::int64_t& count : counts) rows += count = static_cast<std::int64_t>(random() % 60);
    for (const std::int64_t tenths : {5, 10, 11, 13, 25}) {
      const std::int64_t holders = std::ssize(counts) / per_holder;
      const std::int64_t capacity = (tenths * rows + 10 * holders - 1) / (10 * holders);
      DroppedRows dropped{.routed = 7, .dropped = 3};
      add_dropped(counts, per_holder, static_cast<double>(tenths) / 10, dropped);
      EXPECT_EQ(dropped.routed, 7 + rows);
      EXPECT_EQ(dropped.dropped, 3 + naively_dropped(counts, per_holder, capacity));
    }
  }
}

/// However a device's rows fall on its experts, but for what rounding gives to each.
TEST(AddDropped, ExpertsDropAtLeastWhatTheirDeviceWould) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 500; ++i) {
    std::vector<std::int64_t> counts(24);
    for (std::int64_t& count : counts) count = static_cast<std::int64_t>(random() % 5000);
    for (const double factor : {0.8, 1.0, 1.2, 1.5}) {
      DroppedRows experts, devices;
      add_dropped(counts, 1, factor, experts);
      add_dropped(counts, 4, factor, devices);
      EXPECT_GE(experts.dropped + 6 * 4, devices.dropped);
    }
  }
}

TEST(MeanDroppedShare, IsTheIntegral) {
  for (const double cv : {0.05, 0.1, 0.3, 0.8})
    for (const double mean : {1.0, 1.5})
      for (const double factor : {0.7, 1.0, 1.1, 1.5, 2.5}) {
        double above = 0, all = 0;
        constexpr double kStep = 1e-3;
        for (double z = -9 + kStep / 2; z < 9; z += kStep) {
          const double weight = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi) * kStep;
          const double f = std::max(0.0, mean * (1 + cv * z));
          all += weight * f;
          above += weight * std::max(0.0, f - factor);
        }
        const LoadModel model{.mean = mean, .variance = {.site = cv * cv}};
        EXPECT_NEAR(mean_dropped_share(model, factor), above / all, 1e-6) << cv << ", " << mean << ", " << factor;
      }
}

TEST(MeanDroppedShare, OfAnEvenLoadIsWhatIsAboveTheCapacity) {
  EXPECT_EQ(mean_dropped_share({}, 1), 0);
  EXPECT_EQ(mean_dropped_share({}, 1.5), 0);
  EXPECT_DOUBLE_EQ(mean_dropped_share({}, 0.75), 0.25);
}

/// The model of a device and of its experts, against rows that are drawn as `tidemark loads` draws them. Rows that are
/// shared out over 16 devices show 15 / 16 of the variance that the job states.
class ModelledDrops : public ::testing::TestWithParam<ExpertLoadSpec> {
 protected:
  static constexpr int kSteps = 150;
  const LoadShape shape_{.layers = {3, 4, 5, 9},
                         .micro_batches = 8,
                         .devices = 16,
                         .experts = 64,
                         .mean_rows = 40'000,
                         .most_rows = 320'000,
                         .most_expert_rows = 80'000};

  /// Mean over steps of the share dropped, and its standard error.
  struct Drawn {
    double share = 0, error = 0;
  };
  [[nodiscard]] Drawn drawn(bool by_expert, double factor) const {
    const std::size_t per_site = by_expert ? 64 : 16;
    double sum = 0, squares = 0;
    for (std::uint64_t seed = 0; seed < kSteps; ++seed) {  // another popularity each
      const LoadDraws draws(shape_, LoadFamily::own, GetParam(), seed);
      const std::vector<std::int64_t> rows = by_expert ? draws.expert_rows(4) : draws.rows(4);
      DroppedRows dropped;
      for (std::size_t i = 0; i < rows.size(); i += per_site)
        add_dropped(std::span(rows).subspan(i, per_site), 1, factor, dropped);
      sum += dropped.share();
      squares += dropped.share() * dropped.share();
    }
    const double mean = sum / kSteps;
    return {.share = mean, .error = std::sqrt(std::max(0.0, squares / kSteps - mean * mean) / kSteps)};
  }
};

TEST_P(ModelledDrops, AreThoseOfDraws) {
  ExpertLoadSpec seen = GetParam();
  seen.coefficient_of_variation *= std::sqrt(15.0 / 16);
  const LoadModel devices = load_model(seen), experts = model_of_experts(devices, 4, 16);
  for (const double factor : {0.9, 1.0, 1.1, 1.2}) {
    for (const bool by_expert : {false, true}) {
      const Drawn counted = drawn(by_expert, factor);
      const double share = mean_dropped_share(by_expert ? experts : devices, factor);
      // Means of sites are 1 exactly, which a twentieth of a percent allows for.
      EXPECT_NEAR(share, counted.share, 4 * counted.error + 5e-4 * share + 1e-5)
          << (by_expert ? "experts" : "devices") << " at " << factor;
      if (factor <= 1.1) {
        EXPECT_GT(counted.share, 5 * counted.error) << "the draws say something";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Specs, ModelledDrops,
    ::testing::Values(ExpertLoadSpec{.coefficient_of_variation = 0.1},
                      ExpertLoadSpec{.coefficient_of_variation = 0.12, .layer_correlation = 0.5},
                      ExpertLoadSpec{.coefficient_of_variation = 0.1, .popularity_share = 0.75, .persistence = 0.9}));

/// The largest of independent normals, cut: against the sum over a grid of its distribution function.
TEST(MeanFullestLoad, IsCutAtTheCapacity) {
  const LoadModel model{.mean = 1, .variance = {.site = 0.01}};
  for (const std::int64_t devices : {2, 4, 32}) {
    const double spread = 0.1 * std::sqrt(static_cast<double>(devices) / static_cast<double>(devices - 1));
    for (const double most : {0.9, 1.0, 1.1, 1.2, 1.3}) {
      double mean = 0, before = 0;
      constexpr double kStep = 1e-4;
      for (double f = 0; f < 2; f += kStep) {
        const double below =
            std::pow(std::erfc(-(f + kStep - 1) / spread / std::numbers::sqrt2) / 2, static_cast<double>(devices));
        mean += (below - before) * std::min(f + kStep / 2, most);
        before = below;
      }
      EXPECT_NEAR(mean_fullest_load(model, devices, most), mean, 1e-5) << devices << " devices, " << most;
    }
    EXPECT_NEAR(mean_fullest_load(model, devices, 10), mean_fullest_load(model, devices), 1e-5);
  }
  EXPECT_EQ(mean_fullest_load(model, 1, 0.5), 0.5);
  EXPECT_EQ(mean_fullest_load({}, 8, 1.25), 1);
}

}  // namespace
}  // namespace tidemark::graph_build
