#include "integrations/ci/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/bytes.h"
#include "integrations/ci/verdict_line.h"

namespace tidemark::ci {
namespace {

std::string share_text(Bytes part, Bytes whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole)) : "-";
}

std::string signed_bytes(Bytes bytes) {
  return (bytes > 0 ? "+" : "") + format_bytes(bytes);
}

std::string optional_bytes(const std::optional<Bytes>& bytes) {
  return bytes ? format_bytes(*bytes) : "-";
}

/// `5 others` of a table that is cut.
std::string others_text(std::size_t count) {
  return fmt::format("[{} {}]", count, count == 1 ? "other" : "others");
}

std::vector<std::string> contributor_row(const budget::HeldStorage& storage, Bytes peak) {
  return {format_bytes(storage.bytes),
          share_text(storage.bytes, peak),
          fmt::format("{}", storage.count),
          std::string(budget::word_of(storage.category)),
          storage.layers.empty() ? "-" : storage.layers,
          storage.name,
          controls_text(storage.controls)};
}

std::vector<std::string> sum_row(const std::string& name, Bytes bytes, Bytes peak, std::int64_t count) {
  return {format_bytes(bytes), share_text(bytes, peak), count > 0 ? fmt::format("{}", count) : "-", "-", "-", name, ""};
}

std::vector<std::string> storage_row(const budget::StorageGrowth& storage) {
  return {std::string(word_of(storage.kind)),
          signed_bytes(storage.delta_bytes()),
          change_text(storage.before_bytes, storage.after_bytes),
          format_bytes(storage.before_bytes),
          format_bytes(storage.after_bytes),
          fmt::format("{} -> {}", storage.count_before, storage.count_after),
          storage.name,
          controls_text(storage.controls)};
}

std::vector<std::string> growth_sum_row(const std::string& name, Bytes before, Bytes after) {
  return {"-",
          signed_bytes(after - before),
          change_text(before, after),
          format_bytes(before),
          format_bytes(after),
          "-",
          name,
          ""};
}

/// A row of both sides: a name, what was predicted, what was measured, and by how much the first is off.
std::vector<std::string> compared_row(std::string_view name, const budget::ComparedBytes& bytes) {
  return {std::string(name), format_bytes(bytes.predicted_bytes), format_bytes(bytes.measured_bytes),
          signed_bytes(-bytes.delta_bytes()), change_text(bytes.measured_bytes, bytes.predicted_bytes)};
}

}  // namespace

std::string control_text(const budget::Control& control) {
  std::string text = control.file;
  if (control.line > 0) text += fmt::format(":{}", control.line);
  if (control.text.empty()) return text;
  return text.empty() ? control.text : text + ": " + control.text;
}

std::string controls_text(const std::vector<budget::Control>& controls) {
  std::string text;
  for (const budget::Control& control : controls) text += (text.empty() ? "" : "; ") + control_text(control);
  return text;
}

ReportTable contributor_table(const budget::RankHoldings& rank, std::size_t most) {
  ReportTable table{.title = fmt::format("held at the peak of rank {}", rank.rank),
                    .head = {"bytes", "share", "count", "category", "layers", "storage", "controlled by"},
                    .left = {3, 4, 5, 6}};
  const std::size_t listed = std::min(most, rank.storages.size());
  Bytes others = 0, told = 0;
  std::int64_t other_count = 0;
  for (std::size_t i = 0; i < rank.storages.size(); ++i) {
    const budget::HeldStorage& storage = rank.storages[i];
    told += storage.bytes;
    if (i < listed) table.rows.push_back(contributor_row(storage, rank.peak_bytes));
    if (i >= listed) others += storage.bytes, other_count += storage.count;
  }
  if (listed < rank.storages.size())
    table.rows.push_back(sum_row(others_text(rank.storages.size() - listed), others, rank.peak_bytes, other_count));
  if (told != rank.peak_bytes)
    table.rows.push_back(sum_row("[of no storage]", rank.peak_bytes - told, rank.peak_bytes, 0));
  table.rows.push_back(sum_row("total", rank.peak_bytes, rank.peak_bytes, 0));
  return table;
}

ReportTable category_table(const budget::RankHoldings& rank) {
  ReportTable table{.title = fmt::format("by category at the peak of rank {}", rank.rank),
                    .head = {"bytes", "share", "category"},
                    .left = {2}};
  for (std::size_t i = 0; i < rank.by_category.size(); ++i) {
    const Bytes bytes = rank.by_category[i];
    if (bytes == 0) continue;
    table.rows.push_back(
        {format_bytes(bytes), share_text(bytes, rank.peak_bytes), std::string(budget::kCategoryWords[i])});
  }
  return table;
}

ReportTable rank_growth_table(const budget::Growth& growth, std::size_t most) {
  ReportTable table{.title = "peaks by rank",
                    .head = {"rank", "before", "after", "change", "", "host before", "host after"},
                    .left = {}};
  std::vector<const budget::RankGrowth*> changed;
  for (const budget::RankGrowth& rank : growth.ranks)
    if (rank.before_bytes != rank.after_bytes || rank.host_before_bytes != rank.host_after_bytes)
      changed.push_back(&rank);
  std::ranges::stable_sort(changed, std::ranges::greater{},
                           [](const budget::RankGrowth* rank) { return std::abs(rank->delta_bytes()); });
  const std::size_t listed = std::min(most, changed.size());
  for (std::size_t i = 0; i < listed; ++i) {
    const budget::RankGrowth& rank = *changed[i];
    table.rows.push_back({fmt::format("{}", rank.rank), optional_bytes(rank.before_bytes),
                          optional_bytes(rank.after_bytes), signed_bytes(rank.delta_bytes()),
                          change_text(rank.before_bytes.value_or(0), rank.after_bytes.value_or(0)),
                          optional_bytes(rank.host_before_bytes), optional_bytes(rank.host_after_bytes)});
  }
  Bytes before = growth.before_bytes, after = growth.after_bytes;
  if (listed < changed.size())
    table.rows.push_back({others_text(changed.size() - listed), "-", "-", "-", "-", "-", "-"});
  table.rows.push_back({"highest", format_bytes(growth.highest_before_bytes), format_bytes(growth.highest_after_bytes),
                        signed_bytes(growth.highest_after_bytes - growth.highest_before_bytes),
                        change_text(growth.highest_before_bytes, growth.highest_after_bytes), "-", "-"});
  table.rows.push_back({"compared ranks together", format_bytes(before), format_bytes(after),
                        signed_bytes(after - before), change_text(before, after), "-", "-"});
  return table;
}

ReportTable storage_growth_table(const budget::Growth& growth, std::size_t most) {
  ReportTable table{.title = "what changed at the peaks, compared ranks together",
                    .head = {"change", "bytes", "", "before", "after", "count", "storage", "controlled by"},
                    .left = {0, 6, 7}};
  const std::size_t listed = std::min(most, growth.storages.size());
  Bytes before_others = 0, after_others = 0, before = 0, after = 0;
  for (std::size_t i = 0; i < growth.storages.size(); ++i) {
    const budget::StorageGrowth& storage = growth.storages[i];
    before += storage.before_bytes;
    after += storage.after_bytes;
    if (i < listed) table.rows.push_back(storage_row(storage));
    if (i >= listed) before_others += storage.before_bytes, after_others += storage.after_bytes;
  }
  if (listed < growth.storages.size())
    table.rows.push_back(growth_sum_row(others_text(growth.storages.size() - listed), before_others, after_others));
  const Bytes rest = (growth.after_bytes - growth.before_bytes) - (after - before);
  if (rest != 0) table.rows.push_back({"-", signed_bytes(rest), "-", "-", "-", "-", "[of no storage]", ""});
  table.rows.push_back(growth_sum_row("total of the compared peaks", growth.before_bytes, growth.after_bytes));
  return table;
}

ReportTable rank_prediction_table(const budget::Comparison& comparison, budget::Basis predicted, std::size_t most) {
  const std::string word(budget::word_of(predicted));
  ReportTable table{.title = fmt::format("peaks, {} beside measured", word),
                    .head = {"rank", word, "measured", "off by", "", "within its band"},
                    .left = {5}};
  std::vector<const budget::RankComparison*> ranks;
  for (const budget::RankComparison& rank : comparison.ranks) ranks.push_back(&rank);
  std::ranges::stable_sort(ranks, std::ranges::greater{},
                           [](const budget::RankComparison* rank) { return std::abs(rank->peak.delta_bytes()); });
  const std::size_t listed = std::min(most, ranks.size());
  for (std::size_t i = 0; i < listed; ++i) {
    std::vector<std::string> row = compared_row(fmt::format("{}", ranks[i]->rank), ranks[i]->peak);
    row.emplace_back(ranks[i]->is_within_band ? "yes" : "no");
    table.rows.push_back(std::move(row));
  }
  if (listed < ranks.size()) table.rows.push_back({others_text(ranks.size() - listed), "-", "-", "-", "-", "-"});
  return table;
}

ReportTable prediction_table(const budget::Comparison& comparison, budget::Basis predicted) {
  const budget::RankComparison& rank = *std::ranges::max_element(
      comparison.ranks, {}, [](const budget::RankComparison& one) { return one.peak.measured_bytes; });
  const std::string word(budget::word_of(predicted));
  ReportTable table{.title = fmt::format("{} beside measured, rank {}", word, rank.rank),
                    .head = {"category", word, "measured", "off by", ""},
                    .left = {0}};
  for (std::size_t i = 0; i < budget::kCategoryCount; ++i)
    if (rank.by_category[i] != budget::ComparedBytes())
      table.rows.push_back(compared_row(budget::kCategoryWords[i], rank.by_category[i]));
  table.rows.push_back(compared_row("peak", rank.peak));
  table.rows.push_back(compared_row("of it asked for by the framework", rank.asked));
  if (rank.steady) table.rows.push_back(compared_row("asked for between steps", *rank.steady));
  if (rank.host) table.rows.push_back(compared_row("host memory", *rank.host));
  return table;
}

}  // namespace tidemark::ci
