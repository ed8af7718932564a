#include "integrations/formats/time_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "integrations/formats/scored_times.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/text_table.h"
#include "integrations/formats/utf8.h"
#include "planner/step_time/time_scores.h"

namespace tidemark::formats {
namespace {

using step_time::TimeRow;
using step_time::TrackErrors;
using step_time::TrackScore;
using TimeJson = nlohmann::ordered_json;

constexpr std::size_t kRowsShown = 20;
constexpr std::size_t kLongestText = 160;  // bytes of a text of the file, in a line for people

const std::string& reason_of(const TimeReport& report, std::size_t i) {
  const std::string& reason = report.predictions[i].refused;
  return reason.empty() ? report.rows[i].refused : reason;
}

double error_percent(const TimeReport& report, std::size_t i) {
  return 100 * (*report.predictions[i].predicted_s / *report.rows[i].measured_s - 1);
}

// For people.

std::string row_words(std::string_view text) {
  if (text.empty()) return "-";
  return printable(utf8_prefix(text, kLongestText)) + (text.size() > kLongestText ? "..." : "");
}

std::string figure_text(double value, bool is_known, int digits = 1) {
  return is_known ? fmt::format("{:.{}f}", value, digits) : "-";
}

std::string figure_text(const std::optional<double>& value, int digits = 1) {
  return figure_text(value.value_or(0), value.has_value(), digits);
}

void add_track(TextTable& table, const TrackScore& score, std::size_t refused) {
  const TrackErrors& errors = score.errors;
  const TrackErrors rival = score.constant_mfu.value_or(TrackErrors{});
  const auto of_rows = [&errors](double value) { return figure_text(value, errors.rows > 0); };
  table.add({row_words(score.track), fmt::format("{}", errors.rows), fmt::format("{}", errors.keys),
             of_rows(errors.mean_percent), of_rows(errors.row_p90_percent), of_rows(errors.median_percent),
             of_rows(errors.p90_percent), figure_text(score.ranking.kendall_tau, score.ranking.pairs > 0, 3),
             figure_text(score.ranking.regret_p90_percent, score.ranking.groups > 0), of_rows(score.band_percent),
             of_rows(score.covered_percent), figure_text(rival.median_percent, rival.rows > 0),
             figure_text(rival.p90_percent, rival.rows > 0), fmt::format("{}", refused)});
}

std::string track_lines(const ScoredTimes& times) {
  if (times.tracks.empty()) return "no row is scored\n";
  TextTable table({"track", "rows", "keys", "MAPE %", "p90 %", "median %", "p90 %", "tau", "regret %", "band %",
                   "covered %", "constant MFU %", "p90 %", "refused"},
                  {0});
  for (const TrackScore& score : times.tracks) add_track(table, score, times.refused_in(score.track));
  return "by track: absolute errors over rows (MAPE, p90) and over keys, of medians inside a key (median, p90); "
         "regret: its p90\n" +
         table.text(2);
}

/// The first of `order`, under a head that says of how many.
std::string listed_rows(const TimeReport& report, const ScoredTimes& times, const std::string& head,
                        const std::vector<std::size_t>& order) {
  if (order.empty()) return "";
  TextTable table({"predicted s", "measured s", "error %", "band %", "track", "row"}, {4, 5});
  const std::size_t count = std::min(order.size(), kRowsShown);
  for (const std::size_t i : std::span(order).first(count)) {
    const TimeRow& row = report.rows[i];
    table.add({figure_text(report.predictions[i].predicted_s, 3), figure_text(row.measured_s, 3),
               row.measured_s ? fmt::format("{:+.1f}", error_percent(report, i)) : "-", figure_text(times.bands[i]),
               row_words(row.track), row_words(row.id)});
  }
  return fmt::format("{}, {} of {}\n", head, count, order.size()) + table.text(2);
}

std::string worst_lines(const TimeReport& report, const ScoredTimes& times) {
  std::vector<std::size_t> order = times.scored;
  std::ranges::stable_sort(order, std::greater{},
                           [&report](std::size_t i) { return std::abs(error_percent(report, i)); });
  return listed_rows(report, times, "worst rows", order);
}

std::string unscored_lines(const TimeReport& report, const ScoredTimes& times) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < report.rows.size(); ++i)
    if (report.predictions[i].predicted_s && !is_counted(report, i)) order.push_back(i);
  return listed_rows(report, times, "predicted, in no track", order);
}

/// Rows that share a text: how many, and the first of them for an example.
struct SharedText {
  std::size_t count = 0, first = 0;
};

/// `head 12 rows: text (as ID)`, the most frequent first.
std::string shared_lines(const TimeReport& report, std::string_view head,
                         const std::map<std::string, SharedText>& texts) {
  std::vector<std::pair<std::string, SharedText>> order(texts.begin(), texts.end());
  std::ranges::stable_sort(order, std::greater{}, [](const auto& at) { return at.second.count; });
  std::string lines;
  for (const auto& [text, at] : order)
    lines += fmt::format("{} {} {}: {} (as {})\n", head, at.count, at.count == 1 ? "row" : "rows", row_words(text),
                         row_words(report.rows[at.first].id));
  return lines;
}

void add_text(std::map<std::string, SharedText>& texts, const std::string& text, std::size_t row) {
  SharedText& at = texts[text];
  if (at.count++ == 0) at.first = row;
}

std::string refusal_lines(const TimeReport& report) {
  std::map<std::string, SharedText> reasons;
  for (std::size_t i = 0; i < report.rows.size(); ++i)
    if (!report.predictions[i].predicted_s) add_text(reasons, reason_of(report, i), i);
  return shared_lines(report, "refused", reasons);
}

std::string noted_lines(const TimeReport& report) {
  std::map<std::string, SharedText> notes;
  for (std::size_t i = 0; i < report.rows.size(); ++i)
    if (report.predictions[i].predicted_s)
      for (const std::string& note : report.rows[i].notes) add_text(notes, note, i);
  return shared_lines(report, "noted for", notes);
}

std::string factor_lines(const TimeReport& report) {
  std::string lines;
  for (const SourceFactor& at : report.factors)
    lines += fmt::format("factor of source {}, fitted: {:.3f}\n", row_words(at.name), at.factor);
  return lines;
}

// For scripts.

TimeJson figure_json(double value, bool is_known) {
  return is_known ? TimeJson(value) : TimeJson(nullptr);
}

TimeJson figure_json(const std::optional<double>& value) {
  return figure_json(value.value_or(0), value.has_value());
}

TimeJson words_json(const std::string& text) {
  return text.empty() ? TimeJson(nullptr) : TimeJson(text);
}

TimeJson time_row_json(const TimeReport& report, const ScoredTimes& times, std::size_t i) {
  const TimeRow& row = report.rows[i];
  const TimePrediction& at = report.predictions[i];
  return {{"id", row.id},
          {"track", words_json(row.track)},
          {"predicted_s", figure_json(at.predicted_s)},
          {"measured_s", figure_json(row.measured_s)},
          {"band_percent", figure_json(times.bands[i])},
          {"refused", at.predicted_s ? TimeJson(nullptr) : words_json(reason_of(report, i))},
          {"scored", at.predicted_s && is_counted(report, i)},
          {"notes", row.notes}};
}

TimeJson errors_json(const TrackErrors& errors) {
  const auto percent = [&errors](double value) { return figure_json(value, errors.rows > 0); };
  return {{"rows", errors.rows},
          {"keys", errors.keys},
          {"mape_percent", percent(errors.mean_percent)},
          {"row_p90_percent", percent(errors.row_p90_percent)},
          {"worst_percent", percent(errors.worst_percent)},
          {"median_percent", percent(errors.median_percent)},
          {"p90_percent", percent(errors.p90_percent)}};
}

TimeJson track_json(const TrackScore& score, std::size_t refused) {
  const auto& [groups, pairs, tau, regret_p90, regret_worst] = score.ranking;
  TimeJson json = {{"track", words_json(score.track)}};
  json.update(errors_json(score.errors));
  json.update({{"kendall_tau", figure_json(tau, pairs > 0)},
               {"pairs", pairs},
               {"groups", groups},
               {"regret_p90_percent", figure_json(regret_p90, groups > 0)},
               {"regret_worst_percent", figure_json(regret_worst, groups > 0)},
               {"band_percent", figure_json(score.band_percent, score.errors.rows > 0)},
               {"covered_percent", figure_json(score.covered_percent, score.errors.rows > 0)},
               {"constant_mfu", score.constant_mfu ? errors_json(*score.constant_mfu) : TimeJson(nullptr)},
               {"refused", refused}});
  return json;
}

}  // namespace

std::string time_text(const TimeReport& report) {
  const ScoredTimes times = scored_times(report);
  std::string text =
      printable(report.what) + ": seconds of a step; predicted ones are modelled, measured ones are as published\n";
  for (const std::string& note : report.notes) text += printable(note) + "\n";
  return text + factor_lines(report) + track_lines(times) + worst_lines(report, times) + unscored_lines(report, times) +
         refusal_lines(report) + noted_lines(report);
}

std::string time_json(const TimeReport& report) {
  const ScoredTimes times = scored_times(report);
  TimeJson json = {{"rows", TimeJson::array()},
                   {"tracks", TimeJson::array()},
                   {"sources", TimeJson::array()},
                   {"notes", report.notes}};
  for (std::size_t i = 0; i < report.rows.size(); ++i) json["rows"].push_back(time_row_json(report, times, i));
  for (const TrackScore& score : times.tracks)
    json["tracks"].push_back(track_json(score, times.refused_in(score.track)));
  for (const SourceFactor& at : report.factors) json["sources"].push_back({{"name", at.name}, {"factor", at.factor}});
  return json.dump(2, ' ', false, TimeJson::error_handler_t::replace) + "\n";
}

}  // namespace tidemark::formats
