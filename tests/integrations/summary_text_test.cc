#include "integrations/formats/summary_text.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "integrations/formats/decision_table.h"
#include "integrations/formats/estimate_table.h"
#include "integrations/formats/job_text.h"
#include "integrations/formats/rank_words.h"
#include "integrations/formats/unit_text.h"
#include "policies/policies.h"
#include "tests/support/tiny_outcome.h"

namespace tidemark {
namespace {

using testing::tiny_outcome;
using testing::tiny_request;

TEST(UnitText, RangesFoldNeighbours) {
  EXPECT_EQ(formats::ranges_text({}), "");
  EXPECT_EQ(formats::ranges_text({4}), "4");
  EXPECT_EQ(formats::ranges_text({0, 1, 2, 3, 7, 9, 9, 10}), "0-3, 7, 9-10");
}

TEST(RankWords, RangesOrEachByItself) {
  EXPECT_EQ(formats::ranks_text({}), "none");
  EXPECT_EQ(formats::ranks_text({3}), "rank 3");
  EXPECT_EQ(formats::ranks_text({0, 1, 2, 7}), "ranks 0-2, 7");
  EXPECT_EQ(formats::listed_ranks_text({3}), "rank 3");
  EXPECT_EQ(formats::listed_ranks_text({0, 1, 2, 3, 4, 5, 6, 7}), "ranks 0, 1, 2, 3, 4, 5, 6, 7");
  EXPECT_EQ(formats::listed_ranks_text({0, 1, 2, 3, 4, 5, 6, 7, 9}), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 1 more");
}

TEST(UnitText, DurationsTakeTheLargestUnitThatLeavesOne) {
  EXPECT_EQ(formats::duration_text(0), "0 ms");
  EXPECT_EQ(formats::duration_text(640), "640 ns");
  EXPECT_EQ(formats::duration_text(12'340), "12.3 us");
  EXPECT_EQ(formats::duration_text(120'500'000), "120.5 ms");
  EXPECT_EQ(formats::duration_text(-34'510'000'000), "-34.51 s");
  EXPECT_EQ(formats::count_text(717.9e9), "717.90 B");
  EXPECT_EQ(formats::count_text(1.43e6), "1.43 M");
  EXPECT_EQ(formats::count_text(504.5), "504");
}

TEST(UnitText, LoadsAreShortAndNoneIsNo) {
  EXPECT_EQ(formats::any_load_text(32), "32");
  EXPECT_EQ(formats::any_load_text(1), "1");
  EXPECT_EQ(formats::any_load_text(1.5), "1.5");
  EXPECT_EQ(formats::any_load_text(16.0 / 3), "5.33");
  EXPECT_EQ(formats::any_load_text(63.999), "64");
  EXPECT_EQ(formats::any_load_text(65536.25), "65536.25");
  EXPECT_EQ(formats::any_load_text(0), "no");
}

TEST(DecisionTable, HasOneRowPerSavedStorageInTheOrderOfTheLayer) {
  const auto rows = formats::decision_rows(tiny_request(), tiny_outcome());
  std::vector<std::string> names;
  for (const formats::DecisionRow& r : rows) names.push_back(r.storage);
  EXPECT_EQ(names, (std::vector<std::string>{"attention.in", "attention.key", "attention.value"}));
}

TEST(DecisionTable, CountsMicroBatchesAndBytesOfEachAction) {
  const plan::PlanOutcome outcome = tiny_outcome();
  const auto rows = formats::decision_rows(tiny_request(), outcome);
  const formats::DecisionRow& in = rows[0];
  ASSERT_EQ(in.cells.size(), 8U);  // three layers and the head on two ranks
  EXPECT_EQ(in.cells[1].layer, 0);
  EXPECT_EQ(in.cells[1].swapped, 4);
  EXPECT_EQ(in.cells[1].kept, 0);
  EXPECT_EQ(in.cells[2].kept, 4);
  EXPECT_EQ(in.cells[0].block, "head");
  // One launch and the bandwidth of 4096 bytes at 1 TB/s each way, for four micro-batches.
  EXPECT_EQ(in.cells[1].added_ns, 4 * 2 * (100 + 4));
  // At the peak two micro-batches are in flight, and both hold their layer-0 input.
  EXPECT_EQ(in.cells[1].freed_at_peak_bytes, 2 * 4096);
  EXPECT_EQ(in.recipe, "");
  EXPECT_TRUE(in.decided());
}

TEST(DecisionTable, SharesARecipeBetweenWhatComesBackTogether) {
  const auto rows = formats::decision_rows(tiny_request(), tiny_outcome());
  const formats::DecisionRow &key = rows[1], &value = rows[2];
  EXPECT_EQ(key.recipe, "key_value");
  EXPECT_EQ(key.cells[1].recomputed, 4);
  // Three steps of 1000 ns a run, four runs a rank, two ranks; key is twice as large as value.
  EXPECT_EQ(key.added_ns() + value.added_ns(), 3000 * 4 * 2);
  EXPECT_EQ(key.added_ns(), 2 * value.added_ns());
}

TEST(DecisionTable, TimeScaleStretchesRecipesOnly) {
  plan::PlanRequest request = tiny_request();
  const plan::PlanOutcome outcome = tiny_outcome();
  const auto before = formats::decision_rows(request, outcome);
  request.time_scale = 3;
  const auto after = formats::decision_rows(request, outcome);
  EXPECT_EQ(after[0].added_ns(), before[0].added_ns());
  EXPECT_EQ(after[1].added_ns(), 3 * before[1].added_ns());
}

TEST(DecisionTable, ExceptionsCountForTheirMicroBatch) {
  plan::PlanOutcome outcome = tiny_outcome(1);
  outcome.ranks[0].decisions.rows[0].exceptions = {{.micro_batch = 2, .action = Action::keep}};
  const formats::DecisionRow in = formats::decision_rows(tiny_request(), outcome)[0];
  EXPECT_EQ(in.cells[1].swapped, 3);
  EXPECT_EQ(in.cells[1].kept, 1);
}

TEST(PlanSummary, SaysTheVerdictFirst) {
  const std::string text = formats::plan_summary(tiny_request(), tiny_outcome());
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "FITS  2 of 2 ranks fit 1.00 MiB; the tightest is rank 0 with 908.34 KiB to spare");
}

TEST(PlanSummary, CountsParametersAsPublishedAndWithoutTheInputEmbedding) {
  plan::PlanOutcome outcome = tiny_outcome();
  EXPECT_NE(formats::plan_summary(tiny_request(), outcome)
                .find("\n8.00 B parameters; without the input embedding 7.50 B, of which 1.25 B active per token\n"),
            std::string::npos);
  outcome.parameters.total_both = outcome.parameters.total;
  EXPECT_NE(formats::plan_summary(tiny_request(), outcome).find("\n7.50 B parameters, 1.25 B active per token\n"),
            std::string::npos);
}

TEST(PlanSummary, NamesRankPeakExcessOpAndTheBudgetThatWouldDo) {
  plan::PlanOutcome outcome = tiny_outcome();
  plan::RankFigures& f = outcome.ranks[1].figures;
  f.peak_bytes = f.budget_bytes + 512 * kKiB;
  f.fits = false;
  f.reason = "the optimizer step alone holds 1.50 MiB";
  f.smallest_budget_bytes = 2 * kMiB;
  const std::string text = formats::plan_summary(tiny_request(), outcome);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "OVER BUDGET  1 of 2 ranks do not fit 1.00 MiB; rank 1: peak 1.50 MiB exceeds its budget by 512.00 KiB "
            "(+50.0 %) at head.loss of micro-batch 1");
  EXPECT_NE(
      text.find("rank 1: the optimizer step alone holds 1.50 MiB; smallest budget that this policy meets: 2.00 MiB"),
      std::string::npos);
}

/// The first rank listed fits and is the tighter one; the other has no room in host memory.
TEST(PlanSummary, NamesTheRankThatIsShortOfHostMemoryAndTheHostBudgetThatWouldDo) {
  plan::PlanOutcome outcome = tiny_outcome();
  outcome.ranks[0].figures.peak_bytes = outcome.ranks[0].figures.budget_bytes;
  plan::RankFigures& f = outcome.ranks[1].figures;
  f.peak_bytes = f.budget_bytes - kKiB;
  f.fits = false;
  f.reason = "pinned host memory: needs 2.00 MiB of 1.00 MiB";
  f.smallest_host_budget_bytes = 2 * kMiB + 1;
  const std::string text = formats::plan_summary(tiny_request(), outcome);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "OVER BUDGET  1 of 2 ranks do not fit 1.00 MiB; rank 1: pinned host memory: needs 2.00 MiB of 1.00 MiB");
  EXPECT_NE(text.find("of 1.00 MiB; known to do with this budget: --host-budget '2.01 MiB'\n"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("smallest budget"), std::string::npos);
}

TEST(PlanSummary, TellsDecisionsInWords) {
  const std::string text = formats::plan_summary(tiny_request(), tiny_outcome());
  EXPECT_NE(text.find("attention.in: swap in layer 0 on ranks 0-1 (chunk 0)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("attention.key: recompute in layer 1 on ranks 0-1 (chunk 0) by key_value\n"), std::string::npos);
  EXPECT_NE(text.find("(modelled)"), std::string::npos);
  EXPECT_NE(text.find("(+1.55 %)"), std::string::npos);
}

TEST(PlanSummary, TellsPartOfTheMicroBatchesApart) {
  plan::PlanOutcome outcome = tiny_outcome(1);
  outcome.ranks[0].decisions.rows[0].exceptions = {{.micro_batch = 2, .action = Action::keep}};
  const std::string text = formats::plan_summary(tiny_request(), outcome);
  EXPECT_NE(text.find("attention.in: swap for 3 of 4 micro-batches in layer 0 on rank 0 (chunk 0)\n"),
            std::string::npos)
      << text;
}

TEST(PlanSummary, ListsAttemptsOnlyWhereThereWereSeveral) {
  plan::PlanOutcome outcome = tiny_outcome();
  EXPECT_NE(formats::plan_summary(tiny_request(), outcome).find("start_order"), std::string::npos);
  for (plan::RankPlan& rank : outcome.ranks) rank.attempts.resize(1);
  EXPECT_EQ(formats::plan_summary(tiny_request(), outcome).find("Attempts"), std::string::npos);
}

TEST(PlanSummary, NamesTheRulesOfRanksThatFitWhereTheyAreNotThePolicys) {
  plan::PlanRequest request = tiny_request();
  request.policy = policies::find_policy("optimal");
  plan::PlanOutcome outcome = tiny_outcome();
  const auto text = [&] { return formats::plan_summary(request, outcome); };
  for (plan::RankPlan& rank : outcome.ranks) {
    rank.figures.rule = request.policy->name;
    rank.figures.fits = true;
  }
  EXPECT_EQ(text().find("Not by the policy's own search"), std::string::npos);
  outcome.ranks[0].figures.rule = "some-rule";
  EXPECT_NE(text().find("Not by the policy's own search"), std::string::npos);
  EXPECT_NE(text().find("\n  some-rule on rank 0\n"), std::string::npos) << text();
  outcome.ranks[0].figures.fits = false;
  EXPECT_EQ(text().find("some-rule"), std::string::npos);
}

TEST(PlanSummary, OfKeepAllSaysThatEverythingIsKept) {
  plan::PlanOutcome outcome = tiny_outcome();
  for (plan::RankPlan& rank : outcome.ranks) rank.decisions.rows.clear();
  EXPECT_NE(formats::plan_summary(tiny_request(), outcome).find("everything is kept"), std::string::npos);
}

TEST(Estimate, CategoriesAddUpToThePeak) {
  const plan::PlanRequest request = tiny_request();
  for (const formats::RankEstimate& e : formats::estimate_ranks(request, tiny_outcome())) {
    Bytes sum = e.unused_bytes + e.reserve.total();
    for (const Bytes bytes : e.bytes) sum += bytes;
    EXPECT_EQ(sum, e.peak_bytes);
    EXPECT_EQ(e.unused_bytes, 14 * kKiB);  // the fixture's figures say what is held with everything kept
    EXPECT_EQ(e.bytes[static_cast<std::size_t>(StorageRole::optimizer_state)], 4 * 8192);
    EXPECT_EQ(e.passes_in_flight, 2);
    ASSERT_FALSE(e.contributors.empty());
    EXPECT_EQ(e.contributors[0].name, "attention.in");
    EXPECT_EQ(e.contributors[0].count, 2);
  }
}

TEST(EstimateSummary, ShowsCategoriesContributorsAndTheirCounts) {
  const std::string text = formats::estimate_summary(tiny_request(), tiny_outcome(), 3);
  for (const char* word : {"parameters", "optimizer", "in flight", "collectives", "head.loss of micro-batch 1",
                           "attention.in", "each", "4.00 KiB"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word;
  }
  std::istringstream lines(text);
  std::string line;
  int contributors = 0;
  while (std::getline(lines, line)) contributors += line.find("attention.") != std::string::npos ? 1 : 0;
  EXPECT_EQ(contributors, 2 * 3);
}

}  // namespace
}  // namespace tidemark
