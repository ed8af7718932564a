#include "planner/graph_build/pass_merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

namespace tidemark::graph_build {
namespace {

/// Runs a merged order: lanes in FIFO, ops after what they need. Returns when the last op ends.
std::int64_t run(const std::vector<TimedOp>& forward, const std::vector<TimedOp>& backward,
                 const std::vector<bool>& order) {
  std::array<std::int64_t, kLaneCount> free_at{};
  std::vector<std::int64_t> f_end, b_end;
  for (const bool takes_forward : order) {
    const std::vector<TimedOp>& pass = takes_forward ? forward : backward;
    std::vector<std::int64_t>& ends = takes_forward ? f_end : b_end;
    const TimedOp& op = pass[ends.size()];
    std::int64_t start = free_at[static_cast<std::size_t>(op.lane)];
    for (const std::int32_t before : op.after) start = std::max(start, ends[static_cast<std::size_t>(before)]);
    ends.push_back(free_at[static_cast<std::size_t>(op.lane)] = start + op.ns);
  }
  return *std::ranges::max_element(free_at);
}

bool takes_each_once(const std::vector<bool>& order, std::size_t forward, std::size_t backward) {
  return order.size() == forward + backward && static_cast<std::size_t>(std::ranges::count(order, true)) == forward;
}

/// A pass that computes and communicates in turn, each step waiting for the one before.
std::vector<TimedOp> alternating(int steps, std::int64_t compute_ns, std::int64_t communication_ns) {
  std::vector<TimedOp> pass;
  for (int i = 0; i < steps; ++i) {
    const bool computes = i % 2 == 0;
    pass.push_back(
        {.lane = computes ? Lane::compute : Lane::intra_comm, .ns = computes ? compute_ns : communication_ns});
    if (i > 0) pass.back().after = {i - 1};
  }
  return pass;
}

std::vector<TimedOp> random_pass(std::mt19937& random, int size) {
  std::vector<TimedOp> pass;
  for (int i = 0; i < size; ++i) {
    pass.push_back({.lane = static_cast<Lane>(random() % 4), .ns = static_cast<std::int64_t>(random() % 100)});
    for (int k = 0; k < 2 && i > 0; ++k)
      pass.back().after.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(i)));
  }
  return pass;
}

/// The best makespan over every interleaving.
std::int64_t best_makespan(const std::vector<TimedOp>& f, const std::vector<TimedOp>& b) {
  std::vector<bool> order(f.size() + b.size(), true);
  std::fill_n(order.begin(), b.size(), false);
  std::int64_t best = run(f, b, order);
  while (std::next_permutation(order.begin(), order.end())) best = std::min(best, run(f, b, order));
  return best;
}

TEST(PassMerge, OnePassComputesWhileTheOtherCommunicates) {
  const auto pass = alternating(20, 10, 10);
  const auto order = merge_passes(pass, pass);
  ASSERT_TRUE(takes_each_once(order, 20, 20));
  // 200 ns of compute, and the communication that ends the last pass.
  EXPECT_LE(run(pass, pass, order), 200 + 20);
}

TEST(PassMerge, EmptyPasses) {
  const auto pass = alternating(5, 1, 1);
  EXPECT_EQ(merge_passes({}, pass), std::vector<bool>(5, false));
  EXPECT_EQ(merge_passes(pass, {}), std::vector<bool>(5, true));
  EXPECT_TRUE(merge_passes({}, {}).empty());
}

TEST(PassMerge, VeryUnequalPassesAreMergedWhole) {
  const auto small = alternating(2, 5, 5);
  const auto large = alternating(900, 5, 5);
  EXPECT_TRUE(takes_each_once(merge_passes(small, large), 2, 900));
  EXPECT_TRUE(takes_each_once(merge_passes(large, small), 900, 2));
}

TEST(PassMerge, NearTheBestInterleavingOfSmallRandomPasses) {
  std::mt19937 random(7);
  double sum = 0;
  constexpr int kCases = 60;
  for (int i = 0; i < kCases; ++i) {
    const auto f = random_pass(random, 7);
    const auto b = random_pass(random, 7);
    const auto order = merge_passes(f, b);
    ASSERT_TRUE(takes_each_once(order, f.size(), b.size()));
    const std::int64_t merged = run(f, b, order);
    std::vector<bool> one_after_the_other(14, false);
    std::fill_n(one_after_the_other.begin(), 7, true);
    EXPECT_LE(merged, run(f, b, one_after_the_other) * 5 / 4) << i;
    sum += static_cast<double>(merged) / static_cast<double>(best_makespan(f, b));
  }
  EXPECT_LT(sum / kCases, 1.1);
}

TEST(PassMerge, SameInputSameOrder) {
  std::mt19937 random(11);
  const auto f = random_pass(random, 300);
  const auto b = random_pass(random, 400);
  EXPECT_EQ(merge_passes(f, b), merge_passes(f, b));
}

}  // namespace
}  // namespace tidemark::graph_build
