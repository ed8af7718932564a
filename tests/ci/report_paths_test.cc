#include "integrations/ci/report_paths.h"

#include <gtest/gtest.h>

#include <string>

#include "integrations/ci/report_format.h"
#include "tests/ci/held.h"
#include "tests/support/json_text.h"

namespace tidemark {
namespace {

using budget::Category;
using testing::held;
using testing::holding;
using testing::input_of;
using testing::rank_of;

const ci::ReportPaths kInFolder{.working = "/src/repo/ci", .root = "/src/repo"};
const ci::ReportPaths kAtRoot{.working = "/src/repo", .root = "/src/repo"};

TEST(CiReportPaths, BeginAtTheRootOfTheRepository) {
  EXPECT_EQ(ci::report_path(kInFolder, "../jobs/lm/lm.yaml"), "jobs/lm/lm.yaml");
  EXPECT_EQ(ci::report_path(kAtRoot, "ci/../jobs/lm/lm.yaml"), "jobs/lm/lm.yaml");
  EXPECT_EQ(ci::report_path(kInFolder, "tidemark-budget.yaml"), "ci/tidemark-budget.yaml");
  EXPECT_EQ(ci::report_path(kInFolder, "/src/repo/jobs/x.sh"), "jobs/x.sh");
  EXPECT_EQ(ci::report_path(kAtRoot, "./a/./x.sh"), "a/x.sh");
}

TEST(CiReportPaths, OutsideOfItAreKept) {
  EXPECT_EQ(ci::report_path(kAtRoot, "../other/./x.sh"), "../other/x.sh");
  EXPECT_EQ(ci::report_path(kInFolder, "/src/repository/x.sh"), "/src/repository/x.sh");
  EXPECT_EQ(ci::report_path(kInFolder, ""), "");
  EXPECT_EQ(ci::report_path({}, "a/../x.sh"), "a/../x.sh");
}

ci::GateResult sample() {
  ci::JobInput input = input_of(holding({}));
  input.holdings.ranks = {
      rank_of(0, {held("out", Category::activations, 61 * kGiB, {{"../jobs/lm.yaml", 12, "model.hidden: 8"}})})};
  ci::GateResult result{.jobs = {ci::judge(input), ci::unreadable({.name = "broken"}, "no such file")}};
  result.jobs[0].remedy = budget::Remedy{
      .clears = true, .edits = {{.text = "model.hidden: 4", .where = {"../jobs/lm.yaml", 12, ""}}}, .peak_bytes = kGiB};
  result.jobs[1].where = {"tidemark-budget.yaml", 4, ""};
  return result;
}

TEST(CiReportPaths, AreThoseOfFormatsShownBesideTheCode) {
  const ci::ReportOptions options{.paths = kInFolder};
  const nlohmann::json sarif = testing::parsed(ci::write_report(ci::ReportFormat::sarif, sample(), options));
  const auto& results = sarif["runs"][0]["results"];
  EXPECT_EQ(results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "jobs/lm.yaml");
  EXPECT_EQ(results[1]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "ci/tidemark-budget.yaml");
  for (const ci::ReportFormat format : {ci::ReportFormat::sarif, ci::ReportFormat::github, ci::ReportFormat::junit,
                                        ci::ReportFormat::markdown, ci::ReportFormat::html})
    EXPECT_EQ(ci::write_report(format, sample(), options).find("../jobs"), std::string::npos) << ci::word_of(format);
  for (const ci::ReportFormat format : {ci::ReportFormat::text, ci::ReportFormat::json})
    EXPECT_NE(ci::write_report(format, sample(), options).find("../jobs/lm.yaml"), std::string::npos);
}

TEST(CiReportPaths, OfADiffAsWell) {
  budget::Holdings after = holding({56 * kGiB});
  after.ranks[0].storages[0].controls = {{"../x.yaml", 12, "parallel.micro_batch: 2"}};
  const ci::DiffResult diff = ci::diff_of({.label = "a"}, holding({50 * kGiB}), {.label = "b", .file = "../x.yaml"},
                                          after, budget::Tolerance{.percent = 2}, "0.1.0");
  EXPECT_TRUE(ci::write_report(ci::ReportFormat::github, diff, {.paths = kInFolder})
                  .starts_with("::error file=x.yaml,line=12,"));
}

}  // namespace
}  // namespace tidemark
