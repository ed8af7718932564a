#include "integrations/formats/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "integrations/formats/html_text.h"

namespace tidemark::formats {
namespace {

constexpr double kWidth = 1000, kHeight = 200, kLeft = 70, kRight = 20, kTop = 12, kBottom = 26;
constexpr int kMarks = 6;
constexpr std::size_t kFewPlaces = 60;  ///< each shown as a point besides

template <class... Args>
void add(std::string& page, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(page), format, std::forward<Args>(args)...);
}

/// From numbers to places in the picture.
struct Scale {
  double from = 0, to = 1, begin = 0, end = 0;
  [[nodiscard]] double at(double value) const { return begin + (value - from) / (to - from) * (end - begin); }
};

/// Of all values and the limit; something where there is none.
std::pair<double, double> range_of(const LineChart& chart) {
  double low = INFINITY, high = -INFINITY;
  const auto see = [&](double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const ChartLine& line : chart.lines)
    for (const double value : line.values) see(value);
  if (chart.limit) see(chart.limit->values.front());
  if (low > high) return {0, 1};
  return {low, high};
}

void add_axes(std::string& svg, const LineChart& chart, const std::vector<double>& marks, const Scale& x,
              const Scale& y) {
  for (const double mark : marks) {
    add(svg, "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>", x.begin, x.end,
        y.at(mark));
    add(svg, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}</text>", x.begin - 8, y.at(mark) + 4, mark);
  }
  const std::size_t last = chart.places.size() - 1;
  for (const std::size_t i : {std::size_t{0}, last / 2, last}) {
    add(svg, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
        x.at(static_cast<double>(chart.places[i])), kHeight - 8, chart.places[i]);
    if (last == 0) break;
  }
}

/// Strokes between neighbours that are numbers.
void add_line(std::string& svg, const LineChart& chart, std::size_t number, const Scale& x, const Scale& y) {
  const ChartLine& line = chart.lines[number];
  const bool few = chart.places.size() <= kFewPlaces;
  std::string path, points;
  bool draws = false;
  for (std::size_t i = 0; i < chart.places.size(); ++i) {
    const double value = line.values[i];
    if (!std::isfinite(value)) {
      draws = false;
      continue;
    }
    const double px = x.at(static_cast<double>(chart.places[i])), py = y.at(value);
    add(path, "{}{:.1f} {:.1f}", draws ? "L" : "M", px, py);
    draws = true;
    if (few)
      add(points, "<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"><title>{}: {:.6g}</title></circle>",
          number, px, py, chart.places[i], value);
  }
  add(svg, "<path d=\"{}\" fill=\"none\" stroke=\"var(--c{})\" stroke-width=\"1.6\"/>{}", path, number, points);
}

}  // namespace

std::vector<double> axis_marks(double low, double high, int most) {
  if (low == high) {
    const double beside = std::abs(low) * 0.1;
    low -= beside;
    high += low == 0 ? 1 : beside;
  }
  const double least = (high - low) / (most - 1);
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (double step = power;; step *= 10)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double first = std::floor(low / (step * factor)), last = std::ceil(high / (step * factor));
      if (last - first + 1 > most) continue;
      std::vector<double> marks;
      for (double i = first; i <= last; ++i) marks.push_back(i * step * factor);
      return marks;
    }
}

std::string chart_html(const LineChart& chart) {
  std::string html = fmt::format("<div class=\"chart\"><b>{}</b>, {}\n<div class=\"legend\">", html_text(chart.title),
                                 html_text(chart.unit));
  for (std::size_t i = 0; i < chart.lines.size(); ++i)
    add(html, "<span><i class=\"f{0}\" style=\"background:var(--c{0})\"></i>{1}</span>", i,
        html_text(chart.lines[i].name));
  if (chart.limit) add(html, "<span><i style=\"background:var(--budget)\"></i>{}</span>", html_text(chart.limit->name));
  html += "</div>\n";
  if (chart.places.empty()) return html + "<p class=\"soft\">No step.</p></div>\n";
  const auto [low, high] = range_of(chart);
  const std::vector<double> marks = axis_marks(low, high, kMarks);
  const auto first = static_cast<double>(chart.places.front()), last = static_cast<double>(chart.places.back());
  const Scale x{.from = first, .to = std::max(last, first + 1), .begin = kLeft, .end = kWidth - kRight};
  const Scale y{.from = marks.front(), .to = marks.back(), .begin = kHeight - kBottom, .end = kTop};
  add(html, "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">", kWidth, kHeight, html_text(chart.title));
  add_axes(html, chart, marks, x, y);
  if (chart.limit)
    add(html, "<line class=\"budget\" x1=\"{0:.1f}\" x2=\"{1:.1f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>", x.begin, x.end,
        y.at(chart.limit->values.front()));
  for (std::size_t i = 0; i < chart.lines.size(); ++i) add_line(html, chart, i, x, y);
  return html + "</svg></div>\n";
}

}  // namespace tidemark::formats
