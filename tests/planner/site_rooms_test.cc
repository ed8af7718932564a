#include "planner/site_rooms.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/dynamic_region.h"

namespace tidemark::plan {
namespace {

TEST(SiteRooms, AreWhatTheSlotsHold) {
  RankPlan plan;
  plan.graph.sites = {{.layer = 3, .micro_batch = 0}, {.layer = 3, .micro_batch = 1}, {.layer = 4, .micro_batch = 0}};
  const auto add = [&plan](std::int32_t site, Bytes slot, Bytes fixed, std::int64_t rows,
                           RowsOf rows_of = RowsOf::received) {
    plan.program.routed.push_back({.residency = id_of<ResidencyId>(plan.program.schedule.residencies.size()),
                                   .site = static_cast<SiteId>(site),
                                   .fixed_bytes = fixed,
                                   .rows = rows,
                                   .row_bytes = 16,
                                   .rows_of = rows_of});
    plan.program.schedule.residencies.push_back({.bytes = slot});
  };
  add(0, 512 + 1130 * 16, 512, 1000);
  add(0, 1129 * 16 + 15, 0, 1000);  // the least decides; a part of a row holds none
  add(1, 230 * 16, 0, 200);
  add(2, 1, 1, 10);
  const std::vector<SiteRoom> rooms = site_rooms(plan);
  add(1, 110 * 16, 0, 100, RowsOf::sent);
  EXPECT_EQ(site_rooms(plan), rooms) << "rows sent are no question of the load received";
  plan.program.routed.pop_back();
  ASSERT_EQ(rooms.size(), 3U);
  EXPECT_EQ(rooms[0].layer, 3);
  EXPECT_EQ(rooms[1].micro_batch, 1);
  EXPECT_NEAR(rooms[0].load, 1.129, 1e-9);
  EXPECT_NEAR(rooms[1].load, 1.15, 1e-9);
  EXPECT_NEAR(rooms[2].load, 0, 1e-9);
  for (const RoutedResidency& routed : plan.program.routed) {
    const Bytes slot = plan.program.schedule.residencies[row(routed.residency)].bytes;
    const double room = rooms[row(routed.site)].load;
    EXPECT_LE(routed_bytes(routed, room), slot);
  }
  EXPECT_GT(routed_bytes(plan.program.routed[1], rooms[0].load + 1e-6), plan.program.schedule.residencies[1].bytes);
  const std::vector<LayerRoom> layers = layer_rooms(rooms);
  ASSERT_EQ(layers.size(), 3U);
  EXPECT_EQ(layers[0].sites, 1);
}

}  // namespace
}  // namespace tidemark::plan
