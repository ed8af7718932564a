#include "planner/graph_build/pipeline_schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/data.h"
#include "tests/support/json_text.h"
#include "tests/support/pass_executor.h"

namespace tidemark::graph_build {
namespace {

std::vector<std::vector<Pass>> all_passes(const PipelineShape& shape) {
  std::vector<std::vector<Pass>> lists;
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
    auto passes = pipeline_passes(shape, rank);
    EXPECT_TRUE(passes.ok());
    lists.push_back(std::move(passes).value());
  }
  return lists;
}

std::string text_of(const PipelineShape& shape) {
  return fmt::format("p={} v={} m={} overlap={}", shape.ranks, shape.chunks, shape.micro_batches, shape.overlap);
}

/// The formulas, written out again.
std::int64_t expected_in_flight(const PipelineShape& s, std::int32_t rank) {
  const std::int64_t behind = s.ranks - rank;
  const std::int64_t held = s.chunks == 1 ? behind : 2 * (behind - 1) + std::int64_t{s.chunks - 1} * s.ranks + 1;
  return std::min(held + (s.overlap ? 1 : 0), std::int64_t{s.micro_batches} * s.chunks);
}

/// Runs `check` on every shape with p <= 16, v <= 4, m <= 128 that has a schedule.
template <class Check>
void for_all_shapes(bool overlap, Check check) {
  for (std::int32_t p = 1; p <= 16; ++p) {
    for (std::int32_t v = 1; v <= 4; ++v) {
      for (std::int32_t m = v == 1 ? 1 : p; m <= 128; m += v == 1 ? 1 : p) {
        check(PipelineShape{.ranks = p, .chunks = v, .micro_batches = m, .overlap = overlap});
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(PipelineSchedule, InFlightAndBubbleEqualTheClosedFormsOnEveryShape) {
  int shapes = 0;
  for_all_shapes(false, [&](const PipelineShape& shape) {
    ++shapes;
    const PassRun run = PassExecutor(shape, {.forward = 1, .backward = 2}).run(all_passes(shape));
    ASSERT_TRUE(run.complete) << text_of(shape);
    for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
      ASSERT_EQ(run.in_flight[static_cast<std::size_t>(rank)], expected_in_flight(shape, rank))
          << text_of(shape) << rank;
      ASSERT_EQ(in_flight_passes(shape, rank), expected_in_flight(shape, rank)) << text_of(shape) << rank;
    }
    const double work = 3.0 * shape.micro_batches * shape.chunks;
    const double idle = shape.ranks - 1;
    ASSERT_DOUBLE_EQ(run.makespan, work + 3 * idle) << text_of(shape);
    ASSERT_NEAR(bubble_share(shape), 1 - work / run.makespan, 1e-12) << text_of(shape);
  });
  EXPECT_GT(shapes, 16 * 128);
}

TEST(PipelineSchedule, OverlapHoldsOneMoreAndStaysExecutableOnEveryShape) {
  for_all_shapes(true, [](const PipelineShape& shape) {
    const auto lists = all_passes(shape);
    const PassRun run = PassExecutor(shape, {}).run(lists);
    ASSERT_TRUE(run.complete) << text_of(shape);
    for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
      ASSERT_EQ(run.in_flight[static_cast<std::size_t>(rank)], expected_in_flight(shape, rank))
          << text_of(shape) << rank;
      ASSERT_EQ(in_flight_passes(shape, rank), expected_in_flight(shape, rank)) << text_of(shape) << rank;
    }
  });
}

/// Runs pairs as one unit whose two inputs must both be there before it starts: the strictest reading of overlap.
TEST(PipelineSchedule, OverlappedPairsDoNotDeadlockEvenAsIndivisibleUnits) {
  for_all_shapes(true, [](const PipelineShape& shape) {
    if (shape.micro_batches > 48) return;
    const auto lists = all_passes(shape);
    const auto stages = static_cast<std::size_t>(shape.ranks * shape.chunks);
    const auto m = static_cast<std::size_t>(shape.micro_batches);
    std::vector<char> forward_done(stages * m), backward_done(stages * m);
    const auto stage_of = [&](std::size_t rank, const Pass& pass) {
      return static_cast<std::size_t>(pass.chunk * shape.ranks) + rank;
    };
    const auto ready = [&](std::size_t rank, const Pass& pass) {
      const std::size_t stage = stage_of(rank, pass), mb = static_cast<std::size_t>(pass.micro_batch);
      if (pass.forward) return stage == 0 || forward_done[(stage - 1) * m + mb] != 0;
      return forward_done[stage * m + mb] != 0 && (stage + 1 == stages || backward_done[(stage + 1) * m + mb] != 0);
    };
    std::vector<std::size_t> next(lists.size(), 0);
    std::size_t left = 2 * stages * m;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < lists.size(); ++rank) {
        while (next[rank] < lists[rank].size()) {
          const std::size_t count = lists[rank][next[rank]].paired_with_next ? 2 : 1;
          bool all_ready = true;
          for (std::size_t i = 0; i < count; ++i) all_ready = all_ready && ready(rank, lists[rank][next[rank] + i]);
          if (!all_ready) break;
          for (std::size_t i = 0; i < count; ++i) {
            const Pass& pass = lists[rank][next[rank]++];
            (pass.forward ? forward_done
                          : backward_done)[stage_of(rank, pass) * m + static_cast<std::size_t>(pass.micro_batch)] = 1;
            --left;
          }
          moved = true;
        }
      }
    }
    ASSERT_EQ(left, 0U) << text_of(shape);
  });
}

TEST(PipelineSchedule, PairsAreAForwardFollowedByABackward) {
  const PipelineShape shape{.ranks = 4, .chunks = 2, .micro_batches = 16, .overlap = true};
  const auto passes = pipeline_passes(shape, 1).value();
  std::int64_t pairs = 0;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (!passes[i].paired_with_next) continue;
    ++pairs;
    EXPECT_TRUE(passes[i].forward);
    ASSERT_LT(i + 1, passes.size());
    EXPECT_FALSE(passes[i + 1].forward);
  }
  EXPECT_EQ(pairs, 32 - (2 * 2 + 4 + 1));
}

TEST(PipelineSchedule, PanguBubbles) {
  EXPECT_NEAR(100 * bubble_share({.ranks = 16, .chunks = 1, .micro_batches = 64}), 18.987, 5e-4);
  EXPECT_NEAR(100 * bubble_share({.ranks = 16, .chunks = 2, .micro_batches = 64}), 10.490, 5e-4);
}

TEST(PipelineSchedule, RefusesWhatHasNoSchedule) {
  const auto ragged = pipeline_passes({.ranks = 4, .chunks = 2, .micro_batches = 6}, 0);
  ASSERT_FALSE(ragged.ok());
  EXPECT_EQ(ragged.error().code, Error::Code::bad_input);
  EXPECT_NE(ragged.error().message.find("6 micro-batches are not a multiple of 4 ranks"), std::string::npos);
  EXPECT_FALSE(pipeline_passes({.ranks = 4, .chunks = 0, .micro_batches = 4}, 0).ok());
  EXPECT_FALSE(pipeline_passes({.ranks = 4, .chunks = 1, .micro_batches = 0}, 0).ok());
  EXPECT_FALSE(pipeline_passes({.ranks = 4, .chunks = 1, .micro_batches = 4}, 4).ok());
  EXPECT_TRUE(pipeline_passes({.ranks = 4, .chunks = 1, .micro_batches = 3}, 0).ok());
}

TEST(PipelineSchedule, ReferenceRowsExactly) {
  const auto path = testing::data_path("schedules/reference_schedules.json");
  if (!path) GTEST_SKIP() << "schedules/reference_schedules.json is not installed";
  int rows = 0;
  for (const auto& row : testing::parsed(testing::text_of(*path))) {
    const std::string kind = row["schedule"];
    if (kind != "1F1B" && kind != "interleaved-1F1B") continue;
    ++rows;
    const PipelineShape shape{.ranks = row["p"], .chunks = row["chunks"], .micro_batches = row["m"]};
    const double v = shape.chunks, f = row["F"], b = row["B"], w = row["W"];
    const PassTimes times{.forward = f / v, .backward = (b + w) / v, .hop = row["comm"]};
    const PassRun run = PassExecutor(shape, times).run(all_passes(shape));
    ASSERT_TRUE(run.complete);
    const double work = shape.micro_batches * (f + b + w);
    EXPECT_NEAR(run.makespan, row["makespan"].get<double>(), 1e-6) << row;
    EXPECT_NEAR(run.makespan - work, row["bubble_time"].get<double>(), 1e-6) << row;
    EXPECT_NEAR(1 - work / run.makespan, row["bubble_ratio"].get<double>(), 1e-6) << row;
    const auto& held = row["peak_inflight_per_stage_in_full_stage_microbatches"];
    ASSERT_EQ(held.size(), run.in_flight.size());
    for (std::size_t rank = 0; rank < held.size(); ++rank) {
      EXPECT_DOUBLE_EQ(static_cast<double>(run.in_flight[rank]) / v, held[rank].get<double>()) << row;
    }
  }
  EXPECT_EQ(rows, 45);
}

}  // namespace
}  // namespace tidemark::graph_build
