#include "integrations/formats/import_expert_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

constexpr std::string_view kHeader = "layer,micro_batch,device,rows";
constexpr std::int64_t kMostRows = std::int64_t{1} << 40;  // of one line: sums stay exact in a double
constexpr std::int64_t kMostIndex = 1'000'000;

using SiteKey = std::pair<std::int64_t, std::int64_t>;  // layer, micro-batch

/// One (layer, micro-batch): rows by device, and where the file first speaks of it.
struct Cell {
  int line = 0;
  std::map<std::int64_t, std::int64_t> rows;
};

struct Counts {
  std::map<SiteKey, Cell> cells;
};

Error wrong(std::string_view file, int line, const std::string& what) {
  return bad_input(fmt::format("{}:{}: {}", file, line, what));
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// Four whole numbers within their limits, or what is wrong with them.
Result<std::array<std::int64_t, 4>> read_numbers(std::string_view line) {
  constexpr std::array<std::string_view, 4> kNames = {"layer", "micro_batch", "device", "rows"};
  std::array<std::int64_t, 4> numbers{};
  if (std::ranges::count(line, ',') != 3)
    return bad_input(fmt::format("{} has not four fields; write {}", shown(line), kHeader));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t comma = std::min(line.find(','), line.size());
    const std::string_view field = trimmed(line.substr(0, comma));
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), numbers[i]);
    const std::int64_t most = i == 3 ? kMostRows : kMostIndex;
    if (error != std::errc{} || end != field.data() + field.size() || numbers[i] < 0 || numbers[i] > most)
      return bad_input(fmt::format("{} is {}; it must be a whole number from 0 to {}", kNames[i], shown(field), most));
    line.remove_prefix(std::min(comma + 1, line.size()));
  }
  return numbers;
}

Result<Counts> read_counts(std::string_view text, std::string_view file) {
  Counts counts;
  bool has_header = false;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty() || line.front() == '#') continue;
    if (!has_header) {
      if (line != kHeader)
        return wrong(file, number, fmt::format("the first line is {}, not {}", shown(line), kHeader));
      has_header = true;
      continue;
    }
    const Result<std::array<std::int64_t, 4>> numbers = read_numbers(line);
    if (!numbers) return wrong(file, number, numbers.error().message);
    const auto [layer, micro_batch, device, rows] = numbers.value();
    Cell& cell = counts.cells[{layer, micro_batch}];
    if (cell.rows.empty()) cell.line = number;
    if (!cell.rows.emplace(device, rows).second)
      return wrong(file, number,
                   fmt::format("layer {}, micro-batch {} names device {} twice", layer, micro_batch, device));
  }
  if (!has_header) return wrong(file, 1, fmt::format("the file is empty; its first line is {}", kHeader));
  return counts;
}

/// Every cell names the devices of the first, and somebody has rows.
Status check(const Counts& counts, std::string_view file) {
  const auto devices = [](const Cell& cell) {
    std::vector<std::int64_t> ids;
    for (const auto& [device, rows] : cell.rows) ids.push_back(device);
    return ids;
  };
  for (const auto& [key, cell] : counts.cells) {
    const auto name = fmt::format("layer {}, micro-batch {}", key.first, key.second);
    if (devices(cell) != devices(counts.cells.begin()->second))
      return wrong(file, cell.line,
                   fmt::format("{} names other devices than layer {}, micro-batch {}; every pair names the same", name,
                               counts.cells.begin()->first.first, counts.cells.begin()->first.second));
    if (std::ranges::all_of(cell.rows, [](const auto& entry) { return entry.second == 0; }))
      return wrong(file, cell.line, fmt::format("{} has no rows on any device", name));
  }
  if (counts.cells.size() < 2 || counts.cells.begin()->second.rows.size() < 2)
    return wrong(file, 1,
                 fmt::format("{} of (layer, micro-batch) and {} of devices: two of each are needed to split "
                             "the variance",
                             counts.cells.size(), counts.cells.empty() ? 0 : counts.cells.begin()->second.rows.size()));
  return {};
}

/// f by device and site.
std::map<std::int64_t, std::vector<double>> loads_of(const Counts& counts) {
  std::map<std::int64_t, std::vector<double>> loads;
  for (const auto& [key, cell] : counts.cells) {
    double total = 0;
    for (const auto& [device, rows] : cell.rows) total += static_cast<double>(rows);
    const double mean = total / static_cast<double>(cell.rows.size());
    for (const auto& [device, rows] : cell.rows) loads[device].push_back(static_cast<double>(rows) / mean);
  }
  return loads;
}

}  // namespace

Result<graph_build::ExpertLoadSpec> read_expert_counts(std::string_view csv_text, std::string_view file_name,
                                                       const graph_build::ExpertLoadSpec& base) {
  const Result<Counts> counts = read_counts(csv_text, file_name);
  if (!counts) return counts.error();
  if (Status status = check(counts.value(), file_name); !status) return status.error();

  const std::map<std::int64_t, std::vector<double>> loads = loads_of(counts.value());
  const auto devices = static_cast<double>(loads.size());
  const auto sites = static_cast<double>(counts.value().cells.size());
  double between = 0, within = 0;  // sums of squares about the overall mean 1, and about the device's own
  for (const auto& [device, values] : loads) {
    double mean = 0;
    for (const double f : values) mean += f / sites;
    between += sites * (mean - 1) * (mean - 1);
    for (const double f : values) within += (f - mean) * (f - mean);
  }
  const double own = within / (devices * (sites - 1));
  const double common = std::max(0.0, (between / (devices - 1) - own) / sites);
  graph_build::ExpertLoadSpec spec = base;
  spec.mean = 1;
  spec.coefficient_of_variation = std::sqrt(common + own);
  spec.layer_correlation = common + own > 0 ? common / (common + own) : 0;
  return spec;
}

}  // namespace tidemark::formats
