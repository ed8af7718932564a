// What passes make, against the independent check of the whole schedule.

#include "planner/remat/eviction.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planner/remat/list_length.h"
#include "tests/remat/random_list.h"
#include "tests/remat/windows.h"

namespace tidemark::remat {
namespace {

using testing::draw;
using testing::random_list;

constexpr std::int64_t kNoLimit = 1'000'000'000;
constexpr std::int64_t kWorkPerOp = 3000;

/// What passes came to over several steps and budgets.
struct Passes {
  int made = 0, fitted = 0;
  std::size_t runs = 0, pages = 0;
};

/// One pass; what it says of itself is what the check sees.
void expect_checked(const OpList& list, const Problem& problem, Bytes budget, const EvictionWay& way, Passes& passes) {
  std::int64_t work = 0;
  const auto solution = evict_on_the_way(problem, budget, way, kNoLimit, work);
  ASSERT_TRUE(solution.has_value());
  EXPECT_LT(work, kWorkPerOp * problem.op_count);
  const ScheduleReplay replay = replay_schedule(list, schedule_of(problem, *solution), {});
  ASSERT_EQ(replay.fault, "");
  EXPECT_EQ(replay.peak_bytes, solution->peak_bytes);
  EXPECT_EQ(replay.added_cost, solution->added_cost);
  ++passes.made;
  passes.fitted += solution->peak_bytes <= budget ? 1 : 0;
  passes.runs += solution->reruns.size();
  passes.pages += solution->swaps.size();
}

/// At all, nine and seven tenths of what keeping everything takes, where nothing leaves at all of it.
void expect_rules_kept(const OpList& list, const Problem& problem, const EvictionWay& way, Passes& passes) {
  const Bytes keep = State(problem, 0).profile().peak();
  Passes at_ease;
  expect_checked(list, problem, keep, way, at_ease);
  EXPECT_EQ(at_ease.runs + at_ease.pages, 0);
  for (const Bytes budget : {keep * 9 / 10, keep * 7 / 10}) expect_checked(list, problem, budget, way, passes);
}

TEST(RematEviction, PassesKeepTheRules) {
  struct Kind {
    const char* name;
    bool pages, timed;
    std::size_t least_runs, least_pages;
    int tenths;  ///< of the passes that fit at least
  };
  for (const Kind& kind : {Kind{"runs", false, false, 500, 0, 6}, Kind{"pages", true, false, 200, 200, 8},
                           Kind{"pages that take time", true, true, 200, 100, 7}}) {
    Passes passes;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
      OpList list = random_list(seed, {.ops = 60, .pages = kind.pages, .awkward = seed % 2 == 0});
      if (kind.timed) list = testing::with_link(std::move(list), seed, 25);
      list.link.reset();  // what is waited for is no matter of passes
      expect_rules_kept(list, kind.timed ? testing::with_windows(list) : Problem(list), {.hold = 0.5}, passes);
    }
    EXPECT_GT(passes.runs, kind.least_runs) << kind.name;
    EXPECT_GE(passes.pages, kind.least_pages) << kind.name;
    EXPECT_EQ(passes.pages > 0, kind.pages) << kind.name;
    EXPECT_GE(passes.fitted * 10, passes.made * kind.tenths) << kind.name;
  }
}

/// Over the index that longer lists have, and with weights of every size.
TEST(RematEviction, OfLongListsKeepTheRules) {
  for (const bool pages : {false, true})
    for (const bool windows : {false, true}) {
      if (windows && !pages) continue;
      Passes passes;
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        OpList list = random_list(seed, {.ops = kLongOps + 50, .pages = pages, .awkward = seed % 2 == 0});
        if (windows) list = testing::with_link(std::move(list), seed, 25);
        list.link.reset();
        const Problem problem = windows ? testing::with_windows(list) : Problem(list);
        std::mt19937_64 random(seed);
        std::vector<double> weight;
        for (std::int32_t s = 0; s < problem.storage_count; ++s) weight.push_back(std::exp2(draw(random, 21) - 10));
        expect_rules_kept(list, problem, {.hold = 1, .slack = 0.3, .deep = true}, passes);
        expect_rules_kept(list, problem, {.hold = 1, .weight = &weight}, passes);
      }
      EXPECT_GT(passes.runs, 100);
      EXPECT_EQ(passes.pages > 100, pages);
    }
}

/// An op that writes a storage of its own.
void add(OpList& list, Bytes bytes, std::int64_t cost, std::vector<std::int32_t> reads) {
  const auto s = static_cast<std::int32_t>(list.storages.size());
  list.storages.push_back({.name = std::to_string(s), .bytes = bytes});
  list.ops.push_back({.name = std::to_string(s), .cost = cost, .reads = std::move(reads), .writes = {s}});
}

/// What has one version is paid for once however often it is needed again.
TEST(RematEviction, ACopyThatIsStillGoodCostsNothingMore) {
  OpList list{.name = "often"};
  add(list, 10, 30, {});
  list.storages[0].swappable = true;
  list.storages[0].page_out_cost = 20;
  list.storages[0].page_in_cost = 5;
  for (int i = 0; i < 3; ++i) {
    add(list, 10, 100, {});  // no room for both ...
    add(list, 1, 1, {static_cast<std::int32_t>(list.storages.size()) - 1});
    add(list, 1, 1, {0});  // ... and the first again
  }
  const Problem problem(list);
  std::int64_t work = 0;
  const auto solution = evict_on_the_way(problem, 14, {}, kNoLimit, work);
  ASSERT_TRUE(solution.has_value());
  EXPECT_LE(solution->peak_bytes, 14);
  EXPECT_EQ(solution->swaps.size(), 3);
  EXPECT_EQ(solution->added_cost, 20 + 3 * 5);
}

/// What an op is about to read for the last time is no room for what must be copied in by then.
TEST(RematEviction, WhatIsReadNowStaysWhilePagesComeIn) {
  OpList list{.name = "two at once"};
  add(list, 10, 50, {});  // a page
  list.storages[0].swappable = true;
  list.storages[0].page_out_time = list.storages[0].page_in_time = 5;
  add(list, 1, 50, {0});
  add(list, 10, 50, {1});
  add(list, 9, 50, {2});  // no room beside the page from here ...
  add(list, 5, 1, {});    // cheap to have again
  add(list, 10, 50, {3});
  add(list, 1, 6, {5});  // ... to here, while it is copied in
  add(list, 1, 50, {0, 4, 6});
  const Problem problem = testing::with_windows(list);
  std::int64_t work = 0;
  const auto solution = evict_on_the_way(problem, 24, {}, kNoLimit, work);
  ASSERT_TRUE(solution.has_value());
  EXPECT_LE(solution->peak_bytes, 24);
  EXPECT_EQ(solution->swaps.size(), 1);
  EXPECT_EQ(solution->reruns, std::vector<Key>{key_of(7, 4)});
}

TEST(RematEviction, StopsWhereItWouldTakeTooLong) {
  const OpList list = testing::uniform_chain(400);
  const Problem problem(list);
  std::int64_t work = 0;
  EXPECT_FALSE(evict_on_the_way(problem, 5, {}, 20'000, work).has_value());
  EXPECT_GT(work, 0);
}

}  // namespace
}  // namespace tidemark::remat
