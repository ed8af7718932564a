// Axis marks that hold what they are for, and charts that are whole pictures.
#include "integrations/formats/line_chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <string_view>

namespace tidemark::formats {
namespace {

std::int64_t count_of(std::string_view text, std::string_view part) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(AxisMarks, SpanTheRangeInRoundSteps) {
  std::mt19937 random(7);
  const auto draw = [&] {
    const double size = std::pow(10.0, static_cast<double>(random() % 30) - 15);
    return (static_cast<double>(random() % 2001) - 1000) * size;
  };
  for (int i = 0; i < 20'000; ++i) {
    const double a = draw(), b = i % 10 == 0 ? a : draw(), low = std::min(a, b), high = std::max(a, b);
    const int most = 3 + static_cast<int>(random() % 8);
    const std::vector<double> marks = axis_marks(low, high, most);
    ASSERT_GE(marks.size(), 2U) << low << " to " << high;
    ASSERT_LE(std::ssize(marks), most) << low << " to " << high;
    const double step = marks[1] - marks[0], close = 1e-9 * std::max(std::abs(low), std::abs(high));
    EXPECT_LE(marks.front(), low + close);
    EXPECT_GE(marks.back(), high - close);
    const double digit = step / std::pow(10.0, std::floor(std::log10(step) + 1e-9));
    EXPECT_TRUE(std::abs(digit - 1) < 1e-6 || std::abs(digit - 2) < 1e-6 || std::abs(digit - 5) < 1e-6)
        << low << " to " << high << ": steps of " << step;
  }
  EXPECT_EQ(axis_marks(0, 0, 6).front(), 0) << "what is never below 0 has no axis below it";
}

TEST(LineChart, EveryValueIsInThePictureAndGapsAreLeftOut) {
  const std::string html = chart_html({.title = "Load & time",
                                       .unit = "rows < mean",
                                       .places = {3, 4, 5, 9},
                                       .lines = {{.name = "a<b", .values = {1, NAN, 2, 2.5}}},
                                       .limit = ChartLine{.name = "planned", .values = {2}}});
  EXPECT_NE(html.find("Load &amp; time"), std::string::npos);
  EXPECT_NE(html.find("rows &lt; mean"), std::string::npos);
  EXPECT_NE(html.find("a&lt;b"), std::string::npos);
  EXPECT_EQ(count_of(html, "<circle"), 3) << html;
  EXPECT_EQ(count_of(html, "class=\"budget\""), 1);
  const std::size_t path = html.find("<path d=\"") + 9;
  const std::string drawn = html.substr(path, html.find('"', path) - path);
  EXPECT_EQ(count_of(drawn, "M"), 2) << "in two parts: " << drawn;
  EXPECT_EQ(count_of(drawn, "L"), 1) << drawn;
  EXPECT_EQ(drawn.find("nan"), std::string::npos);
  EXPECT_EQ(count_of(html, "<div"), count_of(html, "</div>"));
}

TEST(LineChart, NothingToShowIsSaid) {
  EXPECT_NE(chart_html({.title = "t", .unit = "u"}).find("No step."), std::string::npos);
  const std::string refused = chart_html({.title = "t", .unit = "u", .places = {1}, .lines = {{"x", {NAN}}}});
  EXPECT_EQ(count_of(refused, "<circle"), 0);
  EXPECT_EQ(refused.find("nan"), std::string::npos) << refused;
}

/// Many places are lines without points.
TEST(LineChart, ManyPlacesHaveNoPoints) {
  LineChart chart{.title = "t", .unit = "u", .lines = {{.name = "x"}}};
  for (int i = 0; i < 500; ++i) {
    chart.places.push_back(i);
    chart.lines[0].values.push_back(i % 7);
  }
  EXPECT_EQ(count_of(chart_html(chart), "<circle"), 0);
}

}  // namespace
}  // namespace tidemark::formats
