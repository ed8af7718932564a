// The checker on schedules and layouts the planner made: clean as they come, and never clean once damaged where it
// matters.

#include <gtest/gtest.h>

#include <random>

#include "core/verify.h"
#include "planner/layout/lay_out.h"
#include "tests/support/tiny_outcome.h"

namespace tidemark {
namespace {

constexpr Bytes kAlignment = 64;

plan::RankPlan planned(bool communication, std::int32_t warm_up) {
  plan::RankPlan rank =
      testing::TinyRank(0, {.layers = 3, .micro_batches = 4, .warm_up = warm_up, .communication = communication})
          .finish();
  rank.program.layout = layout::lay_out(rank.program.schedule, Bytes{1} << 30, Bytes{1} << 30, kAlignment);
  return rank;
}

// Takes wait number `wait` out of a schedule.
Schedule without_wait(Schedule schedule, std::size_t wait) {
  schedule.waits.erase(schedule.waits.begin() + static_cast<std::ptrdiff_t>(wait));
  for (Task& task : schedule.tasks) {
    if (static_cast<std::size_t>(task.first_wait) > wait) --task.first_wait;
  }
  return schedule;
}

class PlannedPrograms : public ::testing::TestWithParam<std::tuple<bool, int>> {
 protected:
  plan::RankPlan rank_ = planned(std::get<0>(GetParam()), std::get<1>(GetParam()));
  Program& program_ = rank_.program;
};

TEST_P(PlannedPrograms, AreClean) {
  const auto found = verify_program(rank_.graph, program_);
  EXPECT_FALSE(found.has_value()) << found->detail;
  const auto quadratic = verify_layout_quadratic(program_.schedule, program_.layout);
  EXPECT_FALSE(quadratic.has_value()) << quadratic->detail;
}

TEST_P(PlannedPrograms, NeedNearlyEveryWait) {
  const std::size_t waits = program_.schedule.waits.size();
  int missed = 0;
  for (std::size_t w = 0; w < waits; ++w) {
    Program damaged = program_;
    damaged.schedule = without_wait(program_.schedule, w);
    const auto sweep = verify_layout(damaged.schedule, damaged.layout);
    const auto quadratic = verify_layout_quadratic(damaged.schedule, damaged.layout);
    ASSERT_EQ(sweep.has_value(), quadratic.has_value()) << "wait " << w;
    missed += verify_program(rank_.graph, damaged).has_value() ? 0 : 1;
  }
  // Waits that only give bytes back early are not missed where nobody took those bytes.
  EXPECT_GT(waits, 10U);
  EXPECT_LT(static_cast<std::size_t>(missed) * 3, waits);
}

TEST_P(PlannedPrograms, MovedResidenciesAreJudgedAlike) {
  std::mt19937 random(31);
  int overlaps = 0;
  for (int round = 0; round < 120; ++round) {
    Layout layout = program_.layout;
    for (std::size_t moves = 1 + random() % 3; moves > 0; --moves) {
      const std::size_t r = random() % layout.offset_of.size();
      const Arena& arena = layout.arenas[row(layout.arena_of[r])];
      const Bytes room = (arena.height_bytes - program_.schedule.residencies[r].bytes) / kAlignment + 1;
      layout.offset_of[r] = static_cast<Bytes>(random() % static_cast<std::uint64_t>(room)) * kAlignment;
    }
    const auto sweep = verify_layout(program_.schedule, layout);
    const auto quadratic = verify_layout_quadratic(program_.schedule, layout);
    ASSERT_EQ(sweep.has_value(), quadratic.has_value()) << "round " << round;
    overlaps += sweep.has_value() ? 1 : 0;
  }
  EXPECT_GT(overlaps, 20);
}

// A task that uses the stay before the gap in place of the one after it, or the other way round.
TEST_P(PlannedPrograms, TouchOfAnotherStayIsCaught) {
  int changed = 0;
  const Schedule good = program_.schedule;
  for (std::size_t t = 0; t < good.touches.size(); ++t) {
    const Residency& used = good.residencies[row(good.touches[t].residency)];
    for (std::size_t r = 0; r < good.residencies.size(); ++r) {
      const Residency& other = good.residencies[r];
      if (other.storage != used.storage || good.touches[t].residency == id_of<ResidencyId>(r)) continue;
      Schedule damaged = good;
      damaged.touches[t].residency = id_of<ResidencyId>(r);
      // Stretch both stays to what is touched now, so that the data itself must give it away.
      for (Residency& residency : damaged.residencies) {
        residency.first_task = id_of<TaskId>(0);
        residency.last_task = id_of<TaskId>(good.tasks.size() - 1);
      }
      EXPECT_TRUE(verify_schedule(rank_.graph, damaged).has_value()) << "touch " << t << " moved to residency " << r;
      ++changed;
    }
  }
  EXPECT_GT(changed, 20);
}

TEST_P(PlannedPrograms, TasksInAnotherOrderAreCaught) {
  const Schedule good = program_.schedule;
  int caught = 0;
  for (std::size_t t = 0; t + 1 < good.tasks.size(); ++t) {
    Schedule damaged = good;
    std::swap(damaged.tasks[t].op, damaged.tasks[t + 1].op);
    if (damaged.tasks[t].op == good.tasks[t].op) continue;
    const bool ran = good.tasks[t].kind == TaskKind::op || good.tasks[t + 1].kind == TaskKind::op;
    if (!ran) continue;
    EXPECT_TRUE(verify_schedule(rank_.graph, damaged).has_value()) << "task " << t;
    ++caught;
  }
  EXPECT_GT(caught, 20);
}

INSTANTIATE_TEST_SUITE_P(Chains, PlannedPrograms, ::testing::Combine(::testing::Bool(), ::testing::Values(0, 2)));

}  // namespace
}  // namespace tidemark
