// Whatever names and reasons hold, every format holds its form: what a few lines can tell here; parsers of others are
// asked by validate_formats.py.

#include <gtest/gtest.h>

#include <string>

#include "integrations/ci/report_format.h"
#include "integrations/ci/safe_text.h"
#include "integrations/formats/shown.h"
#include "tests/ci/random_results.h"
#include "tests/support/json_text.h"

namespace tidemark {
namespace {

constexpr std::uint32_t kRounds = 60;

template <class Check>
void each_result(ci::ReportFormat format, Check check) {
  for (std::uint32_t seed = 1; seed <= kRounds; ++seed) {
    testing::RandomResults random(seed);
    SCOPED_TRACE(seed);
    const ci::ReportOptions options{.is_explained = seed % 2 == 0, .most_contributors = seed % 7};
    check(ci::write_report(format, random.gate(), options));
    check(ci::write_report(format, random.diff(), options));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(CiReportProperty, EveryFormatIsUtf8AndTheSameTwice) {
  for (std::size_t i = 0; i < ci::kReportFormatWords.size(); ++i) {
    const auto format = static_cast<ci::ReportFormat>(i);
    each_result(format, [](const std::string& text) {
      EXPECT_EQ(ci::with_replacements(text), text);
      EXPECT_TRUE(text.ends_with('\n'));
    });
    EXPECT_EQ(ci::write_report(format, testing::RandomResults(3).gate(), {}),
              ci::write_report(format, testing::RandomResults(3).gate(), {}));
  }
}

TEST(CiReportProperty, JsonAndSarifAreJson) {
  for (const auto format : {ci::ReportFormat::json, ci::ReportFormat::sarif})
    each_result(format, [](const std::string& text) { EXPECT_TRUE(nlohmann::json::accept(text)) << text; });
}

TEST(CiReportProperty, TextHasNoControlsButEndsOfLines) {
  for (const auto format : {ci::ReportFormat::text, ci::ReportFormat::github})
    each_result(format, [](const std::string& text) {
      for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << text;
    });
}

TEST(CiReportProperty, NothingTurnsTheTextThatIsShown) {
  for (std::size_t i = 0; i < ci::kReportFormatWords.size(); ++i) {
    const auto format = static_cast<ci::ReportFormat>(i);
    if (format == ci::ReportFormat::json) continue;
    each_result(format, [](const std::string& text) { EXPECT_EQ(formats::without_turns(text), text); });
  }
}

/// For programs, which compare them with those that they know.
TEST(CiReportProperty, JsonHasNamesAsTheyAre) {
  bool has_turns = false;
  each_result(ci::ReportFormat::json,
              [&](const std::string& text) { has_turns = has_turns || formats::without_turns(text) != text; });
  EXPECT_TRUE(has_turns);
}

TEST(CiReportProperty, CommandsOfGitHubAreOursOnly) {
  each_result(ci::ReportFormat::github, [](const std::string& text) {
    std::size_t commands = 0, begin = 0;
    for (std::size_t end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin)) {
      const std::string line = text.substr(begin, end - begin);
      if (!line.starts_with("::")) continue;
      ++commands;
      EXPECT_TRUE(testing::has_match(line, "^::(error|warning|notice) (file=[^:,]*,(line=[0-9]+,)?)?title=[^:,]*::"))
          << line;
    }
    EXPECT_LE(commands, 30U);
  });
}

}  // namespace
}  // namespace tidemark
