// One suite for every packer: no two items that live together share bytes, whatever the instance.

#include "planner/layout/packer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "planner/layout/check_packing.h"
#include "tests/support/pipeline_items.h"

namespace tidemark::layout {
namespace {

std::vector<PackItem> random_items(std::mt19937& random, int count, int clock, int largest) {
  std::vector<PackItem> items;
  for (int i = 0; i < count; ++i) {
    const auto a = static_cast<std::int32_t>(random() % static_cast<unsigned>(clock));
    const auto b = static_cast<std::int32_t>(random() % static_cast<unsigned>(clock));
    items.push_back({std::min(a, b), std::max(a, b), static_cast<Bytes>(random() % static_cast<unsigned>(largest))});
  }
  return items;
}

Packing pack(const Packer& packer, const std::vector<PackItem>& items, Bytes alignment) {
  return packer.pack({.items = items, .alignment = alignment}, {.work = 2000}).packing;
}

std::string fault_of(const std::vector<PackItem>& items, const Packing& packing, Bytes alignment) {
  return find_fault({.items = items, .alignment = alignment}, packing).value_or("");
}

Bytes load_of(const std::vector<PackItem>& items, Bytes alignment) {
  return packing_load({.items = items, .alignment = alignment});
}

Bytes sum_of(std::span<const PackItem> items, Bytes alignment) {
  Bytes sum = 0;
  for (const PackItem& item : items) sum += item.begin < item.end ? round_up(item.bytes, alignment) : 0;
  return sum;
}

class EveryPacker : public ::testing::TestWithParam<Packer> {};

TEST_P(EveryPacker, KeepsRandomItemsApart) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const int count = static_cast<int>(random() % 60);
    const int clock = 2 + static_cast<int>(random() % 40);
    const Bytes alignment = Bytes{1} << (random() % 5);
    const auto items = random_items(random, count, clock, 50);
    const Packing packing = pack(GetParam(), items, alignment);
    ASSERT_EQ(fault_of(items, packing, alignment), "") << "round " << round;
    EXPECT_GE(packing.height_bytes, load_of(items, alignment));
    EXPECT_LE(packing.height_bytes, sum_of(items, alignment));
  }
}

TEST_P(EveryPacker, KeepsManyItemsApart) {
  std::mt19937 random(11);
  const auto items = random_items(random, 1500, 4000, 1 << 20);
  EXPECT_EQ(fault_of(items, pack(GetParam(), items, 512), 512), "");
}

TEST_P(EveryPacker, StaysCloseToTheLoadOnAPipeline) {
  for (const bool cut : {false, true}) {
    const auto items = pipeline_items({.ranks = 4, .rank = 1, .micro_batches = 8, .cut_gaps = cut});
    const Packing packing = pack(GetParam(), items, 512);
    EXPECT_EQ(fault_of(items, packing, 512), "");
    EXPECT_LE(packing.height_bytes, load_of(items, 512) * 115 / 100);
  }
}

TEST_P(EveryPacker, IgnoresItemsWithoutBytesOrLife) {
  const std::vector<PackItem> items = {{3, 3, 100}, {0, 9, 0}, {2, 5, 10}, {5, 2, 7}};
  const Packing packing = pack(GetParam(), items, 8);
  EXPECT_EQ(packing.offsets, (std::vector<Bytes>{0, 0, 0, 0}));
  EXPECT_EQ(packing.height_bytes, 16);
  EXPECT_EQ(pack(GetParam(), {}, 8).height_bytes, 0);
}

TEST_P(EveryPacker, ReusesBytesAtTheVeryEndOfALife) {
  const std::vector<PackItem> items = {{0, 4, 64}, {4, 8, 64}, {8, 9, 64}};
  EXPECT_EQ(pack(GetParam(), items, 64).height_bytes, 64);
}

TEST_P(EveryPacker, SurvivesTheWholeClock) {
  const std::vector<PackItem> items = {{0, 2'000'000'000, Bytes{1} << 40}, {0, 2'000'000'000, Bytes{1} << 40}};
  EXPECT_EQ(pack(GetParam(), items, 512).height_bytes, Bytes{2} << 40);
}

INSTANTIATE_TEST_SUITE_P(Packers, EveryPacker, ::testing::ValuesIn(packers().begin(), packers().end()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(PackingLoad, ReachesTheEndOfWhatIsFixed) {
  EXPECT_EQ(packing_load({.items = {{0, 4, 10}, {2, 6, 10}}, .fixed_offset = {100, kAnywhere}}), 110);
  EXPECT_EQ(packing_load({.items = {{0, 4, 10}, {2, 6, 10}}, .fixed_offset = {0, kAnywhere}}), 20);
}

// With many moments to an item the load is found by sorting, with few by adding up moment by moment.
TEST(PackingLoad, IsTheSameHoweverLongTheClock) {
  std::mt19937 random(17);
  for (int round = 0; round < 200; ++round) {
    auto items = random_items(random, 1 + static_cast<int>(random() % 40), 30, 50);
    const Bytes load = load_of(items, 4);
    for (PackItem& item : items) {
      item.begin = item.begin * 1'000'000 - 15'000'000;
      item.end = item.end * 1'000'000 - 15'000'000;
    }
    EXPECT_EQ(load_of(items, 4), load);
  }
}

TEST(PackingLoad, CountsAlignedBytesAtTheBusiestMoment) {
  EXPECT_EQ(load_of(std::vector<PackItem>{{0, 4, 10}, {2, 6, 10}, {4, 8, 10}}, 16), 32);
  EXPECT_EQ(load_of({}, 16), 0);
}

TEST(Auto, IsNoHigherThanAnyOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const auto items = random_items(random, 80, 60, 1000);
    const Bytes height = pack(*find_packer("auto"), items, 1).height_bytes;
    for (const Packer& packer : packers()) {
      if (packer.is_order) {
        EXPECT_LE(height, pack(packer, items, 1).height_bytes) << packer.name;
      }
    }
  }
}

}  // namespace
}  // namespace tidemark::layout
