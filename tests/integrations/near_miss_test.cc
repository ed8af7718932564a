#include "integrations/formats/near_miss.h"

#include <gtest/gtest.h>

#include <vector>

namespace tidemark {
namespace {

const std::vector<std::string> kWords = {"plan",   "estimate", "simulate",      "pack",
                                         "replay", "keep-all", "full-recompute"};

TEST(FindNearMiss, KnowsTheFourSlipsOfTheHand) {
  EXPECT_EQ(formats::find_near_miss("estmate", kWords), "estimate");    // one letter left out
  EXPECT_EQ(formats::find_near_miss("estiimate", kWords), "estimate");  // one too many
  EXPECT_EQ(formats::find_near_miss("estimade", kWords), "estimate");   // a wrong one
  EXPECT_EQ(formats::find_near_miss("estiamte", kWords), "estimate");   // two swapped count as one slip
  EXPECT_EQ(formats::find_near_miss("paln", kWords), "plan");
}

TEST(FindNearMiss, IgnoresCase) {
  EXPECT_EQ(formats::find_near_miss("PLAN", kWords), "plan");
}

TEST(FindNearMiss, PrefersTheNearerAndThenTheFirst) {
  EXPECT_EQ(formats::find_near_miss("simulat", kWords), "simulate");
  EXPECT_EQ(formats::find_near_miss("bb", std::vector<std::string>{"ab", "cb"}), "ab");
  EXPECT_EQ(formats::find_near_miss("bb", std::vector<std::string>{"cb", "ab"}), "cb");
}

TEST(FindNearMiss, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(formats::find_near_miss("xyz", kWords), std::nullopt);
  EXPECT_EQ(formats::find_near_miss("", kWords), std::nullopt);
  EXPECT_EQ(formats::find_near_miss("plan", {}), std::nullopt);
  EXPECT_EQ(formats::find_near_miss(std::string(100'000, 'a'), kWords), std::nullopt);
}

}  // namespace
}  // namespace tidemark
