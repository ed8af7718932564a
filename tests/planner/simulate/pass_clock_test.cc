// Schedules of passes: their longest paths bound every other choice of times, and reach their own.

#include "planner/simulate/pass_clock.h"

#include <gtest/gtest.h>

#include <random>

namespace tidemark::simulate {
namespace {

class RandomTimes {
 public:
  explicit RandomTimes(unsigned seed) : engine_(seed) {}

  std::int64_t ns(std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(0, most)(engine_); }

  PassTime pass() {
    PassTime time;
    time.compute_ns = ns(1000);
    time.lane_ns = time.compute_ns + ns(200);
    time.out_ns = time.lane_ns + ns(100);
    time.end_ns = time.out_ns;
    time.early_ns = ns(time.compute_ns / 4);
    time.intra_ns = ns(1500);
    time.inter_ns = ns(1500);
    return time;
  }

  StageTimes stages(std::int32_t ranks, std::int32_t chunks) {
    StageTimes times(static_cast<std::size_t>(ranks));
    for (auto& rank : times)
      for (std::int32_t chunk = 0; chunk < chunks; ++chunk) rank.push_back({.forward = pass(), .backward = pass()});
    return times;
  }

 private:
  std::mt19937 engine_;
};

graph_build::ParallelSpec pipeline_of(std::int32_t ranks, std::int32_t chunks, std::int64_t micro_batches,
                                      bool overlap) {
  graph_build::ParallelSpec parallel;
  parallel.pipeline = ranks;
  parallel.virtual_pipeline = chunks;
  parallel.global_batch = micro_batches;
  parallel.overlap_forward_backward = overlap;
  return parallel;
}

std::int64_t length_of(const SchedulePath& path, const StageTimes& times) {
  std::int64_t length = 0;
  for (std::size_t stage = 0; stage < path.size(); ++stage) {
    const auto spans = spans_of(times[stage % times.size()][stage / times.size()]);
    for (std::size_t span = 0; span < spans.size(); ++span) length += path[stage][span] * spans[span];
  }
  return length;
}

TEST(PassClock, APathBoundsEveryStepOfItsSchedule) {
  RandomTimes random(7);
  for (const bool overlap : {false, true})
    for (const std::int32_t ranks : {1, 2, 3, 5})
      for (const std::int32_t chunks : {1, 2, 3}) {
        const auto parallel = pipeline_of(ranks, chunks, 3 * ranks, overlap);
        auto clock = PassClock::of(parallel);
        ASSERT_TRUE(clock);
        const StageTimes own = random.stages(ranks, chunks);
        const auto path = clock.value().path(own);
        ASSERT_TRUE(path);
        const std::int64_t step = clock.value().step_ns(own).value();
        const std::int64_t own_length = length_of(path.value(), own);
        EXPECT_EQ(own_length, step);
        EXPECT_LE(clock.value().bound_ns(own).value(), step);
        for (int i = 0; i < 20; ++i) {
          const StageTimes others = random.stages(ranks, chunks);
          EXPECT_LE(length_of(path.value(), others), clock.value().step_ns(others).value());
        }
      }
}

TEST(PassClock, RefusesMicroBatchesThatDoNotFillTheGroups) {
  EXPECT_FALSE(PassClock::of(pipeline_of(4, 2, 6, false)));
}

}  // namespace
}  // namespace tidemark::simulate
