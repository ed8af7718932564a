// What passes make, against the independent check of the whole schedule.

#include "planner/decide/flat/eviction.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planner/decide/flat/list_length.h"
#include "tests/planner/decide/flat/flat_step.h"
#include "tests/planner/decide/flat/random_steps.h"
#include "tests/planner/decide/flat/windows.h"

namespace tidemark::decide::flat {
namespace {

using testing::draw;
using testing::FlatStep;
using testing::random_step;
using testing::ReferenceReplay;
using testing::ReferenceStep;

constexpr std::int64_t kNoLimit = 1'000'000'000;
constexpr std::int64_t kWorkPerOp = 3000;

/// What passes came to over several steps and budgets.
struct Passes {
  int made = 0, fitted = 0;
  std::size_t runs = 0, swaps = 0;
};

/// One pass; what it says of itself is what the check sees, but for waits for copies: passes do not know them.
void expect_checked(const FlatStep& flat, const Problem& problem, Bytes budget, const EvictionWay& way,
                    Passes& passes) {
  std::int64_t work = 0;
  const auto solution = evict_on_the_way(problem, budget, way, kNoLimit, work);
  ASSERT_TRUE(solution.has_value());
  EXPECT_LT(work, kWorkPerOp * problem.op_count);
  const RunOrder order = schedule_of(problem, *solution);
  const ReferenceReplay reference = replay(flat.step, order);
  ASSERT_EQ(reference.fault, "");
  EXPECT_EQ(reference.peak_bytes, solution->peak_bytes);
  EXPECT_EQ(reference.added_cost - reference.waited, solution->added_cost);
  expect_carried_out(flat, order);
  ++passes.made;
  passes.fitted += solution->peak_bytes <= budget ? 1 : 0;
  passes.runs += solution->reruns.size();
  passes.swaps += solution->swaps.size();
}

/// At all, nine and seven tenths of what keeping everything takes, where nothing leaves at all of it.
void expect_rules_kept(const FlatStep& flat, const Problem& problem, const EvictionWay& way, Passes& passes) {
  const Bytes keep = State(problem, 0).profile().peak();
  Passes at_ease;
  expect_checked(flat, problem, keep, way, at_ease);
  EXPECT_EQ(at_ease.runs + at_ease.swaps, 0);
  for (const Bytes budget : {keep * 9 / 10, keep * 7 / 10}) expect_checked(flat, problem, budget, way, passes);
}

TEST(RematEviction, PassesKeepTheRules) {
  struct Kind {
    const char* name;
    bool swaps, timed;
    std::size_t least_runs, least_swaps;
    int tenths;  ///< of the passes that fit at least
  };
  for (const Kind& kind : {Kind{"runs", false, false, 500, 0, 6}, Kind{"swaps", true, false, 200, 200, 8},
                           Kind{"swaps that take time", true, true, 200, 100, 7}}) {
    Passes passes;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      ReferenceStep step =
          random_step(seed, {.ops = 60, .swaps = kind.swaps, .awkward = seed % 2 == 0, .untold = seed % 3 == 0});
      if (kind.timed) step = testing::with_link(std::move(step), seed, 25);
      const FlatStep flat(std::move(step));
      expect_rules_kept(flat, kind.timed ? testing::with_windows(flat) : flat.problem, {.hold = 0.5}, passes);
    }
    EXPECT_GT(passes.runs, kind.least_runs) << kind.name;
    EXPECT_GE(passes.swaps, kind.least_swaps) << kind.name;
    EXPECT_EQ(passes.swaps > 0, kind.swaps) << kind.name;
    EXPECT_GE(passes.fitted * 10, passes.made * kind.tenths) << kind.name;
  }
}

/// Over the index that longer lists have, and with weights of every size.
TEST(RematEviction, OfLongListsKeepTheRules) {
  for (const bool swaps : {false, true})
    for (const bool windows : {false, true}) {
      if (windows && !swaps) continue;
      Passes passes;
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        ReferenceStep step = random_step(seed, {.ops = kLongOps + 50, .swaps = swaps, .awkward = seed % 2 == 0});
        if (windows) step = testing::with_link(std::move(step), seed, 25);
        const FlatStep flat(std::move(step));
        const Problem problem = windows ? testing::with_windows(flat) : flat.problem;
        std::mt19937_64 random(seed);
        std::vector<double> weight;
        for (std::int32_t s = 0; s < problem.storage_count; ++s) weight.push_back(std::exp2(draw(random, 21) - 10));
        expect_rules_kept(flat, problem, {.hold = 1, .slack = 0.3, .deep = true}, passes);
        expect_rules_kept(flat, problem, {.hold = 1, .weight = &weight}, passes);
      }
      EXPECT_GT(passes.runs, 100);
      EXPECT_EQ(passes.swaps > 100, swaps);
    }
}

/// An op that writes a storage of its own.
void add(ReferenceStep& step, Bytes bytes, std::int64_t cost, std::vector<std::int32_t> reads) {
  const auto s = static_cast<std::int32_t>(step.storages.size());
  step.storages.push_back({.name = std::to_string(s), .bytes = bytes});
  step.ops.push_back({.name = std::to_string(s), .cost = cost, .reads = std::move(reads), .writes = {s}});
}

/// What has one version is paid for once however often it is needed again.
TEST(RematEviction, ACopyThatIsStillGoodCostsNothingMore) {
  ReferenceStep step{.name = "often"};
  add(step, 10, 30, {});
  step.storages[0].swappable = true;
  step.storages[0].copies = {.out = {.compute = 20}, .in = {.compute = 5}};
  for (int i = 0; i < 3; ++i) {
    add(step, 10, 100, {});  // no room for both ...
    add(step, 1, 1, {static_cast<std::int32_t>(step.storages.size()) - 1});
    add(step, 1, 1, {0});  // ... and the first again
  }
  const FlatStep flat(std::move(step));
  std::int64_t work = 0;
  const auto solution = evict_on_the_way(flat.problem, 14, {}, kNoLimit, work);
  ASSERT_TRUE(solution.has_value());
  EXPECT_LE(solution->peak_bytes, 14);
  EXPECT_EQ(solution->swaps.size(), 3);
  EXPECT_EQ(solution->added_cost, 20 + 3 * 5);
}

/// What an op is about to read for the last time is no room for what must be copied in by then.
TEST(RematEviction, WhatIsReadNowIsKeptDuringCopiesIn) {
  ReferenceStep step{.name = "two at once"};
  add(step, 10, 50, {});  // swappable
  step.storages[0].swappable = true;
  step.storages[0].copies = {.out = {.link = 5}, .in = {.link = 5}};
  add(step, 1, 50, {0});
  add(step, 10, 50, {1});
  add(step, 9, 50, {2});  // no room beside it from here ...
  add(step, 5, 1, {});    // cheap to recompute
  add(step, 10, 50, {3});
  add(step, 1, 6, {5});  // ... to here, while it is copied in
  add(step, 1, 50, {0, 4, 6});
  const FlatStep flat(std::move(step));
  const Problem problem = testing::with_windows(flat);
  std::int64_t work = 0;
  const auto solution = evict_on_the_way(problem, 24, {}, kNoLimit, work);
  ASSERT_TRUE(solution.has_value());
  EXPECT_LE(solution->peak_bytes, 24);
  EXPECT_EQ(solution->swaps.size(), 1);
  EXPECT_EQ(solution->reruns, std::vector<Key>{key_of(7, 4)});
}

TEST(RematEviction, StopsWhereItWouldTakeTooLong) {
  const FlatStep flat(testing::uniform_chain(400));
  std::int64_t work = 0;
  EXPECT_FALSE(evict_on_the_way(flat.problem, 5, {}, 20'000, work).has_value());
  EXPECT_GT(work, 0);
}

}  // namespace
}  // namespace tidemark::decide::flat
