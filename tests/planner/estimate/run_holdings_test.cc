// Runs of frameworks as holdings: the terms of the running peak, to the byte, whatever the run.

#include "planner/estimate/run_holdings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "integrations/formats/truth_file.h"
#include "planner/budget/limit.h"
#include "planner/estimate/error_band.h"
#include "tests/planner/estimate/argument_sets.h"
#include "tests/planner/estimate/random_runs.h"
#include "tests/support/data.h"

namespace tidemark::estimate::testing {
namespace {

using budget::Category;
using budget::Holdings;
using budget::Phase;
using budget::RankHoldings;

Holdings holdings_of(const ImportedRun& imported) {
  const Result<Holdings> holdings = run_holdings(imported, {}, {}, "a run");
  EXPECT_TRUE(holdings.ok()) << holdings.error().message;
  return holdings.ok() ? holdings.value() : Holdings{};
}

ImportedRun of_run(TrainingRun run) {
  ImportedRun imported;
  imported.run = std::move(run);
  return imported;
}

void expect_whole(const RankHoldings& rank) {
  Bytes sum = 0;
  budget::CategoryBytes by_category{};
  std::set<std::string> names;
  for (const budget::HeldStorage& storage : rank.storages) {
    sum += storage.bytes;
    by_category[static_cast<std::size_t>(storage.category)] += storage.bytes;
    EXPECT_TRUE(names.insert(storage.name).second) << storage.name;
    EXPECT_GE(storage.count, 1) << storage.name;
  }
  EXPECT_EQ(sum, rank.peak_bytes);
  EXPECT_EQ(by_category, rank.by_category);
  EXPECT_TRUE(std::ranges::is_sorted(rank.storages, std::ranges::greater{}, &budget::HeldStorage::bytes));
  ASSERT_TRUE(rank.peak_phase.has_value());
  EXPECT_EQ(rank.by_phase[static_cast<std::size_t>(*rank.peak_phase)], rank.peak_bytes);
  for (const std::optional<Bytes>& phase : rank.by_phase) EXPECT_LE(phase.value_or(0), rank.peak_bytes);
  EXPECT_TRUE(rank.by_phase[static_cast<std::size_t>(Phase::between_steps)].has_value());
  EXPECT_FALSE(rank.peak_at.empty());
}

void expect_all_terms_have_rules(const RankMemory& memory) {
  for (const std::vector<Term>* terms : {&memory.steady, &memory.at_peak, &memory.at_running_peak})
    for (const Term& term : *terms) EXPECT_NE(find_term_rule(term.name), nullptr) << term.name;
}

TEST(RunHoldings, AddUpToTheByteWhateverTheRun) {
  RandomRuns runs(11);
  for (int i = 0; i < 400; ++i) {
    const TrainingRun run = runs.next();
    const Holdings holdings = holdings_of(of_run(run));
    ASSERT_EQ(holdings.ranks.size(), static_cast<std::size_t>(run.parallel.pipeline)) << i;
    EXPECT_TRUE(std::ranges::is_sorted(holdings.ranks, {}, &RankHoldings::rank)) << i;
    for (const RankHoldings& rank : holdings.ranks) expect_whole(rank);
    const auto stages = estimate_stages(cautious(run), cautious(MemoryKnobs{}));
    ASSERT_TRUE(stages.ok()) << i;
    for (const RankMemory& memory : stages.value()) {
      expect_all_terms_have_rules(memory);
      const double sum =
          memory.steady_bytes + std::accumulate(memory.at_running_peak.begin(), memory.at_running_peak.end(), 0.0,
                                                [](double to, const Term& t) { return to + t.bytes; });
      EXPECT_NEAR(sum, memory.running_peak_bytes, 1) << i;
      const auto row = std::ranges::find(holdings.ranks, memory.rank, &RankHoldings::rank);
      ASSERT_NE(row, holdings.ranks.end()) << i;
      EXPECT_EQ(row->peak_bytes, std::llround(memory.running_peak_bytes)) << i;
    }
  }
}

/// Of every stage the highest of all its ranks, looked at one by one.
TEST(RunHoldings, AreOfTheHighestRankOfEveryStage) {
  RandomRuns runs(12);
  for (int i = 0; i < 200; ++i) {
    const TrainingRun run = runs.next();
    const auto stages = estimate_stages(run);
    ASSERT_TRUE(stages.ok()) << i;
    std::vector<std::optional<RankMemory>> highest(static_cast<std::size_t>(run.parallel.pipeline));
    for (std::int64_t rank = 0; rank < run.parallel.world; ++rank) {
      const RankMemory memory = estimate(run, rank);
      std::optional<RankMemory>& at = highest[static_cast<std::size_t>(memory.stage)];
      if (!at || memory.running_peak_bytes > at->running_peak_bytes) at = memory;
    }
    for (std::size_t stage = 0; stage < highest.size(); ++stage) {
      EXPECT_EQ(stages.value()[stage].rank, highest[stage]->rank) << i;
      EXPECT_EQ(stages.value()[stage].running_peak_bytes, highest[stage]->running_peak_bytes) << i;
    }
  }
}

void expect_truth_is_held(const char* name, std::size_t least) {
  const auto path = tidemark::testing::data_path(name);
  if (!path) GTEST_SKIP() << "no reference data: set TIDEMARK_DATA";
  const auto runs = formats::read_truth(tidemark::testing::text_of(*path), name);
  ASSERT_TRUE(runs.ok()) << runs.error().message;
  std::size_t held = 0;
  for (const MeasuredRun& measured : runs.value()) {
    const Result<ImportedRun> imported = import_run(measured.arguments, measured.hints);
    if (!imported) continue;
    const auto holdings = run_holdings(imported.value(), {}, places_of(measured.arguments), measured.name);
    if (!holdings) continue;
    ++held;
    for (const RankHoldings& rank : holdings.value().ranks) {
      expect_whole(rank);
      expect_all_terms_have_rules(estimate(imported.value().run, rank.rank));
    }
  }
  EXPECT_GE(held, least);
}

TEST(RunHoldings, HoldEveryMeasuredRunOfMegatron) {
  expect_truth_is_held("truth/megatron_lm_ci_memory.dev.json", 300);
}
TEST(RunHoldings, HoldEveryMeasuredRunOfMindSpeed) {
  expect_truth_is_held("truth/mindspeed_llm_ascend_ci_memory.dev.json", 20);
}

TEST(RunHoldings, SayWhenAndWhereARankPeaks) {
  const auto imported = import_small(
      "--pipeline-model-parallel-size 4 --recompute-granularity full "
      "--recompute-method uniform --recompute-num-layers 1");
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  const Holdings holdings = holdings_of(imported.value());
  ASSERT_EQ(holdings.ranks.size(), 4U);
  EXPECT_EQ(holdings.ranks[0].place, "pp0");
  EXPECT_EQ(holdings.ranks[0].peak_phase, Phase::backward);
  EXPECT_EQ(holdings.ranks[0].peak_at, "backward, 4 micro-batches in flight");
  EXPECT_EQ(holdings.ranks[3].peak_phase, Phase::forward);  // logits
  EXPECT_EQ(holdings.ranks[3].peak_at, "forward, 1 micro-batch in flight");
  const auto activations = std::ranges::find(holdings.ranks[1].storages, "activations", &budget::HeldStorage::name);
  ASSERT_NE(activations, holdings.ranks[1].storages.end());
  EXPECT_EQ(activations->count, 3);
  EXPECT_EQ(activations->layers, "3-5");
  EXPECT_EQ(activations->category, Category::activations);
  EXPECT_EQ(holdings.basis, budget::Basis::estimated);
  EXPECT_EQ(holdings.source, "a run");
}

TEST(RunHoldings, OfOneStageNameNoPlace) {
  EXPECT_EQ(holdings_of(import_small("").value()).ranks.front().place, "");
}

/// The figures MindSpeed logs are of a first step; a budget has to hold every other one, too.
TEST(RunHoldings, HoldTheMomentsThatTheFirstStepHasNot) {
  TrainingRun run = ascend_run();
  fill_layout(run, 8);
  fill_world(run);
  const Holdings holdings = holdings_of(of_run(run));
  const RankHoldings& rank = holdings.ranks.front();
  const auto has = [&](std::string_view name) {
    return std::ranges::find(rank.storages, name, &budget::HeldStorage::name) != rank.storages.end();
  };
  EXPECT_TRUE(has("moments"));
  EXPECT_FALSE(has("moments_not_yet"));
  EXPECT_TRUE(std::ranges::any_of(holdings.notes, [](const std::string& note) {
    return note.find("in its first step, before the optimizer's moments are there") != std::string::npos;
  }));
}

/// A step that needs more than the passes decides, and says so.
TEST(RunHoldings, TellTheOptimizersStepFromThePasses) {
  TrainingRun run = ascend_run();
  run.model.sequence = 64;
  run.model.attention.mask = AttentionMask::whole;
  fill_layout(run, 2);
  fill_world(run);
  const Holdings holdings = holdings_of(of_run(run));
  EXPECT_EQ(holdings.ranks.front().peak_phase, Phase::optimizer);
  EXPECT_EQ(holdings.ranks.front().peak_at, "optimizer step");
  expect_whole(holdings.ranks.front());
}

TEST(RunHoldings, CarryTheBandOfTheirClassAndWhatIsNotUnderstood) {
  EXPECT_EQ(holdings_of(import_small("").value()).band_percent, 6);
  const Holdings experts =
      holdings_of(import_small("--num-experts 8 --expert-model-parallel-size 2 --moe-router-topk 2").value());
  EXPECT_EQ(experts.band_percent, 15);
  EXPECT_TRUE(experts.is_understood);
  EXPECT_NE(experts.notes.front().find("expert load 1.3"), std::string::npos) << experts.notes.front();
  EXPECT_FALSE(holdings_of(import_small("--no-such-argument 3").value()).is_understood);
}

TEST(RunHoldings, AreRefusedAsTheEstimateIs) {
  TrainingRun run = gpt_run();
  run.model.kind = ModelClass::multimodal;
  const auto holdings = run_holdings(of_run(run), {}, {}, "a run");
  ASSERT_FALSE(holdings.ok());
  EXPECT_EQ(holdings.error().message, "memory of a multimodal model is not modelled");
}

}  // namespace
}  // namespace tidemark::estimate::testing
