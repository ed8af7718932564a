#include "planner/cost/collective_time.h"

#include <gtest/gtest.h>

#include <tuple>

#include "tests/planner/cost/timed_devices.h"

namespace tidemark::cost {
namespace {

// Of round_device: 200 GB/s inside a node and 20 GB/s between nodes are reached, a hop takes 20 us, eight devices a
// node.

TEST(GroupSpan, CountsTheRanksOfANode) {
  const Chip device = round_device();
  for (const auto& [ranks, stride, per_node] :
       {std::tuple{1, 1, 1}, {4, 1, 4}, {8, 1, 8}, {64, 1, 8}, {8, 2, 4}, {4, 3, 2}, {8, 8, 1}, {8, 64, 1}}) {
    const GroupSpan span = group_span(ranks, stride, device);
    EXPECT_EQ(span.ranks, ranks);
    EXPECT_EQ(span.per_node, per_node) << ranks << " ranks, " << stride << " apart";
  }
}

TEST(Ring, InsideANodeRunsAtItsLink) {
  const Chip device = round_device();
  // Three hops as a tree of eight, 7/8 of 8 GB at 200 GB/s.
  EXPECT_DOUBLE_EQ(ring_s(8e9, 1, group_span(8, 1, device), {}, device), 3 * 20e-6 + 7e9 / 200e9);
  EXPECT_DOUBLE_EQ(ring_s(8e9, 2, group_span(8, 1, device), {}, device), 3 * 20e-6 + 14e9 / 200e9);
}

TEST(Ring, BetweenNodesSharesTheirLinks) {
  const Chip device = round_device();
  const GroupSpan all = group_span(32, 1, device), apart = group_span(4, 8, device);
  EXPECT_DOUBLE_EQ(ring_bytes_per_s(all, {}, device), 160e9) << "eight ranks, eight links";
  EXPECT_DOUBLE_EQ(ring_bytes_per_s(apart, {}, device), 20e9) << "one rank a node, its own link";
  EXPECT_DOUBLE_EQ(ring_bytes_per_s(all, {.share = 0.5}, device), 80e9);
  EXPECT_DOUBLE_EQ(ring_bytes_per_s(all, {.has_one_link = true}, device), 40e9) << "a ring for four devices";
  EXPECT_DOUBLE_EQ(ring_bytes_per_s(apart, {.has_one_link = true}, device), 20e9) << "no fewer than one";
  EXPECT_DOUBLE_EQ(ring_bytes_per_s(all, {.share = 4}, device), 200e9) << "never above the link inside the node";
  EXPECT_DOUBLE_EQ(collective_latency_s(all, device), (3 + 4) * 20e-6);
  EXPECT_DOUBLE_EQ(collective_latency_s(apart, device), (1 + 4) * 20e-6);
  EXPECT_DOUBLE_EQ(ring_s(32e9, 1, all, {}, device), 7 * 20e-6 + 31e9 / 160e9);
}

TEST(Ring, OfOneRankOrNoBytesIsFree) {
  const Chip device = round_device();
  EXPECT_EQ(ring_s(8e9, 2, group_span(1, 1, device), {}, device), 0);
  EXPECT_EQ(ring_s(0, 2, group_span(8, 1, device), {}, device), 0);
  EXPECT_EQ(exchange_s(8e9, 1, group_span(1, 1, device), {}, device), 0);
}

TEST(Exchange, TakesTheSlowerOfItsTwoLinks) {
  const Chip device = round_device();
  EXPECT_DOUBLE_EQ(exchange_s(8e9, 1, group_span(8, 1, device), {}, device), 40e-6 + 7e9 / 200e9) << "inside a node";
  // Of 16 ranks half are on the other node, at 0.55 of the link; 7/16 stay inside.
  const GroupSpan two_nodes = group_span(16, 1, device);
  EXPECT_DOUBLE_EQ(exchange_s(16e9, 1, two_nodes, {}, device), 40e-6 + 8e9 / (20e9 * 0.55));
  EXPECT_DOUBLE_EQ(exchange_s(16e9, 0.5, two_nodes, {}, device), 40e-6 + 4e9 / (20e9 * 0.55));
  EXPECT_DOUBLE_EQ(exchange_s(16e9, 0.01, two_nodes, {}, device), 40e-6 + 7e9 / 200e9) << "what is near remains";
}

TEST(Collectives, MoreBytesAreSlowerAndAFasterNetworkIsNot) {
  const Chip device = round_device();
  for (const int ranks : {2, 4, 8, 16, 128}) {
    for (const int stride : {1, 2, 8}) {
      const GroupSpan span = group_span(ranks, stride, device);
      double ring_before_s = 0, exchange_before_s = 0;
      for (double bytes = 1e3; bytes < 1e10; bytes *= 4) {
        const double ring = ring_s(bytes, 1, span, {}, device), exchange = exchange_s(bytes, 1, span, {}, device);
        ASSERT_GT(ring, ring_before_s);
        ASSERT_GT(exchange, exchange_before_s);
        ASSERT_GE(ring_s(bytes, 1, span, {.share = 0.5}, device), ring);
        ASSERT_GE(exchange_s(bytes, 1, span, {.share = 0.5}, device), exchange);
        ring_before_s = ring;
        exchange_before_s = exchange;
      }
    }
  }
}

}  // namespace
}  // namespace tidemark::cost
