// Orders with a split backward: that they can run, what they hold, and how they compare with all orders there are.

#include "planner/graph_build/split_schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "planner/graph_build/v_schedule.h"
#include "planner/graph_build/v_zero_bubble.h"
#include "planner/graph_build/zero_bubble.h"
#include "tests/support/slot_search.h"
#include "tests/support/split_checks.h"

namespace tidemark::graph_build {
namespace {

using testing::SlotSearch;
using testing::SplitChecks;

std::int64_t highest(const std::vector<std::int64_t>& peaks) {
  return *std::max_element(peaks.begin(), peaks.end());
}

SplitSchedule v_half(std::int32_t p, std::int32_t m) {
  return v_schedule(VMemory::half, p, m).value();
}
SplitSchedule v_min(std::int32_t p, std::int32_t m) {
  return v_schedule(VMemory::third, p, m).value();
}
SplitSchedule unit_zbv(std::int32_t p, std::int32_t m) {
  return v_zero_bubble(p, m, unit_times(p, 2)).value();
}
SplitSchedule unit_zero_bubble(std::int32_t p, std::int32_t m, std::int32_t limit) {
  return zero_bubble(p, m, limit, unit_times(p, 1)).value();
}

/// Runs `check` on every p to 12 and m to 40 until one fails.
void for_all_counts(const std::function<void(std::int32_t p, std::int32_t m)>& check) {
  for (std::int32_t p = 1; p <= 12; ++p) {
    for (std::int32_t m = 1; m <= 40; ++m) {
      check(p, m);
      if (::testing::Test::HasFailure()) FAIL() << "p=" << p << " m=" << m;
    }
  }
}

TEST(SplitSchedule, EveryOrderCanRun) {
  for_all_counts([](std::int32_t p, std::int32_t m) {
    std::vector<SplitSchedule> all{v_half(p, m),
                                   v_min(p, m),
                                   unit_zbv(p, m),
                                   zero_bubble_h1(p, m).value(),
                                   zero_bubble_h2(p, m).value(),
                                   whole_backward_schedule({.ranks = p, .micro_batches = m}).value()};
    if (m <= 16) {  // eighteen builds each
      all.push_back(unit_zero_bubble(p, m, p));
      all.push_back(unit_zero_bubble(p, m, 2 * p));
    }
    for (const SplitSchedule& schedule : all) ASSERT_EQ(SplitChecks(schedule).problem(), "");
  });
}

TEST(SplitSchedule, TheCheckerSeesWhatIsWrong) {
  const SplitSchedule good = v_half(4, 8);
  SplitSchedule missing = good;
  missing.passes[2].pop_back();
  EXPECT_NE(SplitChecks(missing).problem(), "");
  SplitSchedule twice = good;
  twice.passes[1].push_back(twice.passes[1].front());
  EXPECT_NE(SplitChecks(twice).problem(), "");
  SplitSchedule turned = good;
  std::reverse(turned.passes[0].begin(), turned.passes[0].end());
  EXPECT_EQ(SplitChecks(turned).problem(), "stands still");
  SplitSchedule looped = good;  // chunk 1 the other way round: rank 0 waits for rank 3, which waits for rank 0
  looped.placement = StagePlacement::looped;
  EXPECT_EQ(SplitChecks(looped).problem(), "stands still");
}

/// Times of any shape: zeros, one kind many times another, ranks unlike one another.
SplitTimeTable random_times(std::mt19937_64& random, std::int32_t p, std::int32_t chunks) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  SplitTimeTable times = unit_times(p, chunks);
  const bool uniform = below(2) == 0;
  const SplitTimes all{.forward_ns = below(40), .input_grad_ns = below(40), .weight_grad_ns = below(40)};
  for (auto& rank : times.chunks) {
    for (SplitTimes& t : rank) {
      t = uniform ? all : SplitTimes{.forward_ns = below(40), .input_grad_ns = below(40), .weight_grad_ns = below(40)};
    }
  }
  times.hop_ns = below(3) == 0 ? below(100) : 0;
  return times;
}

TEST(SplitSchedule, OrdersMadeForAnyTimesCanRunWithinTheirLimit) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 400; ++trial) {
    const auto p = static_cast<std::int32_t>(1 + random() % 12), m = static_cast<std::int32_t>(1 + random() % 40);
    const SplitSchedule v = v_zero_bubble(p, m, random_times(random, p, 2)).value();
    ASSERT_EQ(SplitChecks(v).problem(), "") << trial;
    ASSERT_LE(highest(in_flight_peaks(v)), 2 * p) << trial;
    const auto limit = static_cast<std::int32_t>(static_cast<std::uint64_t>(p) + random() % 16);
    const SplitSchedule straight = zero_bubble(p, m, limit, random_times(random, p, 1)).value();
    ASSERT_EQ(SplitChecks(straight).problem(), "") << trial;
    ASSERT_LE(highest(in_flight_peaks(straight)), limit) << trial;
  }
}

TEST(SplitSchedule, HoldsWhatItsNameSays) {
  for_all_counts([](std::int32_t p, std::int32_t m) {
    // Micro-batches of both chunks are two chunk passes each.
    EXPECT_LE(highest(in_flight_peaks(v_half(p, m))), 2 * (p / 2 + 1));
    EXPECT_LE(highest(in_flight_peaks(v_min(p, m))), 2 * ((p + 1) / 3 + 1));
    EXPECT_LE(highest(in_flight_peaks(unit_zbv(p, m))), 2 * p);
    if (m <= 16) {
      EXPECT_LE(highest(in_flight_peaks(unit_zero_bubble(p, m, p))), p);
    }
    for (const std::int64_t peak : in_flight_peaks(zero_bubble_h1(p, m).value())) EXPECT_EQ(peak, std::min(p, m));
    for (const std::int64_t peak : in_flight_peaks(zero_bubble_h2(p, m).value())) {
      EXPECT_EQ(peak, std::min(2 * p - 1, m));
    }
  });
}

TEST(SplitSchedule, VSchedulesReachTheirBounds) {
  for (std::int32_t p = 1; p <= 24; ++p) {
    EXPECT_EQ(highest(in_flight_peaks(v_half(p, 3 * p))), 2 * (p / 2 + 1)) << p;
    EXPECT_EQ(highest(in_flight_peaks(v_min(p, 3 * p))), 2 * ((p + 1) / 3 + 1)) << p;
  }
}

// ---- Against all orders

TEST(SplitSchedule, NoOrderOfASmallPipelineIsShorter) {
  for (const auto& [p, m] : {std::pair{1, 3}, {2, 1}, {2, 2}, {2, 3}, {2, 4}, {3, 1}, {3, 2}, {3, 3}}) {
    const SplitTimeTable times = unit_times(p, 1);
    const std::int32_t shortest = SlotSearch(p, 1, m, p).shortest_slots();
    EXPECT_EQ(SplitChecks(unit_zero_bubble(p, m, p)).makespan_ns(times), shortest) << p << " " << m;
    EXPECT_EQ(SplitChecks(zero_bubble_h1(p, m).value()).makespan_ns(times), shortest) << p << " " << m;
  }
}

TEST(SplitSchedule, NoVOfASmallPipelineIsShorter) {
  for (const auto& [p, m] : {std::pair{1, 3}, {2, 1}, {2, 2}, {2, 3}}) {
    const SplitTimeTable times = unit_times(p, 2);
    const std::int32_t shortest = SlotSearch(p, 2, m, 2 * p).shortest_slots();
    EXPECT_EQ(SplitChecks(unit_zbv(p, m)).makespan_ns(times), shortest) << p << " " << m;
    const auto limit_of = [](const SplitSchedule& v) { return static_cast<std::int32_t>(highest(in_flight_peaks(v))); };
    const SplitSchedule half = v_half(p, m), third = v_min(p, m);
    EXPECT_EQ(SplitChecks(half).makespan_ns(times), SlotSearch(p, 2, m, limit_of(half)).shortest_slots());
    // V-Min gives something away: two slots on two ranks.
    const std::int64_t shortest_third = SlotSearch(p, 2, m, limit_of(third)).shortest_slots();
    EXPECT_GE(SplitChecks(third).makespan_ns(times), shortest_third);
    EXPECT_LE(SplitChecks(third).makespan_ns(times), shortest_third + 2);
  }
}

TEST(SplitSchedule, NothingButTheFillIsIdleInZbv) {
  // The last rank starts p - 1 forwards of a chunk late whatever the order, so no V is shorter.
  for_all_counts([](std::int32_t p, std::int32_t m) {
    if (m < 2 * p - 1) return;
    EXPECT_EQ(SplitChecks(unit_zbv(p, m)).makespan_ns(unit_times(p, 2)), 6 * m + p - 1);
  });
}

// ---- Values

TEST(SplitSchedule, StagesOfAV) {
  const SplitSchedule v{.ranks = 4, .chunks = 2, .placement = StagePlacement::zigzag};
  std::vector<std::int32_t> ranks;
  for (std::int32_t stage = 0; stage < v.stages(); ++stage) {
    ranks.push_back(v.rank_of(stage));
    EXPECT_EQ(v.stage_of(v.rank_of(stage), stage / 4), stage);
  }
  EXPECT_EQ(ranks, (std::vector<std::int32_t>{0, 1, 2, 3, 3, 2, 1, 0}));
  const SplitSchedule loop{.ranks = 3, .chunks = 2};
  EXPECT_EQ(loop.rank_of(4), 1);
  EXPECT_EQ(loop.stage_of(1, 1), 4);
}

TEST(SplitSchedule, WholeBackwardIsTheListOfPipelinePasses) {
  const PipelineShape shape{.ranks = 4, .chunks = 2, .micro_batches = 8};
  const SplitSchedule schedule = whole_backward_schedule(shape).value();
  EXPECT_EQ(SplitChecks(schedule).problem(), "");
  const auto peaks = in_flight_peaks(schedule);
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(peaks[static_cast<std::size_t>(rank)], in_flight_passes(shape, rank));
  }
}

TEST(SplitSchedule, TheOrderOfZbH1OnTwoRanks) {
  const auto text = [](const std::vector<SplitPass>& passes) {
    std::string line;
    for (const SplitPass& pass : passes) {
      line += fmt::format("{}{} ", "FBWX"[static_cast<std::size_t>(pass.kind)], pass.micro_batch);
    }
    return line;
  };
  const SplitSchedule schedule = zero_bubble_h1(2, 3).value();
  EXPECT_EQ(text(schedule.passes[0]), "F0 F1 B0 W0 F2 B1 W1 B2 W2 ");
  EXPECT_EQ(text(schedule.passes[1]), "F0 B0 F1 B1 W0 F2 B2 W1 W2 ");
}

TEST(SplitSchedule, RefusesWhatHasNoOrder) {
  EXPECT_FALSE(v_schedule(VMemory::half, 0, 4).ok());
  EXPECT_FALSE(v_schedule(VMemory::third, 4, 0).ok());
  EXPECT_FALSE(v_zero_bubble(0, 4, {}).ok());
  EXPECT_FALSE(zero_bubble_h1(4, -1).ok());
  EXPECT_FALSE(zero_bubble_h2(0, 1).ok());
  EXPECT_FALSE(whole_backward_schedule({.ranks = 0}).ok());
  const auto tight = zero_bubble(4, 8, 3, unit_times(4, 1));
  ASSERT_FALSE(tight.ok());
  EXPECT_EQ(tight.error().code, Error::Code::bad_input);
  EXPECT_EQ(tight.error().message, "a pipeline of 4 ranks needs room for 4 micro-batches on each, not 3");
}

}  // namespace
}  // namespace tidemark::graph_build
