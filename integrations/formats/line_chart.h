#pragma once
// A chart of lines over whole numbers, such as steps, as SVG that needs no script.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tidemark::formats {

struct ChartLine {
  std::string name;
  std::vector<double> values;  ///< one for each place on the axis below; no number: nothing is drawn
};

struct LineChart {
  std::string title;
  std::string unit;  ///< of the values
  std::vector<std::int64_t> places;
  std::vector<ChartLine> lines;  ///< at most six
  std::optional<ChartLine> limit;
};

/// A figure with title, legend, axes and lines, colours by the report's style (report_page.h). Values are finite or no
/// number. Deterministic. REQUIRES: every line has as many values as there are places, `limit` one.
[[nodiscard]] std::string chart_html(const LineChart& chart);

/// Up to `most` round numbers that span [low, high], ascending, the first at most low and the last at least high: axis
/// marks. REQUIRES: low <= high, both finite, most >= 3.
[[nodiscard]] std::vector<double> axis_marks(double low, double high, int most);

}  // namespace tidemark::formats
