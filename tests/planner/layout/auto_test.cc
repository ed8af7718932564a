// The default packer: against brute force, never higher for more work, valid whenever it is stopped, the same on any
// number of threads.

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>

#include "planner/layout/check_packing.h"
#include "planner/layout/cut_at_minima.h"
#include "tests/support/pipeline_items.h"
#include "tests/support/sanitized.h"

namespace tidemark::layout {
namespace {

const Packer& automatic() {
  return *find_packer("auto");
}

std::vector<PackItem> random_items(std::mt19937& random, std::size_t count, std::uint32_t clock,
                                   std::uint32_t largest) {
  std::vector<PackItem> items;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = static_cast<std::int32_t>(random() % clock);
    const auto length = static_cast<std::int32_t>(1 + random() % clock);
    items.push_back({begin, begin + length, static_cast<Bytes>(1 + random() % largest)});
  }
  return items;
}

// Crowds, one after the other, and a thin item that ties them together.
std::vector<PackItem> crowds(std::mt19937& random, std::int32_t count) {
  std::vector<PackItem> items{{0, 100 * count, 3}};
  for (std::int32_t crowd = 0; crowd < count; ++crowd) {
    for (PackItem item : random_items(random, 60, 40, 900)) {
      item.begin += 100 * crowd;
      item.end += 100 * crowd;
      items.push_back(item);
    }
  }
  return items;
}

// A step with expert loads of its own in every layer and micro-batch, small enough for many runs.
std::vector<PackItem> small_step(bool cut) {
  return pipeline_items({.ranks = 4, .rank = 1, .micro_batches = 16, .cut_gaps = cut, .load_spread = 0.5});
}

Bytes best_order(const PackProblem& problem) {
  Bytes best = std::numeric_limits<Bytes>::max();
  for (const Packer& packer : packers()) {
    if (packer.is_order) best = std::min(best, packer.pack(problem, {}).packing.height_bytes);
  }
  return best;
}

// Some order of placement at the lowest free address gives the least height: that of the addresses of a lowest packing.
Bytes least_height(const std::vector<PackItem>& items) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  Bytes least = std::numeric_limits<Bytes>::max();
  do {
    std::vector<Bytes> offset(items.size(), -1);
    Bytes height = 0;
    for (const std::size_t i : order) {
      Bytes at = 0;
      for (std::size_t j = 0; j < items.size(); ++j) {
        const bool meet = items[i].begin < items[j].end && items[j].begin < items[i].end;
        if (offset[j] < 0 || !meet || offset[j] >= at + items[i].bytes || at >= offset[j] + items[j].bytes) continue;
        at = offset[j] + items[j].bytes;
        j = static_cast<std::size_t>(-1);  // whatever lies higher now, look at all again
      }
      offset[i] = at;
      height = std::max(height, at + items[i].bytes);
    }
    least = std::min(least, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(Auto, FindsTheLeastHeightOfSmallProblemsAndProvesIt) {
  std::mt19937 random(31);
  for (int round = 0; round < 150; ++round) {
    const auto items = random_items(random, 2 + random() % 5, 8, 9);
    const Bytes least = least_height(items);
    const PackProblem problem{.items = items};
    const PackAnswer answer = automatic().pack(problem, {.work = 200'000});
    ASSERT_EQ(answer.packing.height_bytes, least) << round;
    EXPECT_EQ(answer.bound_bytes, least);
    EXPECT_EQ(answer.status, PackStatus::optimal);
    const PackAnswer below = automatic().pack(problem, {.work = 200'000, .enough_bytes = least - 1});
    if (least - 1 == 0) continue;
    ASSERT_EQ(below.status, PackStatus::infeasible) << round;
    std::vector<PackItem> some;
    for (const std::int32_t row : below.cannot_fit) some.push_back(items[static_cast<std::size_t>(row)]);
    EXPECT_GT(least_height(some), least - 1) << round;
    EXPECT_EQ(find_fault(problem, below.packing).value_or(""), "");
  }
}

TEST(Auto, IsNeverHigherForMoreWork) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  std::mt19937 random(32);
  std::vector<PackProblem> problems = {{.items = small_step(false), .alignment = 512},
                                       {.items = small_step(true), .alignment = 512},
                                       {.items = random_items(random, 900, 300, 5000)},
                                       {.items = random_items(random, 120, 40, 5000)},
                                       {.items = crowds(random, 16)}};
  for (int many = 0; many < 12; ++many)
    problems.push_back({.items = random_items(random, 20 + random() % 60, 30, 200), .alignment = 4});
  for (const PackProblem& problem : problems) {
    Bytes last = best_order(problem);
    for (const std::int64_t work : {0, 1000, 10'000, 40'000, 160'000}) {
      const PackAnswer answer = automatic().pack(problem, {.work = work});
      ASSERT_EQ(find_fault(problem, answer.packing).value_or(""), "");
      EXPECT_LE(answer.packing.height_bytes, last) << problem.items.size() << " items, work " << work;
      EXPECT_LE(answer.bound_bytes, answer.packing.height_bytes);
      EXPECT_EQ(answer.status == PackStatus::optimal, answer.packing.height_bytes == answer.bound_bytes);
      last = answer.packing.height_bytes;
    }
  }
}

TEST(Auto, GainsOnTheOrdersOfAStepWithUnevenExpertLoads) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  const PackProblem problem{.items = small_step(true), .alignment = 512};
  const PackAnswer answer = automatic().pack(problem, {.work = 1'000'000});
  const Bytes orders = best_order(problem);
  EXPECT_LT(2 * (answer.packing.height_bytes - answer.bound_bytes), orders - answer.bound_bytes);
}

TEST(Auto, AnswersWheneverItIsStopped) {
  std::mt19937 random(33);
  const std::vector<PackProblem> problems = {{.items = small_step(true), .alignment = 512},
                                             {.items = random_items(random, 200, 50, 5000)}};
  for (const PackProblem& problem : problems) {
    const Bytes orders = best_order(problem);
    for (int most = 0; most < 100; most = most * 3 + 1) {
      std::atomic<int> asked{0};
      PackLimits limits{.work = 400'000};
      limits.should_stop = [&] { return asked.fetch_add(1) >= most; };
      const PackAnswer answer = automatic().pack(problem, limits);
      ASSERT_EQ(find_fault(problem, answer.packing).value_or(""), "") << most;
      EXPECT_LE(answer.packing.height_bytes, orders);
    }
  }
}

// The orders of a large set take long: only the cheapest of them is sure to have its time.
TEST(Auto, AsksBetweenAndWithinTheOrdersOfALargeSet) {
  std::mt19937 random(36);
  const PackProblem problem{.items = random_items(random, 21'000, 1000, 5000)};
  const Bytes cheapest = find_packer("first_fit_start_order")->pack(problem, {}).packing.height_bytes;
  for (const int most : {0, 5, 40}) {
    std::atomic<int> asked{0};
    PackLimits limits{.work = 400'000};
    limits.should_stop = [&] { return asked.fetch_add(1) >= most; };
    const PackAnswer answer = automatic().pack(problem, limits);
    ASSERT_EQ(find_fault(problem, answer.packing).value_or(""), "") << most;
    EXPECT_LE(answer.packing.height_bytes, cheapest);
    if (most == 0) {
      EXPECT_EQ(answer.packer, "first_fit_start_order");
    }
    EXPECT_LT(asked.load(), most + 20);
  }
}

// Hints that are a packing are never made worse; others count for nothing.
TEST(Auto, BeginsWithHintsThatAreAPacking) {
  std::mt19937 random(37);
  PackProblem problem{.items = random_items(random, 150, 60, 5000), .alignment = 8};
  const PackAnswer low = automatic().pack(problem, {.work = 500'000});
  const PackAnswer orders = automatic().pack(problem, {.work = 0});
  ASSERT_LT(low.packing.height_bytes, orders.packing.height_bytes);
  problem.hint = low.packing.offsets;
  const PackAnswer answer = automatic().pack(problem, {.work = 0});
  EXPECT_EQ(answer.packing.offsets, low.packing.offsets);
  EXPECT_EQ(answer.packer, "hint");
  for (const Bytes wrong : {kAnywhere, Bytes{4}, problem.hint[1], Bytes{1} << 62}) {
    problem.hint[0] = wrong;
    problem.hint[2] = wrong;
    const PackAnswer without = automatic().pack(problem, {.work = 0});
    ASSERT_EQ(find_fault(problem, without.packing).value_or(""), "") << wrong;
    EXPECT_LE(without.packing.height_bytes, orders.packing.height_bytes);
  }
}

// Least lives across where one crowd has left and the next has not come.
TEST(CutAtMinima, IsLowerThanOrdersWhereSectionsAreSmall) {
  std::mt19937 random(38);
  const PackProblem problem{.items = crowds(random, 16)};
  const std::vector<std::int32_t> cuts = cuts_at_minima(problem.items);
  ASSERT_FALSE(cuts.empty());
  for (const std::int32_t cut : cuts) {
    const auto across = [&](const PackItem& item) { return item.begin < cut && cut < item.end; };
    EXPECT_EQ(std::ranges::count_if(problem.items, across), 1) << cut;
  }
  const Packer& packer = *find_packer("cut_at_minima");
  Bytes last = best_order(problem);
  const Bytes orders = last;
  for (const std::int64_t work : {0, 20'000, 100'000, 400'000}) {
    const PackAnswer answer = packer.pack(problem, {.work = work});
    ASSERT_EQ(find_fault(problem, answer.packing).value_or(""), "");
    EXPECT_LE(answer.packing.height_bytes, last);
    last = answer.packing.height_bytes;
  }
  EXPECT_LT(last, orders);
}

// Every cut is where few bytes live across; whatever is not cut is small or has no such moment in its middle.
TEST(CutAtMinima, CutsAsItSays) {
  std::mt19937 random(39);
  int cut = 0;
  for (int round = 0; round < 20; ++round) {
    const auto longest = static_cast<std::uint32_t>(1 + random() % 60);
    std::vector<PackItem> hulls;
    for (const PackItem& item : random_items(random, 600 + random() % 900, longest, 1000)) {
      const auto shift = static_cast<std::int32_t>(random() % 2000);
      hulls.push_back({item.begin + shift, item.end + shift, item.bytes});
    }
    const auto across = [&](std::int32_t moment) {
      Bytes bytes = 0;
      for (const PackItem& hull : hulls) bytes += hull.begin < moment && moment < hull.end ? hull.bytes : 0;
      return bytes;
    };
    const Bytes load = packing_load({.items = hulls});
    std::vector<std::int32_t> ends = cuts_at_minima(hulls);
    for (const std::int32_t moment : ends) EXPECT_LE(2 * across(moment), load);
    cut += static_cast<int>(ends.size());
    ends.insert(ends.begin(), -1);
    ends.push_back(3000);
    for (std::size_t s = 1; s < ends.size(); ++s) {
      ASSERT_LT(ends[s - 1], ends[s]);
      const auto begun = [&](std::int32_t from, std::int32_t to) {
        return std::ranges::count_if(hulls,
                                     [&](const PackItem& hull) { return from <= hull.begin && hull.begin < to; });
      };
      const auto count = begun(ends[s - 1], ends[s]);
      for (std::int32_t moment = ends[s - 1] + 1; count > 250 && moment < ends[s]; ++moment) {
        const bool middle = 4 * begun(ends[s - 1], moment) >= count && 4 * begun(moment, ends[s]) >= count;
        EXPECT_FALSE(middle && 2 * across(moment) <= load) << moment;
      }
    }
  }
  EXPECT_GT(cut, 10);
}

TEST(Auto, StopsWhereItIsEnough) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  const PackProblem problem{.items = small_step(true), .alignment = 512};
  const PackAnswer all = automatic().pack(problem, {.work = 200'000});
  const Bytes enough = all.packing.height_bytes + (best_order(problem) - all.packing.height_bytes) / 2;
  const PackAnswer answer = automatic().pack(problem, {.work = 200'000, .enough_bytes = enough});
  EXPECT_LE(answer.packing.height_bytes, enough);
  EXPECT_NE(answer.status, PackStatus::infeasible);
}

TEST(Auto, NamesWhatLivesTogetherWhereTheLoadIsTooMuch) {
  const PackProblem problem{.items = small_step(false), .alignment = 512};
  const Bytes load = packing_load(problem);
  const PackAnswer answer = automatic().pack(problem, {.work = 1000, .enough_bytes = load - 1});
  ASSERT_EQ(answer.status, PackStatus::infeasible);
  PackProblem some{.alignment = 512};
  for (const std::int32_t row : answer.cannot_fit) some.items.push_back(problem.items[static_cast<std::size_t>(row)]);
  EXPECT_GT(packing_load(some), load - 1);
  EXPECT_LT(some.items.size(), problem.items.size());
}

// What never meets starts at 0 each, and what looks alike is packed alike.
TEST(Auto, PacksEqualPiecesAlike) {
  std::mt19937 random(34);
  const auto one = random_items(random, 60, 20, 900);
  PackProblem problem;
  for (int copy = 0; copy < 5; ++copy) {
    for (PackItem item : one) {
      item.begin += 100 * copy;
      item.end += 100 * copy;
      problem.items.push_back(item);
    }
  }
  const PackAnswer alone = automatic().pack({.items = one}, {.work = 100'000});
  const PackAnswer answer = automatic().pack(problem, {.work = 500'000});
  EXPECT_EQ(find_fault(problem, answer.packing).value_or(""), "");
  EXPECT_LE(answer.packing.height_bytes, alone.packing.height_bytes);
}

TEST(Auto, DoesNotDependOnTheThreadCount) {
  std::mt19937 random(35);
  const std::vector<PackProblem> problems = {{.items = small_step(true), .alignment = 512},
                                             {.items = random_items(random, 700, 200, 5000), .alignment = 64}};
  for (const PackProblem& problem : problems) {
    std::vector<PackAnswer> results;
    for (const std::size_t threads : {1U, 2U, 5U}) {
      const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
      results.push_back(automatic().pack(problem, {.work = testing::kSanitized ? 40'000 : 400'000}));
    }
    for (const PackAnswer& result : results) {
      EXPECT_EQ(result.packer, results.front().packer);
      EXPECT_EQ(result.bound_bytes, results.front().bound_bytes);
      EXPECT_EQ(result.packing.offsets, results.front().packing.offsets);
    }
  }
}

}  // namespace
}  // namespace tidemark::layout
