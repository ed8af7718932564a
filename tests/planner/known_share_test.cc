#include "planner/known_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "planner/graph_build/normal_draws.h"

namespace tidemark::plan {
namespace {

using graph_build::NormalDraws;

/// One more: (k + 1/2) / (n + 1) is the chance of another. And sampled: what comes next stays below as often as stated.
TEST(ShareAtMost, HoldsAsOftenAsStated) {
  EXPECT_EQ(share_at_most(0, 19, 1), 0);  // 1 in 40
  EXPECT_EQ(share_at_most(0, 18, 1), 1);  // 1 in 38
  EXPECT_EQ(share_at_most(10, 10, 5), 1);
  EXPECT_LT(share_at_most(0, 1000, 1000), 0.01);
  NormalDraws draws(3);
  const auto sample = [&draws](double p, int of) {
    std::int64_t above = 0;
    for (int i = 0; i < of; ++i) above += static_cast<double>(draws.next() >> 11) * 0x1.0p-53 < p ? 1 : 0;
    return above;
  };
  for (const double p : {0.0, 0.002, 0.05, 0.5, 0.99}) {
    int held = 0;
    for (int i = 0; i < 400; ++i) {
      const double at_most = share_at_most(sample(p, 300), 300, 200);
      held += static_cast<double>(sample(p, 200)) / 200 <= at_most ? 1 : 0;
    }
    EXPECT_GE(held, 400 * 95 / 100) << p;
  }
}

/// Truths of which each has a share of its own, a few trials of each: the next one's share lies in the interval as
/// often as stated, also where all truths are alike.
TEST(ShareOfNext, HoldsAsOftenAsStated) {
  NormalDraws draws(7);
  const auto uniform = [&draws] { return static_cast<double>(draws.next() >> 11) * 0x1.0p-53; };
  const auto sample = [&](double p, int of) {
    std::int64_t above = 0;
    for (int i = 0; i < of; ++i) above += uniform() < p ? 1 : 0;
    return above;
  };
  constexpr int kTimes = 400, kTruths = 15, kOf = 4, kNext = 12;
  for (const double apart : {0.0, 0.1, 0.4}) {
    int held = 0;
    double width = 0;
    for (int i = 0; i < kTimes; ++i) {
      const auto share = [&] { return std::clamp(0.5 + apart * draws.normal(), 0.0, 1.0); };
      std::vector<std::int64_t> above;
      for (int t = 0; t < kTruths; ++t) above.push_back(sample(share(), kOf));
      const KnownShare known = share_of_next(above, kOf);
      const double seen = static_cast<double>(sample(share(), kNext)) / kNext;
      const double low = share_quantile(known, kNext, 0.025), high = share_quantile(known, kNext, 0.975);
      held += seen >= low && seen <= high ? 1 : 0;
      width += (high - low) / kTimes;
    }
    EXPECT_GE(held, kTimes * 92 / 100) << apart;
    if (apart == 0) {
      EXPECT_LT(width, 0.75);  // 0.57 if the share were known
    }
  }
}

}  // namespace
}  // namespace tidemark::plan
