#include <gtest/gtest.h>

#include <random>

#include "core/verify.h"
#include "tests/support/tiny_schedule.h"

namespace tidemark {
namespace {

using testing::ScheduleBuilder;
using testing::side_by_side;

constexpr StorageId kAnyStorage = id_of<StorageId>(0);

// Both checkers must say the same; returns the rule broken, or nothing.
std::optional<Violation::Rule> verdict(const Schedule& schedule, const Layout& layout) {
  const auto sweep = verify_layout(schedule, layout);
  const auto quadratic = verify_layout_quadratic(schedule, layout);
  EXPECT_EQ(sweep.has_value(), quadratic.has_value()) << (sweep ? sweep->detail : quadratic ? quadratic->detail : "");
  if (!sweep) return {};
  EXPECT_FALSE(sweep->detail.empty());
  return sweep->rule;
}

Layout all_at(const Schedule& schedule, Bytes offset) {
  Layout layout = side_by_side(schedule);
  for (Bytes& o : layout.offset_of) o = offset;
  return layout;
}

TEST(VerifyLayout, FifoOrderOfOneLaneSeparatesReuse) {
  ScheduleBuilder b;
  const ResidencyId first = b.stay(kAnyStorage, 64);
  const ResidencyId second = b.stay(kAnyStorage, 64);
  b.touch(Lane::compute, {}, {first});
  b.touch(Lane::compute, {}, {second});
  const Schedule schedule = std::move(b).finish();
  EXPECT_EQ(verdict(schedule, all_at(schedule, 0)), std::nullopt);
}

TEST(VerifyLayout, OneTaskCannotTouchTwoResidenciesAtTheSameBytes) {
  ScheduleBuilder b;
  const ResidencyId first = b.stay(kAnyStorage, 64);
  const ResidencyId second = b.stay(kAnyStorage, 64);
  b.touch(Lane::compute, {}, {first, second});
  const Schedule schedule = std::move(b).finish();
  EXPECT_EQ(verdict(schedule, all_at(schedule, 0)), Violation::Rule::overlap);
  EXPECT_EQ(verdict(schedule, side_by_side(schedule)), std::nullopt);
}

TEST(VerifyLayout, AnotherLaneMustWait) {
  for (const bool waits : {false, true}) {
    ScheduleBuilder b;
    const ResidencyId first = b.stay(kAnyStorage, 64);
    const ResidencyId second = b.stay(kAnyStorage, 64);
    const TaskId sent = b.touch(Lane::send, {}, {first});
    b.touch(Lane::compute, waits ? std::vector{sent} : std::vector<TaskId>{}, {second});
    const Schedule schedule = std::move(b).finish();
    EXPECT_EQ(verdict(schedule, all_at(schedule, 0)).has_value(), !waits);
  }
}

TEST(VerifyLayout, OrderMayPassThroughThirdLanes) {
  ScheduleBuilder b;
  const ResidencyId first = b.stay(kAnyStorage, 64);
  const ResidencyId second = b.stay(kAnyStorage, 64);
  const TaskId out = b.touch(Lane::d2h, {}, {first});
  const TaskId middle = b.touch(Lane::intra_comm, {out}, {});
  b.touch(Lane::intra_comm, {}, {});
  b.touch(Lane::compute, {middle}, {});
  b.touch(Lane::compute, {}, {second});
  const Schedule schedule = std::move(b).finish();
  EXPECT_EQ(verdict(schedule, all_at(schedule, 0)), std::nullopt);
}

TEST(VerifyLayout, EveryTouchMustBeOverNotOnlyTheLastIssued) {
  ScheduleBuilder b;
  const ResidencyId first = b.stay(kAnyStorage, 64);
  const ResidencyId second = b.stay(kAnyStorage, 64);
  b.touch(Lane::send, {}, {first});  // nobody waits for this one
  b.touch(Lane::compute, {}, {first});
  b.touch(Lane::compute, {}, {second});
  const Schedule schedule = std::move(b).finish();
  EXPECT_EQ(verdict(schedule, all_at(schedule, 0)), Violation::Rule::overlap);
}

TEST(VerifyLayout, WhatStaysAllStepSharesWithNobody) {
  ScheduleBuilder b;
  const ResidencyId weights = b.stay_all_step(kAnyStorage, 64);
  const ResidencyId early = b.stay(kAnyStorage, 64);
  b.touch(Lane::compute, {}, {early});
  b.touch(Lane::compute, {}, {weights});
  const Schedule schedule = std::move(b).finish();
  EXPECT_EQ(verdict(schedule, all_at(schedule, 0)), Violation::Rule::overlap);
}

TEST(VerifyLayout, AddressesMustLieInTheirArena) {
  ScheduleBuilder b;
  const ResidencyId device = b.stay(kAnyStorage, 64);
  const ResidencyId host = b.stay(kAnyStorage, 64, MemorySpace::host);
  b.copy_out(kAnyStorage, {}, device, host);
  const Schedule schedule = std::move(b).finish();
  const Layout good = side_by_side(schedule, 32);
  EXPECT_EQ(verdict(schedule, good), std::nullopt);

  const auto expect_outside = [&](auto change) {
    Layout bad = good;
    change(bad);
    EXPECT_EQ(verdict(schedule, bad), Violation::Rule::out_of_arena);
  };
  expect_outside([](Layout& l) { l.offset_of[0] = -32; });
  expect_outside([](Layout& l) { l.offset_of[0] = 16; });
  expect_outside([](Layout& l) { l.offset_of[0] = 32; });
  expect_outside([](Layout& l) { l.arenas[0].capacity_bytes = 63; });
  expect_outside([](Layout& l) { l.arenas[0].dynamic_bytes = 1; });
  expect_outside([](Layout& l) { l.arenas[1].alignment_bytes = 0; });
  expect_outside([](Layout& l) { l.arena_of[0] = id_of<ArenaId>(1); });
  expect_outside([](Layout& l) { l.arena_of[0] = id_of<ArenaId>(2); });
  expect_outside([](Layout& l) { l.arena_of[0] = kNone<ArenaId>; });
  expect_outside([](Layout& l) { l.offset_of.pop_back(); });
  expect_outside([](Layout& l) { l.offset_of[1] = std::numeric_limits<Bytes>::max() / 32 * 32; });
}

struct RandomCase {
  Schedule schedule;
  Layout layout;
};

// Few lanes, few bytes and a taste for waiting, so that sound and unsound layouts are both common.
RandomCase random_case(std::mt19937& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  ScheduleBuilder b;
  const std::size_t residencies = 2 + below(7);
  for (std::size_t r = 0; r < residencies; ++r) {
    const auto bytes = static_cast<Bytes>(below(5));
    below(12) == 0 ? b.stay_all_step(kAnyStorage, bytes) : b.stay(kAnyStorage, bytes);
  }
  const std::size_t tasks = 3 + below(22);
  const std::size_t lanes = 1 + below(4);
  for (std::size_t t = 0; t < tasks; ++t) {
    std::vector<TaskId> waits;
    for (std::size_t w = below(3); w > 0 && t > 0; --w) waits.push_back(id_of<TaskId>(below(t)));
    std::vector<ResidencyId> touches;
    // Residencies come into use one after another, so that lives are short enough to share bytes.
    const std::size_t from = t * residencies / tasks;
    for (std::size_t k = below(3); k > 0; --k)
      touches.push_back(id_of<ResidencyId>(std::min(residencies - 1, from + below(2))));
    b.touch(static_cast<Lane>(below(lanes)), waits, touches);
  }
  RandomCase result{.schedule = std::move(b).finish()};
  result.layout = side_by_side(result.schedule);
  const Bytes room = 4 + static_cast<Bytes>(below(12));
  for (Arena& arena : result.layout.arenas) arena.capacity_bytes = arena.height_bytes = room + 8;
  for (Bytes& offset : result.layout.offset_of) offset = static_cast<Bytes>(below(static_cast<std::size_t>(room)));
  return result;
}

TEST(VerifyLayout, SweepAgreesWithAllPairs) {
  std::mt19937 random(2024);
  int sound = 0;
  int unsound = 0;
  for (int round = 0; round < 6000; ++round) {
    const RandomCase c = random_case(random);
    const auto rule = verdict(c.schedule, c.layout);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "round " << round;
    ++(rule ? unsound : sound);
    if (rule) {
      EXPECT_EQ(*rule, Violation::Rule::overlap);
    }
  }
  EXPECT_GT(sound, 1000);
  EXPECT_GT(unsound, 1000);
}

}  // namespace
}  // namespace tidemark
