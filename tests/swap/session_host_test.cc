// Followed sessions on host memory, whose copies run in threads: every byte that a framework reads is checked.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "device/host_device.h"
#include "swap/session.h"
#include "tests/support/random_plans.h"
#include "tests/support/sanitized.h"
#include "tests/support/session_stage.h"

namespace tidemark::swap {
namespace {

using Stage = testing::SessionStage;

TEST(SessionOnHost, ContentsAreRightOnRealMemory) {
  for (const bool on_calling_thread : {false, true})
    for (const plan::RankPlan& plan : testing::random_captured_plans(3, 8)) {
      Stage stage(plan, HostDeviceOptions{.capacity_bytes = kGiB}, {.on_calling_thread = on_calling_thread});
      for (int step = 0; step < 3; ++step) stage.player->play(*stage.session);
      EXPECT_EQ(stage.player->fault(), "") << on_calling_thread;
      EXPECT_EQ(stage.session->report().counts.departures, 0) << stage.session->report().counts.kept_for_host;
    }
}

TEST(SessionOnHost, ContentsOfOtherSizesThanPlannedAreRight) {
  std::mt19937_64 random(17);
  std::int64_t copied_out = 0;
  const auto play = [&](Stage& stage) {
    for (int step = 0; step < 6; ++step) {
      for (std::size_t s = 0; s < stage.plan.graph.storages.size(); ++s) {
        const Bytes planned = stage.plan.graph.storages[s].bytes;
        if (stage.plan.graph.template_of(id_of<StorageId>(s)).persists()) continue;
        const Bytes bytes[] = {planned, planned / 2, 1, planned - 1, planned + 1, 3 * planned};
        stage.player->resize(id_of<StorageId>(s), std::max<Bytes>(bytes[random() % std::size(bytes)], 1));
      }
      stage.player->play(*stage.session);
    }
    EXPECT_EQ(stage.player->fault(), "");
    copied_out += stage.session->report().out.copies;
  };
  for (const plan::RankPlan& plan : testing::random_captured_plans(8, 12)) {
    Stage simulated(plan, {.seed = 5});
    play(simulated);
    Stage real(plan, HostDeviceOptions{.capacity_bytes = 4 * kGiB}, {.on_calling_thread = true});
    play(real);
  }
  EXPECT_GT(copied_out, testing::cases(100));
}

/// Host arenas and blocks beside them cross what the device pins at once.
TEST(SessionOnHost, FollowsOnADeviceThatPinsLittleAtOnce) {
  constexpr Bytes kLargest = 64 * kKiB;
  std::int64_t larger = 0, cut = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(9, 8)) {
    for (const Arena& arena : plan.program.layout.arenas)
      larger += arena.space == MemorySpace::host && arena.height_bytes > kLargest ? 1 : 0;
    Stage stage(plan, HostDeviceOptions{.capacity_bytes = kGiB, .largest_pinned_bytes = kLargest}, {});
    for (int step = 0; step < 3; ++step) stage.player->play(*stage.session);
    EXPECT_EQ(stage.player->fault(), "");
    const SessionReport report = stage.session->report();
    EXPECT_EQ(report.counts.departures, 0) << report.counts.kept_for_host;
    cut += report.out.pieces - report.out.copies;
  }
  EXPECT_GT(larger, testing::kSanitized ? 1 : 2);
  EXPECT_GT(cut, 10);
}

}  // namespace
}  // namespace tidemark::swap
