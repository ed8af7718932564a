#include "integrations/formats/pack_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kMostNamed = 20;

/// `1048576 B (1.00 MiB)`.
std::string exact_text(Bytes bytes) {
  return bytes < kKiB ? fmt::format("{} B", bytes) : fmt::format("{} B ({})", bytes, format_bytes(bytes));
}

/// A share that is not exact is rounded up: within it means within it.
double rounded_up(double percent) {
  return std::ceil(percent * 1000) / 1000;
}

std::string names_text(const PackReport& report) {
  const auto& rows = report.verdict.cannot_fit;
  std::string text;
  for (std::size_t i = 0; i < std::min(rows.size(), kMostNamed); ++i)
    text += (i == 0 ? "" : ", ") + shown(report.table->rows[static_cast<std::size_t>(rows[i])].id);
  return rows.size() > kMostNamed ? fmt::format("{} and {} more", text, rows.size() - kMostNamed) : text;
}

std::string infeasible_text(const PackReport& report) {
  const PackVerdict& v = report.verdict;
  if (v.cannot_fit.empty())
    return fmt::format("infeasible: no packing is lower than {}", exact_text(report.answer->bound_bytes));
  const auto count = v.cannot_fit.size();
  if (v.together_bytes == 0)
    return fmt::format("infeasible: {} within the capacity: {}",
                       count == 1 ? "one buffer cannot be" : fmt::format("{} buffers cannot all be", count),
                       names_text(report));
  return fmt::format("infeasible: {} {} {} B at time {}, {} B more than the capacity: {}", count,
                     count == 1 ? "buffer needs" : "buffers need", v.together_bytes, v.time,
                     v.together_bytes - *report.capacity_bytes, names_text(report));
}

std::string status_text(const PackReport& report) {
  const double excess = rounded_up(report.answer->excess_percent());
  switch (report.verdict.word) {
    case PackWord::optimal:
      return "optimal: no packing is lower";
    case PackWord::within:
      return fmt::format("within {:.3f} % of the least height", excess);
    case PackWord::best_found:
      return fmt::format("best found: the least height is between the bound and {:.3f} % above it", excess);
    case PackWord::infeasible:
      break;
  }
  return infeasible_text(report);
}

std::string capacity_line(const PackReport& report) {
  if (!report.capacity_bytes) return "";
  const Bytes spare = *report.capacity_bytes - report.answer->packing.height_bytes;
  const std::string how =
      report.verdict.fits ? fmt::format("fits, {} B to spare", spare)
                          : fmt::format("does not fit, {} B too high{}", -spare,
                                        report.verdict.word == PackWord::infeasible ? "" : "; perhaps with more time");
  return fmt::format("capacity     {}: {}\n", exact_text(*report.capacity_bytes), how);
}

}  // namespace

std::string pack_text(const PackReport& report) {
  const layout::PackAnswer& answer = *report.answer;
  std::string text =
      fmt::format("{}: {} buffers, packed by {}\n", report.file, report.table->rows.size(), answer.packer);
  text += fmt::format("height       {}\n", exact_text(answer.packing.height_bytes));
  text += fmt::format("lower bound  {}\n", exact_text(answer.bound_bytes));
  text += fmt::format("excess       {:.3f} %\n", rounded_up(answer.excess_percent()));
  text += fmt::format("status       {}\n", status_text(report));
  text += capacity_line(report);
  text += fmt::format("seconds      {:.3f} (measured)\n", report.seconds);
  return report.picture.empty() ? text : text + "\n" + report.picture;
}

std::string pack_json(const PackReport& report) {
  const layout::PackAnswer& answer = *report.answer;
  const PackVerdict& verdict = report.verdict;
  Json json = {{"height_bytes", answer.packing.height_bytes},
               {"lower_bound_bytes", answer.bound_bytes},
               {"excess_percent", answer.excess_percent()},
               {"status", word_text(verdict.word)},
               {"seconds", report.seconds},
               {"buffers", report.table->rows.size()},
               {"packer", answer.packer},
               {"capacity_bytes", nullptr},
               {"fits", verdict.fits},
               {"cannot_fit", Json::array()},
               {"cannot_fit_bytes", nullptr},
               {"cannot_fit_time", nullptr}};
  if (report.capacity_bytes) json["capacity_bytes"] = *report.capacity_bytes;
  for (const std::int32_t row : verdict.cannot_fit)
    json["cannot_fit"].push_back(report.table->rows[static_cast<std::size_t>(row)].id);
  if (verdict.together_bytes > 0) {
    json["cannot_fit_bytes"] = verdict.together_bytes;
    json["cannot_fit_time"] = verdict.time;
  }
  if (!report.picture.empty()) json["picture"] = report.picture;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tidemark::formats
