#include "integrations/ci/report_format.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "integrations/ci/report.h"
#include "integrations/ci/report_markdown.h"
#include "tests/ci/held.h"
#include "tests/support/json_text.h"

namespace tidemark {
namespace {

using budget::Category;
using testing::held;
using testing::holding;
using testing::input_of;
using testing::rank_of;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Three jobs: one over its budget with a remedy, one that passes, one that is not read.
ci::GateResult sample() {
  ci::JobInput over = input_of(holding({}));
  over.holdings.ranks = {
      rank_of(0, {held("layers.moe.permute", Category::activations, 40 * kGiB,
                       {{"models/pangu.yaml", 12, "parallel.micro_batch: 2"}}),
                  held("layers.attention.kv_up", Category::parameters, 20 * kGiB),
                  held("head", Category::parameters, 3 * kGiB), held("loss", Category::temporaries, kGiB)})};
  ci::JobInput fine = input_of(holding({kGiB}));
  fine.job.name = "small";
  ci::GateResult result{.tool_version = "0.1.0",
                        .budget_file = "tidemark-budget.yaml",
                        .jobs = {ci::judge(over), ci::judge(fine),
                                 ci::unreadable({.name = "broken", .file = "b.sh"}, "b.sh:3: no such flag")}};
  result.jobs[0].remedy = budget::Remedy{.clears = true,
                                         .edits = {{.text = "recompute moe.permute on pp0-3",
                                                    .saved_bytes = 5 * kGiB,
                                                    .where = {"models/pangu.yaml", 30, ""}}},
                                         .peak_bytes = 59 * kGiB,
                                         .step_percent = 0.6};
  return result;
}

std::string written(ci::ReportFormat format, const ci::GateResult& result, ci::ReportOptions options = {}) {
  return ci::write_report(format, result, options);
}

TEST(CiReport, TextHasVerdictsFirstThenWhyAndWhatToDo) {
  EXPECT_EQ(written(ci::ReportFormat::text, sample(), {.most_contributors = 2}),
            R"(FAIL pangu rank 0: peak 64.00 GiB exceeds budget 60.00 GiB by 4.00 GiB (+6.7 %)
PASS small rank 0: peak 1.00 GiB is 59.00 GiB below budget 60.00 GiB (-98.3 %)
ERROR broken: b.sh:3: no such flag

pangu: planned: models/small.yaml, policy optimal
held at the peak of rank 0
      bytes    share  count  category     layers  storage                 controlled by
  40.00 GiB   62.5 %      1  activations  -       layers.moe.permute      models/pangu.yaml:12: parallel.micro_batch: 2
  20.00 GiB   31.2 %      1  parameters   -       layers.attention.kv_up
   4.00 GiB    6.2 %      2  -            -       [2 others]
  64.00 GiB  100.0 %      -  -            -       total
by category at the peak of rank 0
      bytes   share  category
  23.00 GiB  35.9 %  parameters
  40.00 GiB  62.5 %  activations
   1.00 GiB   1.6 %  temporaries
what to do
  recompute moe.permute on pp0-3: saves 5.00 GiB (models/pangu.yaml:30)
  with this the highest peak is 59.00 GiB and every limit is kept; step +0.6 % (modelled)

3 jobs: 1 ERROR, 1 FAIL, 1 PASS
)");
}

TEST(CiReport, AJobOfNoBudgetFileBeginsWithItsVerdict) {
  ci::JobInput input = input_of(holding({kGiB}));
  input.job.name.clear();
  input.budget_file.clear();
  EXPECT_EQ(written(ci::ReportFormat::text, {.jobs = {ci::judge(input)}}),
            "PASS rank 0: peak 1.00 GiB is 59.00 GiB below budget 60.00 GiB (-98.3 %)\n");
}

TEST(CiReport, ExplainsEveryJobWhereAsked) {
  EXPECT_EQ(count_of(written(ci::ReportFormat::text, sample()), "held at the peak"), 1U);
  EXPECT_EQ(count_of(written(ci::ReportFormat::text, sample(), {.is_explained = true}), "held at the peak"), 2U);
}

TEST(CiReport, SarifPointsAtTheLineThatControls) {
  const nlohmann::json json = testing::parsed(written(ci::ReportFormat::sarif, sample()));
  const auto& results = json["runs"][0]["results"];
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0]["ruleId"], "device-budget");
  EXPECT_EQ(results[0]["level"], "error");
  EXPECT_EQ(results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "models/pangu.yaml");
  EXPECT_EQ(results[0]["locations"][0]["physicalLocation"]["region"]["startLine"], 12);
  EXPECT_EQ(results[1]["ruleId"], "unreadable-job");
  for (const auto& result : results)
    EXPECT_EQ(json["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"].get<std::size_t>()]["id"],
              result["ruleId"]);
}

// What a remedy changes has its line in the reports that are shown beside the files.
TEST(CiReport, EditsPointAtTheLineToChange) {
  ci::GateResult result = sample();
  result.jobs[0].remedy->edits.push_back({.text = "swap head", .where = {}});
  const nlohmann::json sarif = testing::parsed(written(ci::ReportFormat::sarif, result))["runs"][0]["results"];
  ASSERT_EQ(sarif[0]["relatedLocations"].size(), 1U);
  const nlohmann::json& related = sarif[0]["relatedLocations"][0];
  EXPECT_EQ(related["message"]["text"], "recompute moe.permute on pp0-3: saves 5.00 GiB");
  EXPECT_EQ(related["physicalLocation"]["artifactLocation"]["uri"], "models/pangu.yaml");
  EXPECT_EQ(related["physicalLocation"]["region"]["startLine"], 30);
  EXPECT_FALSE(sarif[1].contains("relatedLocations"));
  const std::string github = written(ci::ReportFormat::github, result);
  EXPECT_EQ(count_of(github, "::notice "), 1U);
  EXPECT_NE(github.find("::notice file=models/pangu.yaml,line=30,title=pangu%3A what to do::recompute moe.permute on "
                        "pp0-3: saves 5.00 GiB\n"),
            std::string::npos)
      << github;
}

TEST(CiReport, AJobOfWhichNoChangeIsLookedForSaysWhy) {
  ci::GateResult result = sample();
  budget::Remedy remedy;
  remedy.is_sought = false;
  remedy.reason = "a run that was measured is not planned anew";
  result.jobs[0].remedy = remedy;
  const std::string text = written(ci::ReportFormat::text, result);
  EXPECT_NE(text.find("what to do\n  a run that was measured is not planned anew\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("no change that was looked at"), std::string::npos) << text;
  EXPECT_NE(written(ci::ReportFormat::html, result).find("<p>What to do</p>"), std::string::npos);
  result.jobs[0].remedy.reset();
  EXPECT_EQ(written(ci::ReportFormat::text, result).find("what to do"), std::string::npos);
}

TEST(CiReport, JUnitHasASuiteAJobAndACaseALimit) {
  const std::string text = written(ci::ReportFormat::junit, sample());
  EXPECT_NE(text.find("<testsuites name=\"tidemark 0.1.0\" tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\""),
            std::string::npos);
  EXPECT_EQ(count_of(text, "<testsuite "), 3U);
  EXPECT_EQ(count_of(text, "<testcase "), 3U);
}

/// `count` jobs over their budgets, as many near to them.
ci::GateResult many(std::size_t count) {
  ci::GateResult result{.tool_version = "0.1.0"};
  for (std::size_t i = 0; i < count; ++i)
    for (const Bytes bytes : {61 * kGiB, 59 * kGiB}) {
      ci::JobInput input = input_of(holding({bytes}));
      input.job.name = fmt::format("job{}", i);
      input.job.near = {.percent = 3};
      result.jobs.push_back(ci::judge(input));
    }
  return result;
}

TEST(CiReport, GitHubHasTenOfEachAndACountOfTheRest) {
  const std::string text = written(ci::ReportFormat::github, many(13));
  EXPECT_EQ(count_of(text, "::error "), 10U);
  EXPECT_EQ(count_of(text, "::warning "), 10U);
  EXPECT_NE(text.find("3 more errors, 3 more warnings and 0 more notices"), std::string::npos);
  EXPECT_EQ(written(ci::ReportFormat::github, many(10)).find(" more "), std::string::npos);
  EXPECT_TRUE(
      text.starts_with("::error file=tidemark-budget.yaml,line=2,title=Memory budget%3A job0::FAIL job0 rank 0: "));
}

TEST(CiReport, NearIsAnErrorWhereStrict) {
  ci::GateResult result = many(1);
  EXPECT_EQ(count_of(written(ci::ReportFormat::github, result), "::error "), 1U);
  EXPECT_EQ(count_of(written(ci::ReportFormat::junit, result), "<failure "), 1U);
  result.is_strict = true;
  EXPECT_EQ(count_of(written(ci::ReportFormat::github, result), "::error "), 2U);
  EXPECT_EQ(count_of(written(ci::ReportFormat::junit, result), "<failure "), 2U);
  EXPECT_EQ(count_of(written(ci::ReportFormat::sarif, result), "\"level\":\"error\""), 2U);
}

TEST(CiReport, MarkdownStaysBelowAMebibyteAndCountsWhatWasCut) {
  ci::GateResult result = many(600);
  for (ci::JobResult& job : result.jobs) job.notices.push_back(std::string(1500, 'x'));
  const std::string text = written(ci::ReportFormat::markdown, result);
  EXPECT_LT(text.size(), std::size_t{1} << 20);
  EXPECT_GT(text.size(), ci::kMostMarkdownBytes / 2);
  EXPECT_TRUE(testing::has_match(text, "[0-9]+ parts were cut here"));
  EXPECT_EQ(written(ci::ReportFormat::markdown, sample()).find("cut here"), std::string::npos);
}

TEST(CiReport, SaysTheSameVerdictInEveryFormat) {
  for (std::size_t i = 0; i < ci::kReportFormatWords.size(); ++i) {
    const std::string text = written(static_cast<ci::ReportFormat>(i), sample());
    EXPECT_NE(text.find("peak 64.00 GiB exceeds budget 60.00 GiB by 4.00 GiB"), std::string::npos)
        << ci::kReportFormatWords[i];
    EXPECT_NE(text.find("no such flag"), std::string::npos) << ci::kReportFormatWords[i];
    EXPECT_TRUE(text.ends_with('\n'));
  }
}

TEST(CiReport, ADiffSaysWhatGrewInEveryFormat) {
  budget::Holdings before = holding({50 * kGiB}), after = holding({56 * kGiB});
  after.ranks[0].storages[0].controls = {{"models/x.yaml", 12, "parallel.micro_batch: 2"}};
  const ci::DiffResult diff = ci::diff_of({.label = "a.json"}, before, {.label = "b.json", .file = "b.json"}, after,
                                          budget::Tolerance{.percent = 2}, "0.1.0");
  for (std::size_t i = 0; i < ci::kReportFormatWords.size(); ++i) {
    const std::string text = ci::write_report(static_cast<ci::ReportFormat>(i), diff, {});
    EXPECT_NE(text.find("peak 56.00 GiB exceeds former peak 50.00 GiB by 6.00 GiB"), std::string::npos)
        << ci::kReportFormatWords[i];
  }
  const std::string text = ci::write_report(ci::ReportFormat::text, diff, {});
  EXPECT_TRUE(testing::has_match(text, "grown +\\+6.00 GiB +\\+12.0 % +50.00 GiB +56.00 GiB +1 -> 1 +layers.mlp.out"));
  EXPECT_TRUE(testing::has_match(text, "total of the compared peaks"));
}

/// A flag that is not given has no place: it is at the first control that has one, else at the job's file.
TEST(CiReport, ADiffIsAtALineOfAFile) {
  const auto place_of = [](std::vector<budget::Control> controls) {
    budget::Holdings before = holding({50 * kGiB}), after = holding({56 * kGiB});
    after.ranks[0].storages[0].controls = std::move(controls);
    const ci::DiffResult diff = ci::diff_of({.label = "a.sh"}, before, {.label = "b.sh", .file = "b.sh"}, after,
                                            budget::Tolerance{.percent = 2}, "0.1.0");
    return ci::write_report(ci::ReportFormat::github, diff, {});
  };
  const budget::Control not_given{"", 0, "--recompute-granularity (not given)"};
  EXPECT_TRUE(place_of({not_given, {"b.sh", 4, "--micro-batch-size 8"}}).starts_with("::error file=b.sh,line=4,"));
  EXPECT_TRUE(place_of({not_given}).starts_with("::error file=b.sh,title="));
}

TEST(CiReport, JsonSaysWhetherAChangeWasLookedFor) {
  ci::GateResult result = sample();
  for (const bool is_sought : {true, false}) {
    result.jobs[0].remedy = budget::Remedy{.is_sought = is_sought, .reason = "none"};
    EXPECT_EQ(testing::parsed(written(ci::ReportFormat::json, result))["jobs"][0]["remedy"]["sought"], is_sought);
  }
}

TEST(CiReport, PredictedStandsBesideMeasured) {
  ci::JobInput input = input_of(holding({50 * kGiB}, budget::Basis::measured));
  input.predicted = holding({49 * kGiB});
  const std::string text = written(ci::ReportFormat::text, {.jobs = {ci::judge(input)}});
  EXPECT_NE(text.find("planned beside measured, rank 0\n"), std::string::npos);
  EXPECT_TRUE(testing::has_match(text, "activations +49.00 GiB +50.00 GiB +-1.00 GiB +-2.0 %"));
}

// An estimate lists one rank a stage, a run all of its own: a rank stands beside the one of its number or beside none.
TEST(CiReport, PredictedRanksStandBesideThoseOfTheirNumber) {
  ci::JobInput input = input_of(holding({kGiB, 20 * kGiB, 50 * kGiB}, budget::Basis::measured));
  input.predicted = holding({99 * kGiB, 21 * kGiB, 98 * kGiB}, budget::Basis::estimated);
  input.predicted->band_percent = 5;
  input.predicted->ranks.erase(input.predicted->ranks.begin());
  input.predicted->ranks[1].rank = 8;
  std::string text = written(ci::ReportFormat::text, {.jobs = {ci::judge(input)}});
  EXPECT_TRUE(testing::has_match(text, "1 +21.00 GiB +20.00 GiB +\\+1.00 GiB +\\+5.0 % +yes\n")) << text;
  EXPECT_NE(text.find("estimated beside measured, rank 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("note: rank 8 estimated, not measured\n"), std::string::npos) << text;
  EXPECT_NE(text.find("note: ranks 0, 2 measured, not estimated\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("98.00 GiB"), std::string::npos) << text;
  input.predicted->ranks[0].rank = 7;
  text = written(ci::ReportFormat::text, {.jobs = {ci::judge(input)}});
  EXPECT_EQ(text.find("beside measured"), std::string::npos) << text;
  EXPECT_NE(text.find("note: ranks 7, 8 estimated, not measured\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace tidemark
