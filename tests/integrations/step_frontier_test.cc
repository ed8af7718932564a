// The frontier of a step as text: a line a schedule, with a bar, and a selection that says it is one.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "integrations/formats/captured_report.h"
#include "tests/support/captured_steps.h"

namespace tidemark {
namespace {

/// From the heading of the frontier on.
std::string text_of(std::int64_t points) {
  graph_build::CapturedGraphBuilder builder({.unit = GivenCosts::Unit::one});
  builder.add({.bytes = 1});
  builder.add({.cost = 100, .writes = {0}});
  plan::PlanRequest request = testing::captured_request(std::move(builder).build(), kMiB);
  request.step->frontier = true;
  plan::PlanOutcome outcome = plan::plan_step(request).value();
  auto& frontier = outcome.ranks.front().frontier;
  frontier.clear();
  for (std::int64_t i = 0; i < points; ++i) frontier.push_back({.peak_bytes = 10 + i, .added_cost = points - 1 - i});
  const std::string text = formats::captured_text(request, outcome);
  return text.substr(std::min(text.find("What memory buys"), text.size()));
}

TEST(StepFrontier, BarsAreLongestWhereMostIsAdded) {
  const std::string text = text_of(3);
  EXPECT_TRUE(
      text.starts_with("What memory buys (3 schedules found; bytes live, before addresses; bars: added cost)\n"))
      << text;
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
