// Local search, and what it lets become of the dead inputs of a recompute.

#include "planner/decide/flat/improve.h"

#include <gtest/gtest.h>

#include <limits>

#include "planner/decide/flat/bound.h"
#include "planner/decide/flat/priced_inputs.h"
#include "planner/decide/flat/recompute.h"
#include "tests/planner/decide/flat/flat_step.h"
#include "tests/planner/decide/flat/random_steps.h"

namespace tidemark::decide::flat {
namespace {

using testing::draw;
using testing::FlatStep;
using testing::random_step;
using testing::ReferenceReplay;
using testing::ReferenceStep;

/// Op i reads storage i - 1 and writes storage i; the last two ops read storage n - 1.
ReferenceStep chain(std::mt19937_64& random, std::int32_t n) {
  ReferenceStep step{.name = "chain"};
  for (std::int32_t i = 0; i < n + 2; ++i) {
    step.storages.push_back({.name = "s" + std::to_string(i), .bytes = 1 + draw(random, 9)});
    ReferenceStep::Op op{.name = "o" + std::to_string(i), .cost = draw(random, 10), .writes = {i}};
    if (i > 0) op.reads = {std::min(i, n) - 1};
    step.ops.push_back(std::move(op));
  }
  return step;
}

TEST(PricedInputs, OfAChainAreCutWhereItIsCheapest) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::int32_t n = 3 + draw(random, 8);
    const FlatStep flat(chain(random, n));
    State state(flat.problem, 0);
    PricedInputs inputs(state);
    const double price = 0.01 * (1 + draw(random, 500));
    const Key key = key_of(n + 1, n - 1);
    inputs.begin(key, price);
    // Of the inputs nothing lives on, or one.
    double best = std::numeric_limits<double>::infinity(), reruns = 0;
    std::int64_t expected = 0;
    const auto try_cut = [&](double held) {
      if (held + reruns >= best) return;
      best = held + reruns;
      expected = static_cast<std::int64_t>(reruns);
    };
    for (std::int32_t i = n - 2; i >= 0; --i) {
      try_cut(price * static_cast<double>(flat.step.storages[static_cast<std::size_t>(i)].bytes));
      reruns += static_cast<double>(flat.step.ops[static_cast<std::size_t>(i)].cost);
    }
    try_cut(0);
    EXPECT_NEAR(inputs.choose(n - 2).cost, best, 1e-9);
    ASSERT_TRUE(recompute_with_inputs(
        state, key, [&](std::int32_t s, bool) { return inputs.choose(s).input; }, [] { return false; }));
    EXPECT_EQ(state.added_cost(), expected + flat.step.ops[static_cast<std::size_t>(n) - 1].cost);
    EXPECT_EQ(replay(flat.step, schedule_of(flat.problem, state.solution())).fault, "");
  }
}

TEST(Improver, LeavesWhatFitsAndIsNoDearer) {
  int searched = 0, better = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const FlatStep flat(
        random_step(seed, {.ops = 12 + static_cast<int>(seed % 20), .swaps = seed % 3 == 0, .untold = seed % 4 == 1}));
    State state(flat.problem, 0);
    const Bytes least = least_peak(flat.problem).bytes;
    const Bytes budget = least + (state.profile().peak() - least) / 2;
    state.set_budget(budget);
    Archive archive;
    Improver improver(state, archive, seed);
    if (!improver.repair(200'000)) continue;
    const std::int64_t before = state.added_cost();
    improver.improve(200'000, 1, {});
    const Solution found = state.solution();
    const RunOrder order = schedule_of(flat.problem, found);
    const ReferenceReplay reference = replay(flat.step, order);
    ASSERT_EQ(reference.fault, "") << seed;
    EXPECT_LE(reference.peak_bytes, budget) << seed;
    expect_carried_out(flat, order);
    EXPECT_EQ(reference.added_cost, found.added_cost) << seed;
    EXPECT_LE(found.added_cost, before) << seed;
    const Solution* known = archive.best_within(budget);
    ASSERT_NE(known, nullptr) << seed;
    EXPECT_EQ(known->added_cost, found.added_cost) << seed;
    ++searched;
    better += found.added_cost < before ? 1 : 0;
  }
  EXPECT_GT(searched, 30);
  EXPECT_GT(better, 3);
}

}  // namespace
}  // namespace tidemark::decide::flat
