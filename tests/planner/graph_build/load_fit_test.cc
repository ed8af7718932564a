#include "planner/graph_build/load_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "planner/graph_build/load_draws.h"
#include "tests/support/sanitized.h"

namespace tidemark::graph_build {
namespace {

constexpr CountedShape kTwo{.layers = 2, .micro_batches = 2, .devices = 2};

/// Two devices whose loads are 1 + x and 1 - x at each site, given as x by layer and micro-batch.
std::vector<double> mirrored(const std::vector<double>& x) {
  std::vector<double> loads;
  for (const double one : x) {
    loads.push_back(1 + one);
    loads.push_back(1 - one);
  }
  return loads;
}

LoadFit fit_of(const CountedShape& shape, const std::vector<std::vector<double>>& steps) {
  LoadFitter fitter(shape);
  for (const auto& step : steps) fitter.add(step);
  return fitter.fit();
}

/// The mean squares of a small layout, by hand. With x = (0.3, 0.1; 0.2, 0.2): g = (0.2, 0.2), c = 0.2, h = 0.
///   site         = 4 * 0.1^2 / (2 layers * 1 * 2 devices) = 0.01     (0.3 and 0.1 are 0.1 from 0.2, on both devices)
///   layer        = 0, so popularity is 0 - 0.01 / 2 < 0
///   device       = 0.2^2 - 0 / 2
TEST(LoadFit, MeanSquaresOfASmallLayout) {
  const LoadFit fit = fit_of(kTwo, {mirrored({0.3, 0.1, 0.2, 0.2})});
  EXPECT_NEAR(fit.model.variance.site, 0.01, 1e-15);
  EXPECT_DOUBLE_EQ(fit.model.variance.popularity, 0);
  EXPECT_NEAR(fit.model.variance.device, 0.04, 1e-15);
  EXPECT_DOUBLE_EQ(fit.model.mean, 1);
  EXPECT_NEAR(fit.fullest, 1.2, 1e-15);
}

/// x = (0.3, 0.3; -0.1, -0.1): c = 0.1, h = +-0.2. layer = 4 * 0.04 / (1 * 2) = 0.08; device = 0.01 - 0.08 / 2 < 0.
TEST(LoadFit, PopularityIsWhatLayersOfADeviceDiffer) {
  const LoadFit fit = fit_of(kTwo, {mirrored({0.3, 0.3, -0.1, -0.1})});
  EXPECT_DOUBLE_EQ(fit.model.variance.site, 0);
  EXPECT_NEAR(fit.model.variance.popularity, 0.08, 1e-15);
  EXPECT_DOUBLE_EQ(fit.model.variance.device, 0);
  EXPECT_NE(fit.missing.find("the drift of popularity is missing"), std::string::npos) << fit.missing;
}

/// Scaled rows say the same.
TEST(LoadFit, RowsAreAsGoodAsLoads) {
  std::vector<double> rows = mirrored({0.3, 0.1, 0.2, -0.2});
  const LoadFit loads = fit_of(kTwo, {rows});
  for (double& one : rows) one *= 16384;
  const LoadFit fit = fit_of(kTwo, {rows});
  EXPECT_NEAR(fit.model.mean, 16384, 1e-9);
  EXPECT_NEAR(fit.model.variance.site, loads.model.variance.site, 1e-12);
  EXPECT_NEAR(fit.model.variance.popularity, loads.model.variance.popularity, 1e-12);
}

/// With one micro-batch only what stays from step to step tells popularity from sequences.
TEST(LoadFit, OneMicroBatch) {
  const CountedShape shape{.layers = 2, .micro_batches = 1, .devices = 2};
  const LoadFit one = fit_of(shape, {mirrored({0.2, -0.2})});
  EXPECT_DOUBLE_EQ(one.model.variance.popularity, 0);
  EXPECT_NEAR(one.model.variance.site, 0.08, 1e-15);
  EXPECT_NE(one.missing.find("popularity and its drift are missing"), std::string::npos) << one.missing;
  // h = +-0.2, then +-0.1: the mean product is 4 * 0.02 / 2 = 0.04, the mean square (0.08 + 0.02) / 2.
  const LoadFit two = fit_of(shape, {mirrored({0.2, -0.2}), mirrored({0.1, -0.1})});
  EXPECT_NEAR(two.model.variance.popularity, 0.04, 1e-15);
  EXPECT_NEAR(two.model.variance.site, 0.01, 1e-15);
  EXPECT_NE(two.missing.find("two steps of one micro-batch"), std::string::npos) << two.missing;
  EXPECT_EQ(fit_of(shape, {mirrored({0.2, -0.2}), mirrored({0.1, -0.1}), mirrored({0.1, 0.1})}).missing, "");
}

TEST(LoadFit, OneLayerCannotBeToldFromItsDevice) {
  const LoadFit fit = fit_of({.layers = 1, .micro_batches = 2, .devices = 2}, {mirrored({0.2, 0.2})});
  EXPECT_NEAR(fit.model.variance.popularity, 0.04, 1e-15);
  EXPECT_DOUBLE_EQ(fit.model.variance.device, 0);
  EXPECT_NE(fit.missing.find("the part of devices is missing"), std::string::npos) << fit.missing;
}

TEST(LoadFit, NothingVariesWhereNothingDoes) {
  const LoadFit fit = fit_of(kTwo, {std::vector<double>(8, 5.0), std::vector<double>(8, 0.0)});
  EXPECT_EQ(fit.model.variance, LoadParts{});
  EXPECT_EQ(fit.error, LoadParts{});
  EXPECT_DOUBLE_EQ(fit.fullest, 1);
}

struct Drawn {
  ExpertLoadSpec spec;
  LoadShape shape;
  LoadFit fit;
};

Drawn draw(std::uint64_t seed, const ExpertLoadSpec& spec, int steps, std::int64_t layers = 12,
           std::int64_t micro_batches = 6) {
  LoadShape shape{.micro_batches = micro_batches,
                  .devices = 16,
                  .experts = 64,
                  .mean_rows = 1 << 20,
                  .most_rows = std::int64_t{16} << 20};
  for (std::int64_t l = 0; l < layers; ++l) shape.layers.push_back(l);
  const LoadDraws draws(shape, LoadFamily::own, spec, seed);
  LoadFitter fitter({.layers = layers, .micro_batches = micro_batches, .devices = shape.devices});
  for (int step = 0; step < steps; ++step) {
    const std::vector<std::int64_t> rows = draws.rows(step);
    fitter.add(std::vector<double>(rows.begin(), rows.end()));
  }
  return {.spec = spec, .shape = shape, .fit = fitter.fit()};
}

/// How many standard errors the estimate is off what was drawn. Rows that are shared out over G devices show
/// (G - 1) / G of it.
double errors_off(double estimate, double drawn, double error) {
  return (estimate - drawn * 15 / 16) / error;
}

/// Components of many traces: each estimate lies within its stated errors as often as a normal one would, and no part
/// leaks into another.
TEST(LoadFit, RecoversWhatWasDrawn) {
  struct Case {
    double popularity, device, persistence;
  };
  for (const Case c : {Case{0.6, 0.1, 1.0}, Case{0.6, 0.1, 0.9}, Case{0.0, 0.25, 1.0}, Case{0.3, 0.3, 0.5}}) {
    const ExpertLoadSpec spec{.coefficient_of_variation = 0.1,
                              .layer_correlation = c.device,
                              .popularity_share = c.popularity,
                              .persistence = c.persistence};
    const int traces = testing::cases(40);
    int within = 0, judged = 0;
    LoadParts mean, mean_error;
    for (int seed = 1; seed <= traces; ++seed) {
      const LoadFit fit = draw(static_cast<std::uint64_t>(seed), spec, 24).fit;
      const LoadParts drawn = load_model(spec).variance;
      for (const double off :
           {errors_off(fit.model.variance.site, drawn.site, fit.error.site),
            errors_off(fit.model.variance.device, drawn.device, fit.error.device),
            drawn.popularity > 0 ? errors_off(fit.model.variance.popularity, drawn.popularity, fit.error.popularity)
                                 : 0}) {
        within += std::abs(off) < 2 ? 1 : 0;
        ++judged;
      }
      mean.popularity += fit.model.variance.popularity / traces;
      mean.device += fit.model.variance.device / traces;
      mean.site += fit.model.variance.site / traces;
      if (c.popularity > 0) {
        EXPECT_NEAR(fit.model.persistence, c.persistence, 0.08) << c.persistence;
      }
    }
    EXPECT_GE(within, judged * 85 / 100) << c.popularity << ' ' << c.device << ' ' << c.persistence;
    const LoadParts drawn = load_model(spec).variance;
    EXPECT_NEAR(mean.site, drawn.site * 15 / 16, 0.02 * 0.01);
    EXPECT_NEAR(mean.device, drawn.device * 15 / 16, 0.05 * 0.01);
    EXPECT_NEAR(mean.popularity, drawn.popularity * 15 / 16, 0.05 * 0.01);
  }
}

/// Slow drift is read over long lags.
TEST(LoadFit, RecoversSlowDrift) {
  const ExpertLoadSpec spec{.coefficient_of_variation = 0.2, .popularity_share = 0.8, .persistence = 0.99};
  for (std::uint64_t seed = 1; seed <= testing::cases(3U); ++seed) {
    const LoadFit fit = draw(seed, spec, 96, 6, 4).fit;
    EXPECT_NEAR(fit.model.persistence, 0.99, 0.006);
    EXPECT_LT(fit.persistence_error, 0.006);
  }
}

/// The family `persistent`: 0.20 by layer, 0.05 by device and step, 0.07 by site.
TEST(LoadFit, RecoversThePersistentFamily) {
  LoadShape shape{
      .micro_batches = 8, .devices = 32, .experts = 256, .mean_rows = 16384, .most_rows = std::int64_t{32} << 14};
  for (std::int64_t l = 0; l < 20; ++l) shape.layers.push_back(l);
  const LoadDraws draws(shape, LoadFamily::persistent, {}, 3);
  LoadFitter fitter({.layers = 20, .micro_batches = 8, .devices = 32});
  for (int step = 0; step < 16; ++step) {
    const std::vector<std::int64_t> rows = draws.rows(step);
    fitter.add(std::vector<double>(rows.begin(), rows.end()));
  }
  const LoadFit fit = fitter.fit();
  const double seen = std::sqrt(31.0 / 32);
  EXPECT_NEAR(std::sqrt(fit.model.variance.popularity), 0.20 * seen, 0.02);
  EXPECT_NEAR(std::sqrt(fit.model.variance.device), 0.05 * seen, 0.02);
  EXPECT_NEAR(std::sqrt(fit.device_step), 0.05 * seen, 0.005);
  EXPECT_NEAR(std::sqrt(fit.model.variance.site), 0.07 * seen, 0.003);
  EXPECT_GT(fit.model.persistence, 0.99);
  EXPECT_NEAR(fit.fullest, mean_fullest_load(fit.model, 32) / fit.model.mean, 0.03);
  EXPECT_EQ(fit.missing, "");
}

TEST(LoadModel, ASpecAndItsModelSayTheSame) {
  const ExpertLoadSpec spec{.mean = 1.1,
                            .coefficient_of_variation = 0.2,
                            .layer_correlation = 0.25,
                            .quantile = 0.9,
                            .seed = 4,
                            .popularity_share = 0.5,
                            .persistence = 0.9};
  const LoadModel model = load_model(spec);
  EXPECT_NEAR(model.variance.sum(), 0.04, 1e-15);
  EXPECT_NEAR(model.variance.site, 0.01, 1e-15);
  const ExpertLoadSpec again = spec_of(model, spec);
  EXPECT_NEAR(again.coefficient_of_variation, 0.2, 1e-15);
  EXPECT_NEAR(again.layer_correlation, 0.25, 1e-15);
  EXPECT_NEAR(again.popularity_share, 0.5, 1e-15);
  EXPECT_EQ(again.seed, 4U);
  EXPECT_EQ(spec_of(LoadModel{}, {}), ExpertLoadSpec{});
}

/// Known values: 1 / sqrt(pi) of two, 3 / (2 sqrt(pi)) of three; 2.0697 of 32 (tables of order statistics).
TEST(LoadModel, TheFullestDevice) {
  EXPECT_NEAR(mean_of_largest_normal(1), 0, 1e-9);
  EXPECT_NEAR(mean_of_largest_normal(2), 0.5641895835, 1e-9);
  EXPECT_NEAR(mean_of_largest_normal(3), 0.8462843753, 1e-9);
  EXPECT_NEAR(mean_of_largest_normal(32), 2.06967, 1e-4);
  EXPECT_DOUBLE_EQ(mean_fullest_load({.mean = 1.2}, 32), 1.2);
  // Drawn before they are shared out: z of 32 devices about their mean.
  EXPECT_NEAR(mean_fullest_load({.mean = 1, .variance = {.site = 0.01 * 31 / 32}}, 32), 1.206967, 1e-5);
  EXPECT_DOUBLE_EQ(mean_fullest_load({.mean = 1, .variance = {.site = 0.01}}, 1), 1);
}

}  // namespace
}  // namespace tidemark::graph_build
