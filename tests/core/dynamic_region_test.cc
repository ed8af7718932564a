#include "core/dynamic_region.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tidemark {
namespace {

constexpr Bytes kG = kPlanGranule;

TEST(DynamicRegion, WholeGranulesOnly) {
  EXPECT_EQ(granules_inside(0, 4 * kG, kG), (GranuleRange{.first = 0, .count = 4}));
  EXPECT_EQ(granules_inside(1, 4 * kG, kG), (GranuleRange{.first = 1, .count = 3}));
  EXPECT_EQ(granules_inside(kG - 1, kG + 1, kG), (GranuleRange{.first = 1, .count = 1}));
  EXPECT_EQ(granules_inside(1, kG, kG).count, 0);
  EXPECT_EQ(granules_inside(5, 0, kG).count, 0);
  const Arena arena{.capacity_bytes = 5 * kG, .height_bytes = kG + 1, .dynamic_bytes = 4 * kG - 1};
  EXPECT_EQ(dynamic_region(arena, kG), (GranuleRange{.first = 2, .count = 3}));
}

TEST(DynamicRegion, ExtraIsWhatTheSlotLacks) {
  EXPECT_EQ(extra_granules(0, 2 * kG, 2 * kG, kG), 0);
  EXPECT_EQ(extra_granules(0, 2 * kG, 2 * kG + 1, kG), 1);
  EXPECT_EQ(extra_granules(1, 2 * kG, 2 * kG + 1, kG), 2);
  EXPECT_EQ(extra_granules(0, 512, 513, kG), 1);
  EXPECT_EQ(extra_granules(512, 10 * kG, 12 * kG, kG), 3);
}

// What the header says of devices with a finer granule: the plan holds for them as well.
TEST(DynamicRegion, AFinerGranuleNeverTakesMore) {
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    const Bytes fine = kG >> (random() % 6);
    const Bytes offset = static_cast<Bytes>(random() % 64) * (kG / 64);
    const Bytes planned = 1 + static_cast<Bytes>(random() % static_cast<unsigned>(8 * kG));
    const Bytes actual = planned + static_cast<Bytes>(random() % static_cast<unsigned>(4 * kG));
    EXPECT_LE(fine * extra_granules(offset, planned, actual, fine), kG * extra_granules(offset, planned, actual, kG));
    EXPECT_GE(extra_granules(offset, planned, actual + 1, kG), extra_granules(offset, planned, actual, kG));
    const Arena arena{.height_bytes = planned, .dynamic_bytes = actual};
    EXPECT_GE(fine * dynamic_region(arena, fine).count, kG * dynamic_region(arena, kG).count);
  }
}

TEST(DynamicRegion, RoutedBytesAreThoseOfTheTemplate) {
  const StorageTemplate storage{.fixed_bytes = 100, .routed_rows = 37, .routed_row_bytes = 12};
  const RoutedResidency routed{.fixed_bytes = 100, .rows = 37, .row_bytes = 12};
  for (int step = 0; step < 500; ++step)
    EXPECT_EQ(routed_bytes(routed, step / 64.0), storage_bytes(storage, step / 64.0));
}

TEST(DynamicRegion, EachKindOfRowsFollowsItsOwnLoad) {
  const SiteLoad load(3, 0.5);
  EXPECT_EQ(routed_bytes({.rows = 8, .row_bytes = 10, .rows_of = RowsOf::received}, load), 240);
  EXPECT_EQ(routed_bytes({.rows = 8, .row_bytes = 10, .rows_of = RowsOf::sent}, load), 40);
}

/// The smallest slot of a kind decides; a site without rows of a kind is planned at the mean.
TEST(DynamicRegion, PlannedLoadsAreWhatAllSlotsHold) {
  Program program;
  const auto add = [&](std::int32_t site, Bytes slot, RowsOf of) {
    program.routed.push_back({.residency = id_of<ResidencyId>(program.schedule.residencies.size()),
                              .site = static_cast<SiteId>(site),
                              .fixed_bytes = 20,
                              .rows = 8,
                              .row_bytes = 10,
                              .rows_of = of});
    program.schedule.residencies.push_back({.bytes = 20 + slot});
  };
  EXPECT_TRUE(planned_loads(program).empty());
  add(2, 120, RowsOf::received);
  add(2, 100, RowsOf::received);
  add(2, 160, RowsOf::sent);
  add(0, 40, RowsOf::received);
  EXPECT_EQ(planned_loads(program), (std::vector<SiteLoad>{{0.5, 1}, {1, 1}, {1.25, 2}}));
}

}  // namespace
}  // namespace tidemark
