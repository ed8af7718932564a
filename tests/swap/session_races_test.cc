// The waits of followed sessions: each one that the others do not imply, taken out, is a race that the checker of the
// simulated device finds; a judge that shares nothing with it, by reachability over all calls, says which those are.

#include <gtest/gtest.h>

#include <vector>

#include "device/sim_device.h"
#include "swap/session.h"
#include "tests/support/framework_player.h"
#include "tests/support/random_plans.h"
#include "tests/support/wait_dropper.h"

namespace tidemark::swap {
namespace {

struct Found {
  std::int64_t waits = 0;
  bool by_checker = false, by_judge = false;
};

/// `options.departs`: and every other block is taken where memory is short.
Found play_without(const plan::RankPlan& plan, std::int64_t dropped,
                   const testing::FrameworkPlayer::Options& options = {}) {
  const std::unique_ptr<SimDevice> sim = make_sim_device({.capacity_bytes = 4 * kGiB});
  Found found;
  {
    testing::WaitDropper device(*sim, dropped);
    testing::FrameworkPlayer player(plan.graph, device, options);
    SessionOptions asked;
    if (options.departs != 0) asked.loop.may_spill.push_back(id_of<StorageId>(0));
    auto session = Session::open(plan.program, device, std::move(asked), player.calls());
    EXPECT_TRUE(session.ok());
    int blocks = 0;
    player.before_blocks([&] {
      if (options.departs == 0 || ++blocks % 2 != 0 || !session.value()->is_in_step()) return;
      EXPECT_TRUE(session.value()->make_room(256 * kKiB, player.stream()).ok());
    });
    for (int step = 0; step < 2; ++step) {
      player.begin(*session.value());
      for (std::size_t op = 0; op < plan.graph.ops.size(); ++op) player.issue(session.value().get(), id_of<OpId>(op));
      player.forget_saved();
      session.value()->end_step(player.stream());
    }
    EXPECT_EQ(sim->synchronize_device(), DeviceCode::ok);
    found = {.waits = device.waits(), .by_checker = sim->race_count() > 0, .by_judge = device.has_race()};
  }
  return found;
}

TEST(SessionRaces, EveryWaitThatTheOthersDoNotImplyIsMissed) {
  std::int64_t missed = 0, implied = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(21, 8)) {
    const Found whole = play_without(plan, -1);
    EXPECT_FALSE(whole.by_checker);
    EXPECT_FALSE(whole.by_judge);
    for (std::int64_t wait = 0; wait < whole.waits; ++wait) {
      const Found found = play_without(plan, wait);
      EXPECT_EQ(found.by_checker, found.by_judge) << wait;
      ++(found.by_judge ? missed : implied);
    }
  }
  EXPECT_GT(missed, testing::cases(50));
  RecordProperty("implied", static_cast<int>(implied));
}

/// The waits between streams that the framework names are among them.
TEST(SessionRaces, SoItIsWhereAFrameworkNamesTwoStreams) {
  std::int64_t missed = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(23, 3)) {
    const Found whole = play_without(plan, -1, {.streams = 2});
    EXPECT_FALSE(whole.by_checker);
    EXPECT_FALSE(whole.by_judge);
    for (std::int64_t wait = 0; wait < whole.waits; ++wait) {
      const Found found = play_without(plan, wait, {.streams = 2});
      EXPECT_EQ(found.by_checker, found.by_judge) << wait;
      missed += found.by_judge ? 1 : 0;
    }
  }
  EXPECT_GT(missed, testing::cases(20));
}

TEST(SessionRaces, SoItIsOfWhatIsAdoptedAndSpilled) {
  std::int64_t missed = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(25, 3)) {
    const testing::FrameworkPlayer::Options options{.departs = 7};
    const Found whole = play_without(plan, -1, options);
    EXPECT_FALSE(whole.by_checker);
    EXPECT_FALSE(whole.by_judge);
    for (std::int64_t wait = 0; wait < whole.waits; ++wait) {
      const Found found = play_without(plan, wait, options);
      EXPECT_EQ(found.by_checker, found.by_judge) << wait;
      missed += found.by_judge ? 1 : 0;
    }
  }
  EXPECT_GT(missed, testing::cases(20));
}

TEST(SessionRaces, NoScheduleOfManyHasOne) {
  const std::vector<plan::RankPlan> plans = testing::random_captured_plans(22, 5);
  for (std::uint64_t seed = 0; seed < testing::cases(200U); ++seed)
    for (const plan::RankPlan& plan : plans) {
      const std::unique_ptr<SimDevice> sim = make_sim_device({.capacity_bytes = 4 * kGiB}, {.seed = seed});
      testing::FrameworkPlayer player(plan.graph, *sim, {});
      auto session = Session::open(plan.program, *sim, {}, player.calls());
      ASSERT_TRUE(session.ok());
      player.play(*session.value());
      EXPECT_EQ(player.fault(), "") << seed;
      EXPECT_EQ(sim->race_count(), 0) << seed;
    }
}

}  // namespace
}  // namespace tidemark::swap
