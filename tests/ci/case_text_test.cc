#include "integrations/ci/case_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "integrations/ci/report_format.h"
#include "tests/ci/held.h"
#include "tests/support/json_text.h"

namespace tidemark {
namespace {

using testing::holding;
using testing::input_of;

/// A job over its budget with a remedy of two edits.
ci::GateResult failed() {
  ci::GateResult result{.jobs = {ci::judge(input_of(holding({64 * kGiB})))}};
  result.jobs[0].remedy = budget::Remedy{
      .clears = true, .edits = {{.text = "--first-edit"}, {.text = "--second-edit"}}, .peak_bytes = 50 * kGiB};
  return result;
}

std::string statement(const std::string& name, const std::string& line) {
  const ci::ReportCase found{.line = line};
  return std::string(ci::statement_of({.name = name}, found));
}

TEST(CiCaseText, IsWithoutItsVerdictAndItsJob) {
  EXPECT_EQ(statement("lm", "FAIL lm rank 0 (pp0): peak 1 GiB"), "rank 0 (pp0): peak 1 GiB");
  EXPECT_EQ(statement("lm", "NEAR lm: the baseline is planned"), "the baseline is planned");
  EXPECT_EQ(statement("a.sh", "PASS rank 0: peak"), "rank 0: peak");
  EXPECT_EQ(statement("a.sh", "NEAR: why"), "why");
  EXPECT_EQ(statement("a -> b", "DIFF a -> b rank 1: peak"), "rank 1: peak");
  EXPECT_EQ(statement("lm", "FAILURE of lm"), "FAILURE of lm");
}

TEST(CiCaseText, MarkdownAndHtmlSayAVerdictOnce) {
  const std::string markdown = ci::write_report(ci::ReportFormat::markdown, failed(), {});
  EXPECT_NE(markdown.find("| **FAIL** | pangu | rank 0: peak 64.00 GiB exceeds"), std::string::npos) << markdown;
  const std::string html = ci::write_report(ci::ReportFormat::html, failed(), {});
  EXPECT_NE(html.find("FAIL</span> rank 0: peak 64.00 GiB exceeds"), std::string::npos) << html;
}

TEST(CiCaseText, AFailureOfJUnitSaysWhyAndWhatToDo) {
  const std::string text = ci::write_report(ci::ReportFormat::junit, failed(), {});
  const std::size_t begin = text.find("<failure "), end = text.find("</failure>");
  ASSERT_NE(end, std::string::npos);
  const std::string body = text.substr(begin, end - begin);
  EXPECT_NE(body.find("held at the peak of rank 0"), std::string::npos) << body;
  EXPECT_NE(body.find("--second-edit"), std::string::npos) << body;
}

TEST(CiCaseText, AResultOfSarifSaysWhatToDo) {
  const nlohmann::json json = testing::parsed(ci::write_report(ci::ReportFormat::sarif, failed(), {}));
  const auto message = json["runs"][0]["results"][0]["message"]["text"].get<std::string>();
  EXPECT_TRUE(message.starts_with("FAIL pangu rank 0: peak 64.00 GiB exceeds")) << message;
  EXPECT_NE(message.find("\n--first-edit\n--second-edit\nwith this the highest peak is 50.00 GiB"), std::string::npos)
      << message;
}

TEST(CiCaseText, ARemedyIsWholeHoweverFewRowsAreListed) {
  const std::string text = ci::write_report(ci::ReportFormat::text, failed(), {.most_contributors = 1});
  EXPECT_NE(text.find("--first-edit"), std::string::npos) << text;
  EXPECT_NE(text.find("--second-edit"), std::string::npos) << text;
}

}  // namespace
}  // namespace tidemark
