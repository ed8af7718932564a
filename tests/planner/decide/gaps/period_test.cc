// Long steps decided on short ones: what is left out stands for what is there, prices of the short step bound the long
// one, and what ten times the micro-batches add is ten times what one times add, or less.

#include "planner/decide/gaps/period.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "planner/decide/gaps/move_pricer.h"
#include "planner/decide/gaps/search.h"

namespace tidemark::decide::gaps {
namespace {

constexpr int kInFlight = 24;
constexpr std::int32_t kPass = 4;  // positions

struct Pipeline {
  int micro_batches = 1280;
  double spread = 0;  ///< of sizes, over micro-batches
};

/// 1F1B: each micro-batch has one gap that is recomputed or swapped and one that is recomputed only, over two layers.
GapProblem pipeline(const Pipeline& of) {
  GapProblem p;
  const std::int32_t turns = of.micro_batches - kInFlight;  // backward and forward in turn
  const auto forward_at = [&](int k) { return kPass * (k < kInFlight ? k : kInFlight + 2 * (k - kInFlight) + 1); };
  const auto backward_at = [&](int k) {
    return kPass * (k <= turns ? kInFlight + 2 * k : kInFlight + 2 * turns + (k - turns));
  };
  p.base_bytes.assign(static_cast<std::size_t>(2 * kPass * of.micro_batches + 1), 1000);
  p.kinds = 4;
  std::mt19937 random(7);
  for (std::int32_t kind = 0; kind < p.kinds; ++kind)
    for (int k = 0; k < of.micro_batches; ++k) {
      const bool swaps = kind % 2 == 0;
      const std::int32_t layer = kind / 2;
      const auto unit = static_cast<std::int32_t>(p.units.size()), gap = static_cast<std::int32_t>(p.gaps.size());
      const std::int32_t from = forward_at(k) + 1 + layer, until = backward_at(k) + 1 - layer;
      const double drawn = 2.0 * static_cast<double>(random() % 1001) / 1000 - 1;
      const auto bytes = static_cast<Bytes>((swaps ? 1000.0 : 600.0) * (1 + of.spread * drawn));
      const double recompute = 40 + 5 * kind, swap = 30;
      p.gaps.push_back({.bytes = bytes,
                        .free_from = from,
                        .taken_from = until,
                        .host_until = until,
                        .swap_cost = swaps ? swap : -1.0});
      p.units.push_back({.first = gap, .count = 1, .recompute_cost = recompute, .kind = kind});
      p.unit_gaps.push_back(gap);
      Move move{.action = Action::recompute,
                .unit = unit,
                .gap = gap,
                .cost = recompute,
                .full_cost = recompute,
                .from = from,
                .until = until - 1,
                .run_at = until,
                .bytes = bytes};
      if (move.from < move.until) p.moves.push_back(move);
      move = {.action = Action::swap,
              .unit = unit,
              .gap = gap,
              .cost = swap,
              .full_cost = swap,
              .from = from + 2,
              .until = until - 3,
              .bytes = bytes};
      if (swaps && move.from < move.until) p.moves.push_back(move);
      for (std::int32_t t = from; t < until; ++t) p.base_bytes[static_cast<std::size_t>(t)] += bytes;
    }
  return p;
}

Bytes device_budget(const GapProblem& p) {
  return std::ranges::max(p.base_bytes) * 7 / 10;
}
constexpr Bytes kHost = 6000;

SearchResult searched(const GapProblem& p) {
  MovePricer pricer(p);
  return search_optimal(p, pricer, device_budget(p), kHost);
}

TEST(Period, IsFoundInLongStepsAlone) {
  const GapProblem longer = pipeline({});
  const std::optional<Period> period = Period::find(longer);
  ASSERT_TRUE(period);
  EXPECT_EQ(period->positions() % (2 * kPass), 0) << "whole micro-batches";
  EXPECT_GE(period->positions(), kPass * (2 * kInFlight - 2)) << "all that is in flight";
  EXPECT_LT(period->folded().units.size(), longer.units.size() / 4);
  EXPECT_EQ(std::ssize(period->folded().base_bytes),
            std::ssize(longer.base_bytes) - period->left_out() * period->positions());
  EXPECT_EQ(std::ranges::max(period->folded().base_bytes), std::ranges::max(longer.base_bytes));
  EXPECT_FALSE(Period::find(pipeline({.micro_batches = 80})));
}

TEST(Period, FoldsAStepIntoTheShortOne) {
  const Period period = *Period::find(pipeline({}));
  const GapProblem& folded = period.folded();
  const GapProblem same = pipeline({.micro_batches = static_cast<int>(folded.units.size()) / 4});
  EXPECT_EQ(folded.base_bytes, same.base_bytes);
  ASSERT_EQ(folded.gaps.size(), same.gaps.size());
  for (std::size_t g = 0; g < same.gaps.size(); ++g) {
    EXPECT_EQ(folded.gaps[g].free_from, same.gaps[g].free_from);
    EXPECT_EQ(folded.gaps[g].taken_from, same.gaps[g].taken_from);
    EXPECT_EQ(folded.gaps[g].bytes, same.gaps[g].bytes);
    EXPECT_NEAR(folded.gaps[g].swap_cost, same.gaps[g].swap_cost, 1e-9);
  }
  ASSERT_EQ(folded.moves.size(), same.moves.size());
  for (std::size_t m = 0; m < same.moves.size(); ++m) {
    EXPECT_EQ(folded.moves[m].unit, same.moves[m].unit);
    EXPECT_EQ(folded.moves[m].from, same.moves[m].from);
    EXPECT_EQ(folded.moves[m].until, same.moves[m].until);
    EXPECT_NEAR(folded.moves[m].cost, same.moves[m].cost, 1e-9);
  }
}

TEST(Period, UnfoldsWhatFitsIntoWhatNearlyFits) {
  const GapProblem problem = pipeline({});
  const Period period = *Period::find(problem);
  MovePricer of_short(period.folded()), of_whole(problem);
  const SearchResult found = search_optimal(period.folded(), of_short, device_budget(problem), kHost);
  ASSERT_TRUE(found.fits);
  const Choice whole = period.unfold(found.choice);
  const Pricing pricing = of_whole.price(whole);
  // The short step goes on differently behind its period than the period does: a few moves are left to repair.
  EXPECT_LE(pricing.peak_bytes, device_budget(problem) * 105 / 100);
  EXPECT_LE(pricing.host_peak_bytes, kHost * 3 / 2);
  const auto count = [](const Choice& choice) { return std::ranges::count(choice, Action::keep); };
  EXPECT_GT(count(whole), count(found.choice));
}

TEST(Period, PricesOfTheShortStepBoundTheWhole) {
  for (const double spread : {0.0, 0.4}) {
    const GapProblem problem = pipeline({.spread = spread});
    const Period period = *Period::find(problem);
    const Bytes budget = device_budget(problem);
    const Prices prices = period.unfold(
        find_prices(period.folded(), critical_positions(period.folded(), budget), budget, kHost, 120), budget, kHost);
    EXPECT_NEAR(prices.bound, bound_of(problem, budget, kHost, prices), 1e-6);
    const SearchResult result = searched(problem);
    ASSERT_TRUE(result.fits);
    EXPECT_LE(prices.bound, static_cast<double>(result.pricing.added_cost));
    EXPECT_LE(result.lower_bound, static_cast<double>(result.pricing.added_cost));
    EXPECT_GT(result.lower_bound, 0.7 * static_cast<double>(result.pricing.added_cost)) << "spread " << spread;
  }
}

TEST(Period, ALongStepAddsNoMoreThanAsManyShortOnes) {
  for (const double spread : {0.0, 0.4}) {
    const SearchResult one = searched(pipeline({.micro_batches = 300, .spread = spread}));
    const SearchResult ten = searched(pipeline({.micro_batches = 3000, .spread = spread}));
    ASSERT_TRUE(one.fits && ten.fits);
    EXPECT_LE(static_cast<double>(ten.pricing.added_cost), 1.1 * 10 * static_cast<double>(one.pricing.added_cost) + 1)
        << "spread " << spread;
  }
}

}  // namespace
}  // namespace tidemark::decide::gaps
