// The frontier of a step as text: a line a schedule, with a bar, and a selection that says it is one.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "integrations/formats/step_plan_report.h"

namespace tidemark {
namespace {

std::string text_of(std::int64_t points) {
  const OpList list{.ops = {{.cost = 100}}};
  StepPlanReport report{.file = "f", .list = &list};
  for (std::int64_t i = 0; i < points; ++i)
    report.frontier.push_back({.peak_bytes = 10 + i, .added_cost = points - 1 - i});
  return step_plan_text(report);
}

TEST(StepFrontier, BarsAreLongestWhereMostIsAdded) {
  const std::string text = text_of(3);
  EXPECT_NE(text.find("What memory buys (3 schedules found; bars: added cost)"), std::string::npos) << text;
  EXPECT_NE(text.find("10 B      2    +2.0000 %  " + std::string(40, '#') + "\n"), std::string::npos) << text;
  EXPECT_NE(text.find("11 B      1    +1.0000 %  " + std::string(20, '#') + "\n"), std::string::npos) << text;
  EXPECT_NE(text.find("12 B      0    +0.0000 %\n"), std::string::npos) << text;
  EXPECT_NE(text_of(1).find("(1 schedule found;"), std::string::npos);
}

TEST(StepFrontier, ASelectionSaysSoAndKeepsBothEnds) {
  const std::string text = text_of(100);
  EXPECT_NE(text.find("24 of 100 schedules found"), std::string::npos) << text;
  EXPECT_EQ(std::ranges::count(text, '%'), 24);
  EXPECT_NE(text.find(" 10 B  "), std::string::npos);
  EXPECT_NE(text.find("109 B  "), std::string::npos);
}

}  // namespace
}  // namespace tidemark
