// Choices of the decision core over the gaps of a step, held against the independent check of schedules.

#include "planner/decide/flat/gap_pricer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "planner/decide/flat/bound.h"
#include "planner/decide/flat/exact_frontier.h"
#include "planner/decide/flat/greedy.h"
#include "planner/decide/gaps/search.h"
#include "tests/planner/decide/flat/flat_step.h"
#include "tests/planner/decide/flat/random_steps.h"
#include "tests/support/sanitized.h"

namespace tidemark::decide::flat {
namespace {

using testing::FlatStep;
using testing::forward_and_back;
using testing::layered_step;
using testing::random_step;
using testing::ReferenceReplay;
using testing::ReferenceStep;

std::vector<ReferenceStep> steps_of(std::uint64_t seed) {
  return {random_step(seed, {.ops = 30, .swaps = seed % 2 == 0}), forward_and_back(seed, 12, seed % 3 == 0),
          layered_step(seed, {.layers = 8, .wide = 4})};
}

gaps::Choice any_choice(const gaps::GapProblem& gaps, std::mt19937_64& random) {
  gaps::Choice choice(gaps.gaps.size(), Action::keep);
  for (std::size_t g = 0; g < choice.size(); ++g) {
    const std::uint64_t draw = random() % 4;
    if (draw == 0 && gaps.units[g].recompute_cost >= 0) choice[g] = Action::recompute;
    if (draw == 1 && gaps.gaps[g].swap_cost >= 0) choice[g] = Action::swap;
  }
  return choice;
}

void for_each_step(const std::function<void(const FlatStep&, const ListGaps&, GapPricer&)>& body) {
  for (std::uint64_t seed = 0; seed < 60; ++seed)
    for (const ReferenceStep& step : steps_of(seed)) {
      SCOPED_TRACE(step.name + " " + std::to_string(seed));
      const FlatStep flat(step);
      const ListGaps gaps = list_gaps(flat.problem, GapUse::choice);
      GapPricer pricer(flat.problem, gaps);
      body(flat, gaps, pricer);
    }
}

TEST(GapPricer, PricesWhatTheIndependentCheckSees) {
  std::mt19937_64 random(1);
  int moved = 0;
  for_each_step([&](const FlatStep& flat, const ListGaps& gaps, GapPricer& pricer) {
    for (int i = 0; i < 20; ++i) {
      const gaps::Pricing pricing = pricer.price(any_choice(gaps.problem, random));
      const Solution solution = pricer.solution();
      const RunOrder order = schedule_of(flat.problem, solution);
      const ReferenceReplay reference = replay(flat.step, order);
      ASSERT_EQ(reference.fault, "");
      EXPECT_EQ(reference.peak_bytes, pricing.peak_bytes);
      EXPECT_EQ(reference.added_cost, pricing.added_cost);
      EXPECT_EQ(std::ranges::max(pricer.profile()), pricing.peak_bytes);
      if (i % 4 == 0) expect_carried_out(flat, order);
      if (!solution.reruns.empty() || !solution.swaps.empty()) ++moved;
    }
  });
  EXPECT_GT(moved, 1000);
}

TEST(GapPricer, AGapGivenUpLeavesItsBytesFreeWhereItSays) {
  int compared = 0;
  for_each_step([&](const FlatStep&, const ListGaps& gaps, GapPricer& pricer) {
    for (std::size_t g = 0; g < gaps.places.size(); ++g) {
      if (gaps.problem.gaps[g].swap_cost < 0) continue;  // a run may keep what it reads alive
      gaps::Choice choice(gaps.places.size(), Action::keep);
      choice[g] = Action::swap;
      pricer.price(choice);
      for (std::size_t t = 0; t < pricer.profile().size(); ++t) {
        const auto op = static_cast<std::int32_t>(t);
        const bool free = pricer.freed_from()[g] <= op && op < pricer.freed_until()[g];
        EXPECT_EQ(pricer.profile()[t], gaps.problem.base_bytes[t] - (free ? gaps.problem.gaps[g].bytes : 0));
        ++compared;
      }
    }
  });
  EXPECT_GT(compared, 1000);
}

TEST(SearchOptimal, OnFlatStepsIsAboveTheExactOptimumAndBoundsBelow) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  int compared = 0, equal = 0;
  for (std::uint64_t seed = 0; seed < testing::cases(150U); ++seed) {
    const FlatStep flat(random_step(seed, {.ops = 12, .swaps = seed % 2 == 0}));
    ListGaps gaps = list_gaps(flat.problem, GapUse::choice);
    add_moves(flat.problem, gaps);
    GapPricer pricer(flat.problem, gaps);
    const Bytes keep = std::ranges::max(gaps.problem.base_bytes);
    ExactFrontier exact(flat.problem, keep);
    for (const Bytes budget : {keep * 9 / 10, keep * 8 / 10, keep * 7 / 10}) {
      const gaps::SearchResult found = gaps::search_optimal(
          gaps.problem, pricer, budget, std::numeric_limits<Bytes>::max() / 4, gaps::SearchDepth::rounding);
      exact.look_down_to(budget);
      const ExactFrontier::Point* best = exact.best_within(budget);
      if (best == nullptr) continue;
      EXPECT_LE(least_added_cost(flat.problem, budget), best->added_cost) << seed;
      EXPECT_LE(least_peak(flat.problem).bytes, best->peak_bytes) << seed;
      if (!found.fits) continue;
      EXPECT_GE(found.pricing.added_cost, best->added_cost) << seed;
      ++compared;
      if (found.pricing.added_cost == best->added_cost) ++equal;
    }
  }
  EXPECT_GT(compared, testing::kSanitized ? 4 : 100);
  EXPECT_GT(equal, compared / (testing::kSanitized ? 3 : 2));
}

TEST(Greedy, EveryScheduleReplaysAndTheyTradeBytesForCost) {
  std::size_t most = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    for (const ReferenceStep& step : steps_of(seed)) {
      const FlatStep flat(step);
      const std::vector<Solution> found = greedy_schedules(flat.problem).all();
      ASSERT_FALSE(found.empty());
      EXPECT_EQ(found.back().added_cost, 0);
      most = std::max(most, found.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        const RunOrder order = schedule_of(flat.problem, found[i]);
        const ReferenceReplay reference = replay(flat.step, order);
        ASSERT_EQ(reference.fault, "") << step.name << seed;
        EXPECT_EQ(reference.peak_bytes, found[i].peak_bytes);
        EXPECT_EQ(reference.added_cost, found[i].added_cost);
        expect_carried_out(flat, order);
        if (i > 0) {
          EXPECT_LT(found[i].added_cost, found[i - 1].added_cost);
        }
      }
    }
  EXPECT_GT(most, 5U);
}

}  // namespace
}  // namespace tidemark::decide::flat
