#include "integrations/formats/import_expert_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "integrations/formats/expert_counts.h"

namespace tidemark::formats {
namespace {

using SiteKey = std::pair<std::int64_t, std::int64_t>;  // layer, micro-batch

/// One (layer, micro-batch): rows by device, and where the file first speaks of it.
struct Cell {
  int line = 0;
  std::map<std::int64_t, std::int64_t> rows;
};

using Cells = std::map<SiteKey, Cell>;

Result<Cells> cells_of(const CountedStep& step, const ExpertCountReader& reader) {
  Cells cells;
  for (const ExpertCount& count : step.counts) {
    Cell& cell = cells[{count.layer, count.micro_batch}];
    if (cell.rows.empty()) cell.line = count.line;
    if (!cell.rows.emplace(count.device, count.rows).second)
      return reader.wrong(count.line, fmt::format("layer {}, micro-batch {} names device {} twice", count.layer,
                                                  count.micro_batch, count.device));
  }
  return cells;
}

/// Every cell names the devices of the first, and somebody has rows.
Status check(const Cells& cells, const ExpertCountReader& reader) {
  const auto devices = [](const Cell& cell) {
    std::vector<std::int64_t> ids;
    for (const auto& [device, rows] : cell.rows) ids.push_back(device);
    return ids;
  };
  const auto& [first, first_cell] = *cells.begin();
  for (const auto& [key, cell] : cells) {
    const auto name = fmt::format("layer {}, micro-batch {}", key.first, key.second);
    if (devices(cell) != devices(first_cell))
      return reader.wrong(cell.line,
                          fmt::format("{} names other devices than layer {}, micro-batch {}; every pair names the same",
                                      name, first.first, first.second));
    if (std::ranges::all_of(cell.rows, [](const auto& entry) { return entry.second == 0; }))
      return reader.wrong(cell.line, fmt::format("{} has no rows on any device", name));
  }
  if (cells.size() >= 2 && first_cell.rows.size() >= 2) return {};
  return reader.wrong(1, fmt::format("{} of (layer, micro-batch) and {} of devices: two of each are needed to split "
                                     "the variance",
                                     cells.size(), first_cell.rows.size()));
}

/// f by device and site.
std::map<std::int64_t, std::vector<double>> loads_of(const Cells& cells) {
  std::map<std::int64_t, std::vector<double>> loads;
  for (const auto& [key, cell] : cells) {
    double total = 0;
    for (const auto& [device, rows] : cell.rows) total += static_cast<double>(rows);
    const double mean = total / static_cast<double>(cell.rows.size());
    for (const auto& [device, rows] : cell.rows) loads[device].push_back(static_cast<double>(rows) / mean);
  }
  return loads;
}

/// Variance of f within the devices of a step, and that common to all sites of one, which may come out negative.
struct Variances {
  double own = 0;
  double common = 0;
};

Variances variances_of(const Cells& cells) {
  const std::map<std::int64_t, std::vector<double>> loads = loads_of(cells);
  const auto devices = static_cast<double>(loads.size());
  const auto sites = static_cast<double>(cells.size());
  double between = 0, within = 0;  // sums of squares about the overall mean 1, and about the device's own
  for (const auto& [device, values] : loads) {
    double mean = 0;
    for (const double f : values) mean += f / sites;
    between += sites * (mean - 1) * (mean - 1);
    for (const double f : values) within += (f - mean) * (f - mean);
  }
  const double own = within / (devices * (sites - 1));
  return {.own = own, .common = (between / (devices - 1) - own) / sites};
}

}  // namespace

Result<graph_build::ExpertLoadSpec> read_expert_counts(std::string_view csv_text, std::string_view file_name,
                                                       const graph_build::ExpertLoadSpec& base) {
  std::istringstream in{std::string(csv_text)};
  ExpertCountReader reader(in, std::string(file_name));
  Variances sum;
  double steps = 0;
  for (;; ++steps) {
    const Result<std::optional<CountedStep>> step = reader.next();
    if (!step) return step.error();
    if (!step.value()) break;
    const Result<Cells> cells = cells_of(*step.value(), reader);
    if (!cells) return cells.error();
    if (Status status = check(cells.value(), reader); !status) return status.error();
    const Variances variances = variances_of(cells.value());
    sum.own += variances.own;
    sum.common += variances.common;
  }
  const double own = sum.own / steps, common = std::max(0.0, sum.common / steps);
  graph_build::ExpertLoadSpec spec = base;
  spec.mean = 1;
  spec.coefficient_of_variation = std::sqrt(common + own);
  spec.layer_correlation = common + own > 0 ? common / (common + own) : 0;
  return spec;
}

}  // namespace tidemark::formats
