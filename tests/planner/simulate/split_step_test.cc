// Split schedules played: the reference rows to the digit, closed forms, and the evaluator against a naive one.

#include "planner/simulate/split_step.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "planner/graph_build/v_schedule.h"
#include "planner/graph_build/v_zero_bubble.h"
#include "planner/graph_build/zero_bubble.h"
#include "tests/support/data.h"
#include "tests/support/json_text.h"
#include "tests/support/split_checks.h"

namespace tidemark::simulate {
namespace {

using graph_build::SplitSchedule;
using graph_build::SplitTimes;
using graph_build::SplitTimeTable;
using graph_build::unit_times;
using graph_build::VMemory;

SplitStepRun run_step(const SplitSchedule& schedule, const SplitTimeTable& times) {
  const auto run = run_split_step(schedule, times);
  EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().message);
  return run.ok() ? run.value() : SplitStepRun{.ranks = std::vector<SplitRankRun>(schedule.passes.size())};
}

// ---- Reference rows

/// The order a row names. Of ZBV it depends on the row's times.
SplitSchedule order_named(const std::string& name, std::int32_t p, std::int32_t chunks, std::int32_t m,
                          const SplitTimeTable& times) {
  if (name == "ZBV") return graph_build::v_zero_bubble(p, m, times).value();
  if (name == "V-half") return graph_build::v_schedule(VMemory::half, p, m).value();
  if (name == "V-min") return graph_build::v_schedule(VMemory::third, p, m).value();
  return graph_build::whole_backward_schedule({.ranks = p, .chunks = chunks, .micro_batches = m}).value();
}

TEST(SplitStep, EqualsEveryReferenceRow) {
  const auto path = testing::data_path("schedules/reference_schedules.json");
  if (!path) GTEST_SKIP() << "schedules/reference_schedules.json is not installed; set TIDEMARK_DATA";
  int rows = 0;
  for (const auto& row : testing::parsed(testing::text_of(*path))) {
    const std::int32_t p = row["p"], m = row["m"], chunks = row["chunks"];
    // A unit of the data is a millisecond: chunks of a quarter of 0.8 are whole nanoseconds.
    const auto ns = [&](const char* key) { return std::llround(row[key].get<double>() * 1e6); };
    const SplitTimes chunk{
        .forward_ns = ns("F") / chunks, .input_grad_ns = ns("B") / chunks, .weight_grad_ns = ns("W") / chunks};
    const SplitTimeTable times = graph_build::uniform_times(p, chunks, chunk, ns("comm"));
    const SplitSchedule schedule = order_named(row["schedule"], p, chunks, m, times);
    const SplitStepRun step = run_step(schedule, times);
    EXPECT_EQ(step.step_ns, ns("makespan")) << row;
    EXPECT_EQ(fmt::format("{:.6f}", step.bubble_share), fmt::format("{:.6f}", row["bubble_ratio"].get<double>()))
        << row;
    const auto held = row["peak_inflight_per_stage_in_full_stage_microbatches"].get<std::vector<double>>();
    std::vector<double> peaks;
    for (const std::int64_t peak : in_flight_peaks(schedule)) peaks.push_back(static_cast<double>(peak) / chunks);
    EXPECT_EQ(peaks, held) << row;
    ++rows;
  }
  EXPECT_EQ(rows, 90);
}

// ---- Closed forms

TEST(SplitStep, HandMadeSchedulesAreIdleAsPublished) {
  for (const auto& [f, b, w] : {std::tuple{1, 1, 1}, {10, 11, 9}, {10, 10, 8}, {7, 20, 5}, {30, 9, 4}, {5, 5, 0}}) {
    for (std::int32_t p = 1; p <= 12; ++p) {
      for (const std::int32_t m : {2 * p, 3 * p + 1, 5 * p}) {
        const SplitTimeTable times = graph_build::uniform_times(p, 1, {f, b, w}, 0);
        const std::int64_t work = std::int64_t{m} * (f + b + w), behind = p - 1;
        const SplitStepRun h1 = run_step(graph_build::zero_bubble_h1(p, m).value(), times);
        ASSERT_EQ(h1.longest_rank_ns, work + behind * (f + b - w)) << p << " " << m;
        ASSERT_EQ(h1.step_ns, work + behind * (f + b - w)) << p << " " << m;
        const SplitStepRun h2 = run_step(graph_build::zero_bubble_h2(p, m).value(), times);
        ASSERT_EQ(h2.longest_rank_ns, work + behind * (f + b - 2 * w)) << p << " " << m;
        const auto whole = graph_build::whole_backward_schedule({.ranks = p, .micro_batches = m}).value();
        ASSERT_EQ(run_step(whole, times).step_ns, work + behind * (f + b + w)) << p << " " << m;
      }
    }
  }
}

TEST(SplitStep, GreedyZeroBubbleIsNeverLongerThanByHand) {
  std::mt19937_64 random(3);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  int shorter = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const auto p = static_cast<std::int32_t>(1 + below(10)), m = static_cast<std::int32_t>(1 + below(30));
    const SplitTimes chunk{
        .forward_ns = 1 + below(20), .input_grad_ns = 1 + below(20), .weight_grad_ns = 1 + below(20)};
    const SplitTimeTable times = graph_build::uniform_times(p, 1, chunk, below(2) * below(10));
    const auto step_ns = [&](const SplitSchedule& schedule) { return run_step(schedule, times).step_ns; };
    const std::int64_t h1 = step_ns(graph_build::zero_bubble_h1(p, m).value());
    const std::int64_t h2 = step_ns(graph_build::zero_bubble_h2(p, m).value());
    const std::int64_t once = step_ns(graph_build::zero_bubble(p, m, p, times).value());
    const std::int64_t twice = step_ns(graph_build::zero_bubble(p, m, 2 * p, times).value());
    ASSERT_LE(once, h1) << trial;
    ASSERT_LE(twice, std::min(h1, h2)) << trial;
    if (twice < std::min(h1, h2)) ++shorter;
  }
  EXPECT_GT(shorter, 30);
}

TEST(SplitStep, TwiceTheMemoryLeavesNoRankIdle) {
  for (std::int32_t p = 1; p <= 12; ++p) {
    const auto order = graph_build::zero_bubble(p, 3 * p, 2 * p, unit_times(p, 1)).value();
    const SplitStepRun step = run_step(order, unit_times(p, 1));
    EXPECT_EQ(step.longest_rank_ns, 9 * p);
    EXPECT_EQ(step.step_ns, 9 * p + p - 1);
  }
}

TEST(SplitStep, LessMemoryIsALongerStep) {
  for (std::int32_t p = 4; p <= 16; ++p) {
    const SplitTimeTable times = unit_times(p, 2);
    const std::int64_t full = run_step(graph_build::v_zero_bubble(p, 4 * p, times).value(), times).step_ns;
    const std::int64_t half = run_step(graph_build::v_schedule(VMemory::half, p, 4 * p).value(), times).step_ns;
    const std::int64_t third = run_step(graph_build::v_schedule(VMemory::third, p, 4 * p).value(), times).step_ns;
    EXPECT_LT(full, half) << p;
    EXPECT_LT(half, third) << p;
    // Published to the leading term, in chunk slots: a half and two thirds of the bubble of 1F1B, 6 (p - 1).
    EXPECT_LE(half - 24 * p, 3 * p) << p;
    EXPECT_LE(third - 24 * p, 4 * p) << p;
  }
}

// ---- The evaluator

TEST(SplitStep, AgreesWithTheNaiveOneOnUnevenTimes) {
  std::mt19937_64 random(7);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int trial = 0; trial < 300; ++trial) {
    const auto p = static_cast<std::int32_t>(1 + below(9));
    const std::int32_t m = p * static_cast<std::int32_t>(1 + below(4));
    for (const char* name : {"1F1B", "VPP", "ZBV", "V-half", "V-min"}) {
      const std::int32_t chunks = std::string(name) == "1F1B" ? 1 : 2;
      SplitTimeTable times = unit_times(p, chunks);
      for (auto& rank : times.chunks) {
        for (SplitTimes& t : rank) t = {below(30), below(30), below(30)};
      }
      times.hop_ns = below(20);
      const SplitSchedule schedule = order_named(name, p, chunks, m, times);
      const SplitStepRun step = run_step(schedule, times);
      ASSERT_EQ(step.step_ns, testing::SplitChecks(schedule).makespan_ns(times)) << name << " " << p << " " << m;
      for (std::size_t rank = 0; rank < times.chunks.size(); ++rank) {
        std::int64_t work = 0;
        for (const SplitTimes& t : times.chunks[rank]) work += m * (t.forward_ns + t.input_grad_ns + t.weight_grad_ns);
        ASSERT_EQ(step.ranks[rank].busy_ns, work);
        ASSERT_GE(step.ranks[rank].finish_ns - step.ranks[rank].start_ns, work);
      }
    }
  }
}

TEST(SplitStep, BytesFollowThePasses) {
  const auto h1 = graph_build::zero_bubble_h1(3, 6).value();
  const auto table = [](std::int32_t p, std::int32_t chunks, const PassBytes& bytes) {
    return PassBytesTable(static_cast<std::size_t>(p), std::vector<PassBytes>(static_cast<std::size_t>(chunks), bytes));
  };
  // As long as dW needs everything, bytes are passes in flight.
  EXPECT_EQ(peak_pass_bytes(h1, table(3, 1, {10, 10})), (std::vector<Bytes>{30, 30, 30}));
  // What dX frees: rank 0 puts nothing off, rank 2 holds one forward and, before the third dX, two that are put off.
  EXPECT_EQ(peak_pass_bytes(h1, table(3, 1, {10, 4})), (std::vector<Bytes>{30, 24, 18}));
  const auto v = graph_build::v_schedule(VMemory::half, 4, 12).value();
  PassBytesTable first_chunk = table(4, 2, {0, 0});
  for (auto& rank : first_chunk) rank[0] = {1, 1};
  const auto both = peak_pass_bytes(v, table(4, 2, {1, 1}));
  EXPECT_EQ(both, (std::vector<Bytes>{6, 6, 6, 6}));
  const auto first = peak_pass_bytes(v, first_chunk);
  for (std::size_t rank = 0; rank < first.size(); ++rank) {
    EXPECT_GT(first[rank], 0);
    EXPECT_LT(first[rank], both[rank]);
  }
  EXPECT_GT(first.front(), first.back());  // chunk 0 of the first rank is the first stage
}

TEST(SplitStep, NamesThePassAnOrderStandsStillAt) {
  SplitSchedule order = graph_build::zero_bubble_h1(2, 2).value();
  std::swap(order.passes[1][0], order.passes[1][1]);
  const auto stuck = run_split_step(order, unit_times(2, 1));
  ASSERT_FALSE(stuck.ok());
  EXPECT_EQ(stuck.error().code, Error::Code::internal);
  EXPECT_EQ(stuck.error().message,
            "a pipeline order stands still on rank 0 before input_grad of chunk 0, micro-batch 0");
  order = graph_build::zero_bubble_h1(2, 2).value();
  order.passes[0].push_back(order.passes[0].front());
  const auto twice = run_split_step(order, unit_times(2, 1));
  ASSERT_FALSE(twice.ok());
  EXPECT_NE(twice.error().message.find("has run before"), std::string::npos);
  order.passes[0].back().micro_batch = 2;
  EXPECT_NE(run_split_step(order, unit_times(2, 1)).error().message.find("does not have"), std::string::npos);
}

// ---- docs/design/pipeline_schedules.md

/// A line of its table: p = 16, m = 64, chunk times that sum up to F = 1 and B, W of a rank, `hop` in thousandths of F.
std::string table_line(const std::string& name, const SplitSchedule& equal, const SplitSchedule& late) {
  const std::int32_t chunks = equal.chunks, p = equal.ranks;
  const auto times = [&](std::int64_t hop) {
    return graph_build::uniform_times(p, chunks, {1000 / chunks, 1000 / chunks, 1000 / chunks}, hop);
  };
  const auto peaks = in_flight_peaks(equal);
  return fmt::format("| {} | {:.2f} % | {:.2f} % | {:g} |", name, 100 * run_step(equal, times(0)).bubble_share,
                     100 * run_step(late, times(100)).bubble_share,
                     static_cast<double>(*std::max_element(peaks.begin(), peaks.end())) / chunks);
}

TEST(SplitStep, TheDesignPagePrintsItsTable) {
  const std::int32_t p = 16, m = 64;
  const auto fixed = [](const std::string& name, const SplitSchedule& order) { return table_line(name, order, order); };
  const auto hops = [](std::int32_t chunks, std::int64_t hop) {
    return graph_build::uniform_times(16, chunks, {1000 / chunks, 1000 / chunks, 1000 / chunks}, hop);
  };
  const auto whole = [](std::int32_t chunks) {
    return graph_build::whole_backward_schedule({.ranks = 16, .chunks = chunks, .micro_batches = 64}).value();
  };
  const auto greedy = [&](std::int32_t limit, std::int64_t hop) {
    return graph_build::zero_bubble(p, m, limit, hops(1, hop)).value();
  };
  const std::vector<std::string> lines{fixed("1F1B", whole(1)),
                                       fixed("interleaved, 2 chunks", whole(2)),
                                       fixed("interleaved, 4 chunks", whole(4)),
                                       fixed("ZB-H1", graph_build::zero_bubble_h1(p, m).value()),
                                       fixed("ZB-H2", graph_build::zero_bubble_h2(p, m).value()),
                                       table_line("greedy, limit p", greedy(p, 0), greedy(p, 100)),
                                       table_line("greedy, limit 2p", greedy(2 * p, 0), greedy(2 * p, 100)),
                                       table_line("ZBV", graph_build::v_zero_bubble(p, m, hops(2, 0)).value(),
                                                  graph_build::v_zero_bubble(p, m, hops(2, 100)).value()),
                                       fixed("V-Half", graph_build::v_schedule(VMemory::half, p, m).value()),
                                       fixed("V-Min", graph_build::v_schedule(VMemory::third, p, m).value())};
  const std::string page = testing::text_of(testing::source_path("docs/design/pipeline_schedules.md"));
  for (const std::string& line : lines) EXPECT_NE(page.find(line), std::string::npos) << line;
}

}  // namespace
}  // namespace tidemark::simulate
