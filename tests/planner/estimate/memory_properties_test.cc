// Properties every estimate has, on random runs of every kind.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/planner/estimate/random_runs.h"

namespace tidemark::estimate::testing {
namespace {

constexpr int kRuns = 400;

double sum_by_hand(const std::vector<Term>& terms) {
  double sum = 0;
  for (const Term& term : terms) sum += term.bytes;
  return sum;
}

TEST(EveryRun, HasFiniteFiguresThatItsTermsSumTo) {
  RandomRuns runs(1);
  for (int i = 0; i < kRuns; ++i) {
    const TrainingRun run = runs.next();
    const auto result = estimate_rank(run, runs.rank_of(run));
    ASSERT_TRUE(result.ok()) << i << ": " << result.error().message;
    const RankMemory& memory = result.value();
    for (const double value : {memory.steady_bytes, memory.peak_bytes, memory.first_peak_bytes, memory.parameters}) {
      EXPECT_TRUE(std::isfinite(value)) << i;
      EXPECT_GT(value, 0) << i;
    }
    EXPECT_DOUBLE_EQ(sum_by_hand(memory.steady), memory.steady_bytes) << i;
    EXPECT_NEAR(memory.steady_bytes + sum_by_hand(memory.at_peak), memory.peak_bytes, 1) << i;
    EXPECT_GE(memory.peak_bytes, memory.steady_bytes) << i;
    EXPECT_GE(memory.peak_bytes, memory.first_peak_bytes) << i;
    EXPECT_GE(memory.running_peak_bytes, memory.peak_bytes) << i;
    for (const Term& term : memory.steady) {
      EXPECT_FALSE(term.source.empty()) << term.name;
      EXPECT_TRUE(term.bytes > 0 || term.name == "quantized_weights") << i << " " << term.name << " " << term.bytes;
    }
  }
}

/// Every change makes a run that asks for no less.
void expect_never_less(std::uint32_t seed, void (*change)(TrainingRun&)) {
  RandomRuns runs(seed);
  for (int i = 0; i < kRuns; ++i) {
    TrainingRun run = runs.next();
    const std::int64_t rank = runs.rank_of(run);
    const auto less = estimate_rank(run, rank);
    change(run);
    fill_world(run);
    const auto more = estimate_rank(run, std::min(rank, run.parallel.world - 1));
    ASSERT_TRUE(less.ok() && more.ok()) << i;
    if (less.value().stage != more.value().stage) continue;
    EXPECT_GE(more.value().steady_bytes, less.value().steady_bytes) << i;
    EXPECT_GE(more.value().running_peak_bytes, less.value().running_peak_bytes) << i;
    EXPECT_GE(more.value().peak_bytes, less.value().peak_bytes) << i;
    EXPECT_GE(more.value().first_peak_bytes, less.value().first_peak_bytes) << i;
  }
}

TEST(NeverLess, WithALargerMicroBatch) {
  expect_never_less(2, [](TrainingRun& run) { ++run.batch.micro; });
}
TEST(NeverLess, WithALongerSequence) {
  expect_never_less(3, [](TrainingRun& run) { run.model.sequence *= 2; });
}
TEST(NeverLess, WithMoreMicroBatches) {
  expect_never_less(4, [](TrainingRun& run) { run.batch.micro_batches += run.parallel.pipeline; });
}
TEST(NeverLess, WithALargerVocabulary) {
  expect_never_less(5, [](TrainingRun& run) { run.model.vocabulary.padded *= 2; });
}
TEST(NeverLess, WithFewerShards) {
  expect_never_less(6, [](TrainingRun& run) { run.optimizer.distributed = false; });
}
TEST(NeverLess, WithDropout) {
  expect_never_less(7, [](TrainingRun& run) { run.model.hidden_dropout = run.model.attention.dropout = 0.1; });
}
TEST(NeverLess, WithOptimizerStateOnTheDevice) {
  expect_never_less(8, [](TrainingRun& run) { run.optimizer.on_host = false; });
}

}  // namespace
}  // namespace tidemark::estimate::testing
