#include "integrations/formats/frontier_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;

/// Of all ranks of a point: what the rank that adds most adds, and what the ranks move together.
struct Line {
  std::ptrdiff_t fitting = 0;
  std::int64_t added_ns = 0, recompute_ns = 0;
  Bytes swapped_bytes = 0;
};

Line line_of(const plan::BudgetPoint& point) {
  Line line;
  for (const plan::RankFigures& rank : point.ranks) {
    line.fitting += rank.fits ? 1 : 0;
    if (rank.added_ns > line.added_ns) line.recompute_ns = rank.recompute_ns;
    line.added_ns = std::max(line.added_ns, rank.added_ns);
    line.swapped_bytes += rank.swapped_bytes_per_step;
  }
  return line;
}

/// Of the step above everything kept; what does not fit has none.
std::int64_t above_ns(const plan::BudgetPoint& point) {
  return point.step.step_ns - point.step.keep_all_step_ns;
}

std::int64_t most_above_ns(std::span<const plan::BudgetPoint> points) {
  std::int64_t most = 1;
  for (const plan::BudgetPoint& point : points)
    if (point.fits()) most = std::max(most, above_ns(point));
  return most;
}

/// What each further GiB saves up to the next budget, in ms of the step above everything kept: loads, and so steps with
/// everything kept, may differ. Nothing where the budget does not fit.
std::string saved_text(std::span<const plan::BudgetPoint> points, std::size_t i) {
  if (i + 1 >= points.size() || !points[i].fits()) return "";
  const double gib =
      static_cast<double>(points[i + 1].budget_bytes - points[i].budget_bytes) / static_cast<double>(kGiB);
  const double ms = static_cast<double>(above_ns(points[i]) - above_ns(points[i + 1])) / 1e6 / gib;
  return fmt::format("{:.2f}", std::abs(ms) < 0.005 ? 0 : ms);
}

double percent_above(const plan::BudgetPoint& point) {
  return point.step.keep_all_step_ns == 0
             ? 0
             : 100.0 * static_cast<double>(above_ns(point)) / static_cast<double>(point.step.keep_all_step_ns);
}

std::string fit_text(const plan::BudgetPoint& point, const Line& line) {
  const std::ptrdiff_t over = std::ssize(point.ranks) - line.fitting;
  if (over > 0) return fmt::format("{} OVER", over);
  if (point.planned_bytes < point.budget_bytes) return fmt::format("as at {}", gib_text(point.planned_bytes));
  return "fits";
}

}  // namespace

std::string frontier_text(std::span<const plan::BudgetPoint> points, Bytes asked) {
  constexpr double kWidth = 40;
  TextTable table({"budget", "", "step s", "on keep-all", "a GiB more saves", "added max", "recompute", "swap", ""},
                  {1, 8});
  const auto most = static_cast<double>(most_above_ns(points));
  for (std::size_t i = 0; i < points.size(); ++i) {
    const plan::BudgetPoint& point = points[i];
    const Line line = line_of(point);
    const bool fits = point.fits();
    const auto marks = static_cast<std::size_t>(
        fits ? std::lround(kWidth * static_cast<double>(std::max<std::int64_t>(above_ns(point), 0)) / most) : 0);
    table.add({gib_text(point.budget_bytes) + (point.budget_bytes == asked ? "*" : " "), fit_text(point, line),
               fits ? fmt::format("{:.3f}", static_cast<double>(point.step.step_ns) / 1e9) : "",
               fits ? fmt::format("{:+.3f} %", percent_above(point)) : "", saved_text(points, i),
               fits ? ms_text(line.added_ns) : "", fits ? ms_text(line.recompute_ns) : "",
               fits ? gib_text(line.swapped_bytes) : "", std::string(marks, '#')});
  }
  return fmt::format(
             "\nWhat memory buys{} (* the budget asked for; budgets in GiB a rank; times modelled: step in s, the "
             "others in "
             "ms of the slowest rank; swap of all ranks one way in GiB; bars: step on keep-all)\n",
             one_load_text(points.front().ranks.front().load)) +
         table.text();
}

std::string with_frontier(const std::string& json, std::span<const plan::BudgetPoint> points) {
  Json object = Json::parse(json);
  object["frontier"] = Json::array();
  for (const plan::BudgetPoint& point : points) {
    const Line line = line_of(point);
    const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) / 1e6; };
    object["frontier"].push_back({{"budget_bytes", point.budget_bytes},
                                  {"planned_bytes", point.planned_bytes},
                                  {"load", point.ranks.front().load},
                                  {"fits", point.fits()},
                                  {"ranks_fit", line.fitting},
                                  {"step_ms", ms(point.step.step_ns)},
                                  {"keep_all_step_ms", ms(point.step.keep_all_step_ns)},
                                  {"added_ms", ms(line.added_ns)},
                                  {"recompute_ms", ms(line.recompute_ns)},
                                  {"swapped_bytes", line.swapped_bytes}});
  }
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string frontier_html(std::span<const plan::BudgetPoint> points, Bytes asked) {
  if (points.empty()) return "";
  std::string page =
      fmt::format(
          "<h2>What memory buys</h2>\n<p class=\"soft\">The same job planned at other budgets{}; times "
          "modelled. Bars: the step above everything kept.</p>\n",
          one_load_text(points.front().ranks.front().load)) +
      "<div class=\"scroll\"><table><thead><tr><th>budget<small>GiB a rank</small></th>"
      "<th>ranks that fit</th><th>step</th><th>on keep-all</th><th>a GiB more saves<small>ms a step</small></th>"
      "<th>added ms<small>slowest rank</small></th><th>swapped<small>GiB, all ranks, one way</small></th>"
      "<th class=\"l\"></th></tr></thead><tbody>\n";
  const auto most = static_cast<double>(most_above_ns(points));
  for (std::size_t i = 0; i < points.size(); ++i) {
    const plan::BudgetPoint& point = points[i];
    const Line line = line_of(point);
    const bool fits = point.fits();
    const double width = fits ? 160 * static_cast<double>(std::max<std::int64_t>(above_ns(point), 0)) / most : 0;
    page += fmt::format(
        "<tr><td>{}{}</td><td class=\"{}\">{} of {}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td class=\"l\"><svg width=\"160\" height=\"10\"><rect width=\"{:.1f}\" height=\"10\" "
        "fill=\"currentColor\"/></svg></td></tr>\n",
        gib_text(point.budget_bytes), point.budget_bytes == asked ? " (asked for)" : "", fits ? "yes" : "no",
        line.fitting, point.ranks.size(), fits ? duration_text(point.step.step_ns) : "",
        fits ? fmt::format("{:+.3f} %", percent_above(point)) : "", saved_text(points, i),
        fits ? ms_text(line.added_ns) : "", fits ? gib_text(line.swapped_bytes) : "", width);
  }
  return page + "</tbody></table></div>\n";
}

}  // namespace tidemark::formats
