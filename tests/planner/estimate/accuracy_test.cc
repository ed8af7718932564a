// Scores: errors, order statistics, what belongs in a summary, and one measured rank that corrects the others.

#include "planner/estimate/accuracy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "planner/estimate/rank_memory.h"

namespace tidemark::estimate {
namespace {

constexpr double kGiB = 1 << 30;

/// A dense model that peaks above 1 GiB. `more`: arguments in place of or beside its own.
MeasuredRun dense_run(const std::vector<std::pair<std::string, std::string>>& more = {}) {
  MeasuredRun run{.suite = "dense", .name = "a run", .iterations = 10};
  run.hints.platform = {.accelerator = Accelerator::h100, .devices = 8};
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"num-layers", "12"},
                                                                                    {"hidden-size", "512"},
                                                                                    {"num-attention-heads", "8"},
                                                                                    {"seq-length", "1024"},
                                                                                    {"max-position-embeddings", "1024"},
                                                                                    {"micro-batch-size", "4"},
                                                                                    {"global-batch-size", "32"}})
    run.arguments.arguments.push_back({.name = name, .value = value, .place = name});
  run.arguments.arguments.push_back({.name = "bf16", .is_switch = true, .place = "bf16"});
  for (const auto& [name, value] : more)  // of equal names the last counts
    run.arguments.arguments.push_back({.name = name, .value = value, .is_switch = value.empty(), .place = name});
  run.ranks.push_back({.steady_bytes = 1, .peak_bytes = 2 * kGiB});
  return run;
}

TrainingRun understood(const MeasuredRun& run) {
  const Result<ImportedRun> imported = import_run(run.arguments, run.hints);
  EXPECT_TRUE(imported.ok()) << imported.error().message;
  return imported.value().run;
}

/// What the model says, off by the given factors: a measurement whose errors are known.
MeasuredRun measured_at(MeasuredRun run, double steady, double peak) {
  const TrainingRun training = understood(run);
  for (MeasuredRank& rank : run.ranks) {
    const Result<RankMemory> memory = estimate_rank(training, rank.rank.value_or(logged_rank(training)));
    EXPECT_TRUE(memory.ok());
    rank.steady_bytes = memory.value().steady_bytes * steady;
    rank.peak_bytes = memory.value().peak_bytes * peak;
  }
  return run;
}

// By the definition: the least value such that at least that share of all is no larger.
TEST(NearestRank, IsTheLeastValueThatCoversTheShare) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> values(1 + random() % 30);
    for (double& value : values) value = static_cast<double>(random() % 20);
    for (const double quantile : {0.01, 0.5, 0.9, 0.95, 1.0}) {
      double expected = 0;
      bool found = false;
      for (const double candidate : values) {
        const auto covered = std::ranges::count_if(values, [&](double v) { return v <= candidate; });
        if (static_cast<double>(covered) < quantile * static_cast<double>(values.size()) - 1e-9) continue;
        expected = found ? std::min(expected, candidate) : candidate;
        found = true;
      }
      EXPECT_EQ(nearest_rank(values, quantile), expected) << quantile << " of " << values.size();
    }
  }
}

TEST(ErrorFigures, OfNothingCountNothing) {
  EXPECT_EQ(error_figures({}).count, 0U);
  const ErrorFigures one = error_figures({7});
  EXPECT_EQ(one.median_percent, 7);
  EXPECT_EQ(one.p90_percent, 7);
  EXPECT_EQ(one.worst_percent, 7);
}

TEST(Score, ErrorsAreAbsoluteAndRelativeToWhatWasMeasured) {
  const std::vector<MeasuredRun> runs = {measured_at(dense_run(), 1 / 1.02, 1 / 1.1),
                                         measured_at(dense_run(), 1 / 0.96, 1 / 0.8)};
  const std::vector<ScoredRank> ranks = score_runs(runs, {});
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_EQ(ranks[0].rank, 7);
  const AccuracySummary summary = summarize(runs, ranks);
  EXPECT_EQ(summary.steady.count, 2U);
  EXPECT_NEAR(summary.steady.median_percent, 2, 1e-9);
  EXPECT_NEAR(summary.steady.worst_percent, 4, 1e-9);
  EXPECT_NEAR(summary.peak.median_percent, 10, 1e-9);
  EXPECT_NEAR(summary.peak.p90_percent, 20, 1e-9);
  EXPECT_EQ(summary.refused, 0U);
}

TEST(Score, SmallAndShortRunsAreScoredButNotSummedUp) {
  MeasuredRun small = dense_run(), brief = dense_run(), unknown = dense_run();
  small.ranks[0].peak_bytes = kGiB;  // not above it
  brief.iterations = 2;
  unknown.iterations.reset();
  const std::vector<MeasuredRun> runs = {dense_run(), small, brief, unknown};
  const std::vector<ScoredRank> ranks = score_runs(runs, {});
  for (const ScoredRank& at : ranks) EXPECT_TRUE(at.predicted.has_value()) << at.refused;
  EXPECT_TRUE(ranks[0].in_summary);
  for (std::size_t i = 1; i < ranks.size(); ++i) EXPECT_FALSE(ranks[i].in_summary) << i;
  const AccuracySummary summary = summarize(runs, ranks);
  EXPECT_EQ(summary.peak.count, 1U);
  EXPECT_EQ(summary.runs, 1U);
}

TEST(Score, RefusedRanksHaveAReasonAndNoError) {
  MeasuredRun vision = dense_run({{"img-h", "336"}}), nothing = dense_run(), unmeasured = dense_run();
  nothing.unusable = "no arguments are stored";
  unmeasured.ranks = {{.peak_bytes = 2 * kGiB}};
  const std::vector<MeasuredRun> runs = {dense_run(), vision, nothing, unmeasured};
  const std::vector<ScoredRank> ranks = score_runs(runs, {});
  EXPECT_EQ(ranks[0].refused, "");
  EXPECT_NE(ranks[1].refused.find("img-h"), std::string::npos) << ranks[1].refused;
  EXPECT_EQ(ranks[2].refused, "no arguments are stored");
  EXPECT_EQ(ranks[3].refused, "no measured memory to compare with");
  for (std::size_t i = 1; i < ranks.size(); ++i) EXPECT_FALSE(ranks[i].predicted.has_value());
  const AccuracySummary summary = summarize(runs, ranks);
  EXPECT_EQ(summary.peak.count, 1U);
  EXPECT_EQ(summary.refused, 3U);
  EXPECT_EQ(summary.refused_runs, 3U);
  EXPECT_EQ(summary.runs, 4U);
}

TEST(Score, EveryRankOfARunCountsAndARefusedRunOnce) {
  MeasuredRun npu = dense_run({{"use-flash-attn", ""}});
  npu.hints.platform = {.framework = Framework::mindspeed_llm, .accelerator = Accelerator::ascend, .devices = 8};
  npu.ranks = {{.rank = 0}, {.rank = 3}, {.rank = 7}};
  MeasuredRun refused = npu;
  refused.unusable = "no arguments are stored";
  refused.iterations.reset();
  const std::vector<MeasuredRun> runs = {measured_at(npu, 1, 1), refused};
  const std::vector<ScoredRank> ranks = score_runs(runs, {});
  ASSERT_EQ(ranks.size(), 6U);
  EXPECT_EQ(ranks[1].rank, 3);
  const AccuracySummary summary = summarize(runs, ranks);
  EXPECT_EQ(summary.steady.count, 3U);
  EXPECT_EQ(summary.refused, 3U);
  EXPECT_EQ(summary.refused_runs, 1U);
  EXPECT_EQ(summary.runs, 2U);
}

TEST(Score, ASuiteIsSummedUpAlone) {
  MeasuredRun other = dense_run();
  other.suite = "other";
  const std::vector<MeasuredRun> runs = {measured_at(dense_run(), 1, 1), measured_at(other, 0.5, 0.5)};
  const std::vector<ScoredRank> ranks = score_runs(runs, {});
  EXPECT_NEAR(summarize(runs, ranks, "dense").peak.worst_percent, 0, 1e-9);
  EXPECT_NEAR(summarize(runs, ranks, "other").peak.worst_percent, 100, 1e-9);
  EXPECT_EQ(summarize(runs, ranks, "none").runs, 0U);
}

// One rank of each model is spent on the correction. The others were made with the same correction, so no error is
// left.
TEST(Score, TheFirstRankOfAModelCorrectsItsOthers) {
  const auto made_with = [](MeasuredRun run, const MemoryKnobs& knobs) {
    const TrainingRun training = understood(run);
    const Result<RankMemory> memory = estimate_rank(training, logged_rank(training), knobs);
    run.ranks = {{.steady_bytes = memory.value().steady_bytes, .peak_bytes = memory.value().peak_bytes}};
    return run;
  };
  const MemoryKnobs first{.activation_factor = 1.3, .static_offset_bytes = 200e6};
  const MemoryKnobs second{.static_factor = 0.8, .activation_factor = 0.8};
  const std::vector<MeasuredRun> runs = {
      made_with(dense_run(), first), made_with(dense_run({{"num-layers", "24"}}), second),
      made_with(dense_run({{"micro-batch-size", "8"}}), first),
      made_with(dense_run({{"num-layers", "24"}, {"recompute-activations", ""}}), second)};
  EXPECT_GT(summarize(runs, score_runs(runs, {})).peak.worst_percent, 5);
  const std::vector<ScoredRank> ranks = score_runs(runs, {.calibrate_per_model = true});
  EXPECT_TRUE(ranks[0].calibrates && ranks[1].calibrates);
  EXPECT_FALSE(ranks[2].calibrates || ranks[3].calibrates);
  const AccuracySummary summary = summarize(runs, ranks);
  EXPECT_EQ(summary.peak.count, 2U);
  EXPECT_LT(summary.peak.worst_percent, 0.01);
  EXPECT_LT(summary.steady.worst_percent, 0.01);
}

TEST(Score, TheRivalIsComparedOnTheRanksItPredicts) {
  const std::vector<MeasuredRun> runs = {measured_at(dense_run(), 1, 1)};
  const AccuracySummary without = summarize(runs, score_runs(runs, {}));
  EXPECT_EQ(without.rival_peak.count, 0U);
  const std::vector<ScoredRank> ranks = score_runs(runs, {.rival = true});
  ASSERT_TRUE(ranks[0].rival.has_value());
  const AccuracySummary summary = summarize(runs, ranks);
  EXPECT_EQ(summary.rival_peak.count, 1U);
  EXPECT_NEAR(summary.rival_steady.worst_percent,
              std::abs(ranks[0].rival->steady_bytes / *ranks[0].measured.steady_bytes - 1) * 100, 1e-9);
}

// 12 layers of width 512: 4 h^2 + 2 h of attention and norms, 8 h^2 of feed-forward each; 18 bytes a parameter.
TEST(MegatronFormula, CountsADenseModelAsItsAuthorsDo) {
  const TrainingRun run = understood(dense_run());
  const std::optional<MemoryFigures> figures = megatron_formula(run);
  ASSERT_TRUE(figures.has_value());
  constexpr double kH = 512, kVocabulary = 50304, kTokens = 4096;
  const double parameters = 12 * (12 * kH * kH + 2 * kH) + kVocabulary * kH;
  EXPECT_NEAR(figures->steady_bytes, parameters * 18, 1);
  const double activations =
      kTokens * kH * (18 + 16) * 12 + 8 * kTokens + kTokens * kH + kTokens * kH * 4 * (1 + kVocabulary / kH);
  EXPECT_NEAR(figures->peak_bytes - figures->steady_bytes, activations, 1);
}

// ---- calibration ----------------------------------------------------------------------------------------------------

TEST(FitMemory, GivesBackWhatWasMeasured) {
  const TrainingRun run = understood(dense_run());
  std::mt19937_64 random(17);
  const auto within = [&random](double least, double most) {
    return std::uniform_real_distribution(least, most)(random);
  };
  for (int round = 0; round < 50; ++round) {
    const bool more = round % 2 == 0;
    const MemoryKnobs truth{.static_factor = more ? 1 : within(0.55, 1),
                            .activation_factor = within(0.6, 1.9),
                            .static_offset_bytes = more ? within(0, 1e9) : 0};
    const RankMemory memory = estimate_rank(run, 7, truth).value();
    const MeasuredRank measured{.rank = 7, .steady_bytes = memory.steady_bytes, .peak_bytes = memory.peak_bytes};
    const Result<MemoryCorrection> found = fit_memory(run, measured);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_NEAR(found.value().static_offset_bytes, truth.static_offset_bytes, 1);
    EXPECT_NEAR(found.value().static_factor, truth.static_factor, 1e-9);
    EXPECT_NEAR(found.value().activation_factor.value(), truth.activation_factor, 1e-6);
    EXPECT_EQ(found.value().model, model_text(run));
  }
}

TEST(FitMemory, RefusesAnotherRun) {
  const TrainingRun run = understood(dense_run());
  const double steady = estimate_rank(run, 7).value().steady_bytes;
  for (const double factor : {0.1, 0.49, 2.01, 100.0})
    EXPECT_FALSE(fit_memory(run, MeasuredRank{.rank = 7, .steady_bytes = steady * factor}).ok()) << factor;
  for (const double factor : {0.51, 1.0, 1.99})
    EXPECT_TRUE(fit_memory(run, MeasuredRank{.rank = 7, .steady_bytes = steady * factor}).ok()) << factor;
}

TEST(FitMemory, StaysInRangeWhateverWasMeasured) {
  const TrainingRun run = understood(dense_run());
  const double steady = estimate_rank(run, 7).value().steady_bytes;
  const auto factor_at = [&](double peak) {
    return fit_memory(run, MeasuredRank{.rank = 7, .steady_bytes = steady, .peak_bytes = peak})
        .value()
        .activation_factor.value();
  };
  EXPECT_NEAR(factor_at(1e15), kMostActivationFactor, 1e-6);
  EXPECT_NEAR(factor_at(steady), kLeastActivationFactor, 1e-6);
}

TEST(FitMemory, LeavesWhatNoFactorInRangeExplains) {
  const TrainingRun run = understood(dense_run());
  const RankMemory memory = estimate_rank(run, 7).value();
  const auto left = [&run](const MeasuredRank& measured) {
    return remainder_of(run, measured, fit_memory(run, measured).value()).value();
  };
  const Remainder none = left({.rank = 7, .steady_bytes = memory.steady_bytes, .peak_bytes = memory.peak_bytes * 1.2});
  EXPECT_NEAR(none.steady, 0, 1e-9);
  EXPECT_NEAR(none.peak.value(), 0, 1e-6);
  const Remainder half = left({.rank = 7, .steady_bytes = memory.steady_bytes, .peak_bytes = memory.peak_bytes * 4});
  EXPECT_GT(half.peak.value(), 0.5);
  EXPECT_FALSE(left({.rank = 7, .steady_bytes = memory.steady_bytes}).peak.has_value());
}

TEST(FitMemory, OfSeveralRanksIsTheirMedian) {
  const TrainingRun run = understood(dense_run());
  const double steady = estimate_rank(run, 7).value().steady_bytes;
  std::vector<MeasuredRank> ranks;
  for (const double offset : {9e6, 1e6, 5e6}) ranks.push_back({.rank = 7, .steady_bytes = steady + offset});
  const Result<MemoryCorrection> found = fit_memory(run, ranks);
  EXPECT_NEAR(found.value().static_offset_bytes, 5e6, 1);
  EXPECT_FALSE(found.value().activation_factor.has_value()) << "no peak was measured";
}

TEST(ModelText, TellsModelsApartAndNotLayouts) {
  const std::string own = model_text(understood(dense_run()));
  EXPECT_EQ(own, model_text(understood(dense_run({{"micro-batch-size", "2"}, {"tensor-model-parallel-size", "2"}}))));
  EXPECT_NE(own, model_text(understood(dense_run({{"hidden-size", "1024"}}))));
  EXPECT_NE(own, model_text(understood(dense_run({{"num-experts", "8"}}))));
}

// ---- error band -----------------------------------------------------------------------------------------------------

TEST(ErrorBand, IsThatOfItsClass) {
  EXPECT_EQ(band_of(understood(dense_run())).run_class, RunClass::cuda_dense);
  EXPECT_EQ(band_of(understood(dense_run({{"num-experts", "8"}}))).run_class, RunClass::cuda_experts);
  MeasuredRun npu = dense_run();
  npu.hints.platform = {.framework = Framework::mindspeed_llm, .accelerator = Accelerator::ascend, .devices = 8};
  EXPECT_EQ(band_of(understood(npu)).run_class, RunClass::ascend);
  for (std::size_t i = 0; i < error_bands().size(); ++i)
    EXPECT_EQ(static_cast<std::size_t>(error_bands()[i].run_class), i);
}

TEST(ErrorBand, CountsMeasuredPeaksAboveIt) {
  const double band = 1 + error_bands()[0].percent / 100;
  const std::vector<MeasuredRun> runs = {measured_at(dense_run(), 1, band - 0.001),
                                         measured_at(dense_run(), 1, band + 0.001)};
  const AccuracySummary summary = summarize(runs, score_runs(runs, {}));
  ASSERT_EQ(summary.bands.size(), 1U);
  EXPECT_EQ(summary.bands[0].count, 2U);
  EXPECT_EQ(summary.bands[0].exceeded, 1U);
}

/// A run that is not understood in full cannot pass, so no band is promised for it.
TEST(ErrorBand, IsOfUnderstoodRunsOnly) {
  const std::vector<MeasuredRun> runs = {measured_at(dense_run({{"frobnicate", ""}}), 1, 2)};
  const std::vector<ScoredRank> ranks = score_runs(runs, {});
  EXPECT_TRUE(ranks[0].predicted.has_value());
  EXPECT_EQ(ranks[0].band, nullptr);
  const AccuracySummary summary = summarize(runs, ranks);
  EXPECT_TRUE(summary.bands.empty());
  EXPECT_EQ(summary.peak.count, 1U);
}

TEST(Cautious, NeverPredictsLess) {
  for (const char* const experts : {"0", "8"})
    for (const bool lts : {false, true}) {
      MeasuredRun measured = dense_run({{"num-experts", experts}, {"expert-model-parallel-size", "2"}});
      if (*experts == '0') measured = dense_run();
      measured.hints.platform.lts = lts;
      const TrainingRun run = understood(measured);
      const double plain = estimate_rank(run, 7).value().peak_bytes;
      const double checked = estimate_rank(cautious(run), 7, cautious(MemoryKnobs{})).value().peak_bytes;
      EXPECT_GE(checked, plain);
      // Experts may be fuller than on average, and an attention kernel that is left open may keep its scores.
      EXPECT_EQ(checked > plain, *experts == '8' || lts);
    }
}

// A deterministic run on A100 may keep its attention scores, by the version of a library; one that names its kernel
// not.
TEST(Cautious, TakesTheAttentionThatKeepsMostWhereVersionsDecide) {
  const auto backend = [](Accelerator accelerator, std::vector<std::pair<std::string, std::string>> more) {
    MeasuredRun measured = dense_run(more);
    measured.hints.platform.accelerator = accelerator;
    return cautious(understood(measured)).model.attention.backend;
  };
  const std::pair<std::string, std::string> deterministic = {"deterministic-mode", ""};
  EXPECT_EQ(backend(Accelerator::a100, {deterministic}), AttentionBackend::unfused);
  EXPECT_EQ(backend(Accelerator::a100, {}), AttentionBackend::automatic);
  EXPECT_EQ(backend(Accelerator::h100, {deterministic}), AttentionBackend::automatic);
  EXPECT_EQ(backend(Accelerator::a100, {deterministic, {"attention-backend", "flash"}}), AttentionBackend::flash);
}

/// The compiled loss of containers with A100 was measured with one more fp32 copy of the logits.
TEST(Cautious, CountsOneMoreCopyOfTheLogitsWhereVersionsDecide) {
  const auto copies = [](Accelerator accelerator, bool lts, std::vector<std::pair<std::string, std::string>> more) {
    MeasuredRun measured = dense_run(more);
    measured.hints.platform.accelerator = accelerator;
    measured.hints.platform.lts = lts;
    const TrainingRun run = understood(measured);
    const auto copies_of = [](const TrainingRun& of) {
      const RankMemory memory = estimate_rank(of, 7).value();
      const auto term = std::ranges::find(memory.at_peak, "loss_copies", &Term::name);
      return term == memory.at_peak.end() ? 0 : term->bytes;
    };
    return copies_of(cautious(run)) - copies_of(run);
  };
  const std::pair<std::string, std::string> fused = {"cross-entropy-loss-fusion", ""};
  const double logits = 4.0 * 4 * 1024 * static_cast<double>(understood(dense_run()).model.vocabulary.padded);
  EXPECT_DOUBLE_EQ(copies(Accelerator::a100, false, {fused}), logits);
  EXPECT_DOUBLE_EQ(copies(Accelerator::h100, true, {fused}), logits);
  EXPECT_DOUBLE_EQ(copies(Accelerator::h100, false, {fused}), 0);
  EXPECT_DOUBLE_EQ(copies(Accelerator::a100, false, {fused, {"cross-entropy-fusion-impl", "te"}}), 0);
  EXPECT_DOUBLE_EQ(copies(Accelerator::a100, true, {}), 0);
}

/// The fused rotation keeps more, and every measured run has it.
TEST(Cautious, TakesTheRotationThatKeepsMore) {
  TrainingRun run = understood(dense_run());
  run.model.unfused_rope = true;
  EXPECT_FALSE(cautious(run).model.unfused_rope);
}

TEST(EstimateStages, TakesTheWorstRankOfEveryStage) {
  MeasuredRun npu = dense_run({{"pipeline-model-parallel-size", "2"},
                               {"tensor-model-parallel-size", "2"},
                               {"use-distributed-optimizer", ""},
                               {"use-flash-attn", ""}});
  npu.hints.platform = {.framework = Framework::mindspeed_llm, .accelerator = Accelerator::ascend, .devices = 16};
  const TrainingRun run = understood(npu);
  const Result<std::vector<RankMemory>> stages = estimate_stages(run);
  ASSERT_TRUE(stages.ok()) << stages.error().message;
  ASSERT_EQ(stages.value().size(), 2U);
  std::vector<double> worst(2, 0);
  for (std::int64_t rank = 0; rank < 16; ++rank) {
    const RankMemory memory = estimate_rank(run, rank).value();
    double& at = worst[static_cast<std::size_t>(memory.stage)];
    at = std::max(at, memory.running_peak_bytes);
  }
  for (std::size_t stage = 0; stage < 2; ++stage) {
    EXPECT_EQ(stages.value()[stage].stage, static_cast<std::int64_t>(stage));
    EXPECT_EQ(stages.value()[stage].running_peak_bytes, worst[stage]);
  }
}

}  // namespace
}  // namespace tidemark::estimate
