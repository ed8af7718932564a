#include "planner/cost/copy_cost.h"

#include <gtest/gtest.h>

#include "tests/support/plain_chip.h"

namespace tidemark::cost {
namespace {

Machine machine() {
  return {.chip = testing::plain_chip(100e12, 1e12, 100e9),
          .copy_launch_ns = 300,
          .d2h = {.bytes_per_s = 20e9, .latency_ns = 10},
          .h2d = {.bytes_per_s = 25e9, .latency_ns = 20}};
}

TEST(CopyCost, CopiesTakeTheLinkAndAShareOfTheComputeLane) {
  EXPECT_EQ(copy_out_cost(2'000'000, machine()).link_ns, 10 + 100'000);
  EXPECT_EQ(copy_in_cost(2'000'000, machine()).link_ns, 20 + 80'000);
  EXPECT_EQ(copy_out_cost(2'000'000, machine()).compute_ns, 300 + 2000);
  EXPECT_EQ(copy_in_cost(2'000'000, machine()).compute_ns, 300 + 2000);
  EXPECT_EQ(copy_out_cost(0, machine()).link_ns, 10);
}

}  // namespace
}  // namespace tidemark::cost
