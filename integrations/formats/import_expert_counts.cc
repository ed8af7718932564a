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

std::vector<std::int64_t> devices_of(const Cell& cell) {
  std::vector<std::int64_t> ids;
  for (const auto& [device, rows] : cell.rows) ids.push_back(device);
  return ids;
}

/// Every cell names the devices of the first, and has rows.
Status check(const Cells& cells, const ExpertCountReader& reader) {
  const auto& [first, first_cell] = *cells.begin();
  for (const auto& [key, cell] : cells) {
    const auto name = fmt::format("layer {}, micro-batch {}", key.first, key.second);
    if (devices_of(cell) != devices_of(first_cell))
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

/// What every step is laid out as: that of the first.
struct Sites {
  std::vector<SiteKey> keys;
  std::vector<std::int64_t> devices;
  graph_build::CountedShape shape;
};

std::string name_of(const SiteKey& key) {
  return fmt::format("layer {}, micro-batch {}", key.first, key.second);
}

/// Every layer of the step has the same micro-batches.
Result<Sites> sites_of(const Cells& cells, const ExpertCountReader& reader) {
  std::map<std::int64_t, std::vector<std::int64_t>> batches;
  Sites sites;
  for (const auto& [key, cell] : cells) {
    batches[key.first].push_back(key.second);
    sites.keys.push_back(key);
  }
  const auto& [first_layer, first] = *batches.begin();
  for (const auto& [layer, of] : batches)
    if (of != first)
      return reader.wrong(
          cells.at({layer, of.front()}).line,
          fmt::format("layer {} has other micro-batches than layer {}; every layer has the same", layer, first_layer));
  sites.devices = devices_of(cells.begin()->second);
  sites.shape = {
      .layers = std::ssize(batches), .micro_batches = std::ssize(first), .devices = std::ssize(sites.devices)};
  return sites;
}

/// The step has the (layer, micro-batch) pairs and the devices of the first.
Status check_same(const Cells& cells, const Sites& sites, const CountedStep& step, const ExpertCountReader& reader) {
  for (const SiteKey& key : sites.keys)
    if (!cells.contains(key))
      return reader.wrong(
          step.counts.back().line,
          fmt::format("step {} ends here without {}; every step names the same", step.step, name_of(key)));
  for (const auto& [key, cell] : cells) {
    if (!std::ranges::binary_search(sites.keys, key))
      return reader.wrong(cell.line, fmt::format("{} is in no step before; every step names the same", name_of(key)));
    if (devices_of(cell) != sites.devices)
      return reader.wrong(cell.line, fmt::format("{} names other devices than the steps before; every step names the "
                                                 "same",
                                                 name_of(key)));
  }
  return {};
}

std::vector<double> rows_of(const Cells& cells) {
  std::vector<double> rows;
  for (const auto& [key, cell] : cells)
    for (const auto& [device, count] : cell.rows) rows.push_back(static_cast<double>(count));
  return rows;
}

}  // namespace

Result<MeasuredLoads> read_expert_counts(std::string_view csv_text, std::string_view file_name,
                                         const graph_build::ExpertLoadSpec& base) {
  std::istringstream in{std::string(csv_text)};
  ExpertCountReader reader(in, std::string(file_name));
  std::optional<Sites> sites;
  std::optional<graph_build::LoadFitter> fitter;
  for (;;) {
    const Result<std::optional<CountedStep>> step = reader.next();
    if (!step) return step.error();
    if (!step.value()) break;
    const Result<Cells> cells = cells_of(*step.value(), reader);
    if (!cells) return cells.error();
    if (Status status = check(cells.value(), reader); !status) return status.error();
    if (!sites) {
      Result<Sites> first = sites_of(cells.value(), reader);
      if (!first) return first.error();
      sites = std::move(first).value();
      fitter.emplace(sites->shape);
    }
    if (Status status = check_same(cells.value(), *sites, *step.value(), reader); !status) return status.error();
    fitter->add(rows_of(cells.value()));
  }
  MeasuredLoads loads{.spec = base, .fit = fitter->fit()};
  loads.fit.model.mean = 1;  // rows say nothing of how many there should be
  loads.spec = graph_build::spec_of(loads.fit.model, base);
  return loads;
}

std::string loads_text(const graph_build::LoadFit& fit) {
  const auto part = [](const char* name, double variance, double error) {
    const double cv = std::sqrt(variance);
    // Of a root: half the error of the square over the root.
    return cv > 0 ? fmt::format("{} {:.4f} +- {:.4f}", name, cv, error / (2 * cv))
                  : fmt::format("{} 0 (below {:.4f})", name, std::sqrt(2 * error));
  };
  const auto counted = [](std::int64_t n, std::string_view what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : what.ends_with("ch") ? "es" : "s");
  };
  const auto& [popularity, device, site] = fit.model.variance;
  std::string text = fmt::format(
      "{}, {}, {}, {}: loads vary by {}, {}, {} (coefficients of variation); "
      "popularity keeps {:.4f} of itself a step; the fullest device has {:.3f} times the mean, {:.3f} by the model",
      counted(fit.steps, "step"), counted(fit.shape.layers, "layer"), counted(fit.shape.micro_batches, "micro-batch"),
      counted(fit.shape.devices, "device"), part("popularity", popularity, fit.error.popularity),
      part("device", device, fit.error.device), part("sequences", site, fit.error.site), fit.model.persistence,
      fit.fullest,
      fit.model.mean > 0 ? graph_build::mean_fullest_load(fit.model, fit.shape.devices) / fit.model.mean : 1.0);
  if (!fit.missing.empty()) text += "; " + fit.missing;
  return text;
}

}  // namespace tidemark::formats
