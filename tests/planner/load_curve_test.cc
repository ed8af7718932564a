// Which load to plan for next, against curves that are known.

#include "planner/load_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <utility>

namespace tidemark::plan {
namespace {

/// Chunks of a plan for f: short of `slope` a unit below `from`.
std::function<double(double)> chunks(double slope, double from) {
  return [slope, from](double load) { return slope * std::max(0.0, from - load); };
}

LoadCurve::Point from_mean(double bound_ns, std::function<double(double)> chunks_ns = chunks(1000, 1.2)) {
  return {.load = 1, .added_ns = bound_ns, .chunks_ns = std::move(chunks_ns)};
}

TEST(LoadCurve, PromisesNothingWherePlansAreKnownToBeNoBetter) {
  LoadCurve curve;
  EXPECT_FALSE(curve.best(from_mean(0)));
  curve.add({.load = 1, .added_ns = 100, .chunks_ns = chunks(1000, 1.2)});
  curve.add({.load = 1.2, .added_ns = 100, .chunks_ns = chunks(1000, 1.2)});
  EXPECT_EQ(curve.best(from_mean(0))->gain_ns, 0);
}

TEST(LoadCurve, TakesTheBoundWhereNoPlanIs) {
  LoadCurve curve;
  curve.add({.load = 1.5, .added_ns = 700, .chunks_ns = chunks(200, 1.5)});
  // From 100 at 1 to 700 at 1.5, less 200 a unit for chunks: the lower the better.
  const auto best = curve.best(from_mean(100, chunks(200, 1.5)));
  EXPECT_DOUBLE_EQ(best->load, 1);
  EXPECT_DOUBLE_EQ(best->gain_ns, 700 - 100 - 200 * 0.5);
  curve.add({.load = 1, .added_ns = 690, .chunks_ns = chunks(200, 1.5)});  // it was no plan's
  EXPECT_EQ(curve.best(from_mean(100, chunks(200, 1.5)))->gain_ns, 0);
}

TEST(LoadCurve, KnowsItsPlans) {
  LoadCurve curve;
  curve.add({.load = 1.5, .added_ns = 50, .chunks_ns = chunks(0, 1)});
  curve.add({.load = 1, .added_ns = 70, .chunks_ns = chunks(0, 1)});
  EXPECT_EQ(curve.added_ns(1), 70);
  EXPECT_FALSE(curve.added_ns(1.2));
  curve.add({.load = 1.3, .added_ns = 60, .chunks_ns = chunks(0, 1)});
  EXPECT_EQ(curve.next_load(1, 2), 1.3);
  EXPECT_EQ(curve.next_load(1.3, 2), 1.5);
  EXPECT_EQ(curve.next_load(1.4, 1.3), 1.3);
  EXPECT_FALSE(curve.next_load(1.3, 1.4));
  EXPECT_FALSE(curve.next_load(1.5, 2));
}

/// Whatever jumps a planner makes, a few rounds come near the best load there is.
TEST(LoadCurve, FindsTheBestOfCurvesThatJump) {
  std::mt19937_64 random(5);
  const auto draw = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  double missed = 0, to_gain = 0;
  for (int round = 0; round < 200; ++round) {
    const double jump_at = draw(1.0, 1.5), jump = draw(0, 800), slope = draw(0, 100);
    const double deviation = draw(0.03, 0.1), short_ns = draw(500, 20000);
    const auto added = [&](double f) { return 50 + slope * (f - 1) + (f >= jump_at ? jump : 0); };
    const auto chunks_ns = [&](double f) {
      const double z = (f - 1) / deviation;
      return short_ns * deviation * (0.3989 * std::exp(-z * z / 2) - z * std::erfc(z * M_SQRT1_2) / 2);
    };
    double least = std::numeric_limits<double>::infinity();
    for (double f = 1; f <= 1.5; f += 1e-4) least = std::min(least, added(f) + chunks_ns(f));
    LoadCurve curve;
    double load = 1.5, found = std::numeric_limits<double>::infinity();
    for (int plans = 0; plans < 6; ++plans) {
      curve.add({.load = load, .added_ns = added(load), .chunks_ns = chunks_ns});
      found = std::min(found, added(load) + chunks_ns(load));
      const auto next = curve.best(from_mean(40, chunks_ns));
      if (next->gain_ns < 4) break;
      load = next->load;
    }
    const double first = added(1.5) + chunks_ns(1.5);
    EXPECT_LE(found, first);
    missed += found - least;
    to_gain += first - least;
  }
  EXPECT_LT(missed, 0.15 * to_gain);
}

}  // namespace
}  // namespace tidemark::plan
