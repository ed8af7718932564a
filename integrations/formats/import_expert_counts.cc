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
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

using SiteKey = std::pair<std::int64_t, std::int64_t>;  // layer, micro-batch
using Ids = std::vector<std::int64_t>;

/// Rows by device of each (layer, micro-batch).
using Sites = std::map<SiteKey, std::map<std::int64_t, std::int64_t>>;

bool names(const CountedLayout& layout, const CountPlace& place) {
  return std::ranges::binary_search(layout.layers, place.layer) &&
         std::ranges::binary_search(layout.micro_batches, place.micro_batch) &&
         std::ranges::binary_search(layout.devices, place.device);
}

std::string rule(const ExpertCountReader& reader) {
  return fmt::format(
      "every step names the same layers, every layer the same micro-batches, every pair of them the same {}s",
      reader.holder());
}

std::string name_of(std::int64_t layer, std::int64_t micro_batch) {
  return fmt::format("layer {}, micro-batch {}", layer, micro_batch);
}

Result<Sites> sites_of(const CountedStep& step, const ExpertCountReader& reader) {
  Sites sites;
  for (const ExpertCount& count : step.counts)
    if (!sites[{count.layer, count.micro_batch}].emplace(count.device, count.rows).second)
      return reader.wrong(count.line, fmt::format("{} names {} {} twice", name_of(count.layer, count.micro_batch),
                                                  reader.holder(), count.device));
  return sites;
}

/// What most have; of as many the longest, since lines are lost sooner than added. REQUIRES: not empty.
Ids usual(const std::vector<Ids>& all) {
  std::map<Ids, std::ptrdiff_t> times;
  for (const Ids& ids : all) ++times[ids];
  return *std::ranges::max_element(all, {}, [&](const Ids& ids) { return std::pair(times.at(ids), ids.size()); });
}

/// Each id once, in its order.
template <class Map>
Ids keys_of(const Map& map) {
  Ids ids;
  for (const auto& [id, value] : map) ids.push_back(id);
  return ids;
}

CountedLayout layout_of(const CountedStep& step, const Sites& sites, const ExpertCountReader& reader) {
  std::map<std::int64_t, Ids> batches;
  std::vector<Ids> of_layers, of_sites;
  for (const auto& [key, rows] : sites) {
    batches[key.first].push_back(key.second);
    of_sites.push_back(keys_of(rows));
  }
  for (const auto& [layer, of] : batches) of_layers.push_back(of);
  return {.step = step.step,
          .layers = keys_of(batches),
          .micro_batches = usual(of_layers),
          .devices = usual(of_sites),
          .is_by_expert = reader.is_by_expert()};
}

/// The step names what the layout has, no more and no less.
Status check(const CountedStep& step, const Sites& sites, const CountedLayout& layout, ExpertCountReader& reader) {
  for (const ExpertCount& count : step.counts)
    if (!names(layout, place_of(count)))
      return reader.has(
          count.line,
          fmt::format("{} names {} {}, which {}; {}", name_of(count.layer, count.micro_batch), reader.holder(),
                      count.device, step.step == layout.step ? "others do not" : "is in no step before", rule(reader)));
  for (const std::int64_t layer : layout.layers)
    for (const std::int64_t micro_batch : layout.micro_batches) {
      const auto site = sites.find({layer, micro_batch});
      for (const std::int64_t device : layout.devices)
        if (site == sites.end() || !site->second.contains(device))
          return reader.lacks(step, {.layer = layer, .micro_batch = micro_batch, .device = device}, rule(reader));
    }
  return {};
}

Status check_rows(const CountedStep& step, const Sites& sites, const ExpertCountReader& reader) {
  for (const auto& [key, rows] : sites) {
    if (std::ranges::any_of(rows, [](const auto& entry) { return entry.second > 0; })) continue;
    const auto first = std::ranges::find(
        step.counts, key, [](const ExpertCount& count) { return SiteKey(count.layer, count.micro_batch); });
    return reader.wrong(first->line,
                        fmt::format("{} has no rows on any {}", name_of(key.first, key.second), reader.holder()));
  }
  return {};
}

std::vector<std::int64_t> rows_of(const Sites& sites) {
  std::vector<std::int64_t> rows;
  for (const auto& [key, of_devices] : sites)
    for (const auto& [device, count] : of_devices) rows.push_back(count);
  return rows;
}

Error wrong_at_first_line(std::string_view file_name, const std::string& what) {
  return bad_input(fmt::format("{}:1: {}", file_name, what));
}

/// Of `per_device` counts each. Rows of devices are summed.
std::vector<double> device_rows(const std::vector<std::int64_t>& rows, std::size_t per_device) {
  std::vector<double> sums(rows.size() / per_device, 0.0);
  for (std::size_t i = 0; i < rows.size(); ++i) sums[i / per_device] += static_cast<double>(rows[i]);
  return sums;
}

/// Counts that are of one device. Errors: experts that no device is known for, or that do not spread evenly; too little
/// to split the variance.
Result<std::size_t> counts_per_device(const CountedLayout& layout, std::int64_t devices, std::string_view file_name) {
  const std::size_t counted = layout.devices.size();
  std::size_t per_device = 1;
  if (layout.is_by_expert) {
    if (devices < 1) return wrong_at_first_line(file_name, "counts are of experts; those of devices are needed here");
    if (counted % static_cast<std::size_t>(devices) != 0)
      return wrong_at_first_line(
          file_name, fmt::format("{} experts are counted, which {} devices do not hold evenly", counted, devices));
    per_device = counted / static_cast<std::size_t>(devices);
  }
  if (layout.sites() >= 2 && counted / per_device >= 2) return per_device;
  return wrong_at_first_line(file_name, fmt::format("{} of (layer, micro-batch) and {} of devices: two of each are "
                                                    "needed to split the variance",
                                                    layout.sites(), counted / per_device));
}

}  // namespace

Result<CountedLayout> each_counted_step(
    std::string_view csv_text, std::string_view file_name,
    const std::function<Status(const CountedLayout&, const std::vector<std::int64_t>&)>& take) {
  std::istringstream in{std::string(csv_text)};
  ExpertCountReader reader(in, std::string(file_name));
  std::optional<CountedLayout> layout;
  for (;;) {
    const Result<std::optional<CountedStep>> step = reader.next();
    if (!step) return step.error();
    if (!step.value()) break;
    const Result<Sites> sites = sites_of(*step.value(), reader);
    if (!sites) return sites.error();
    if (!layout) layout = layout_of(*step.value(), sites.value(), reader);
    if (Status status = check(*step.value(), sites.value(), *layout, reader); !status) return status.error();
    if (Status status = check_rows(*step.value(), sites.value(), reader); !status) return status.error();
    if (Status status = take(*layout, rows_of(sites.value())); !status)
      return reader.unless_out_of_order(status.error());
  }
  return *layout;
}

Result<MeasuredLoads> read_expert_counts(std::string_view csv_text, std::string_view file_name,
                                         const graph_build::ExpertLoadSpec& base, std::int64_t devices) {
  std::optional<graph_build::LoadFitter> fitter;
  std::size_t per_device = 1;
  const Result<CountedLayout> read = each_counted_step(
      csv_text, file_name, [&](const CountedLayout& layout, const std::vector<std::int64_t>& rows) -> Status {
        if (!fitter) {
          const Result<std::size_t> per = counts_per_device(layout, devices, file_name);
          if (!per) return per.error();
          per_device = per.value();
          fitter.emplace(
              graph_build::CountedShape{.layers = std::ssize(layout.layers),
                                        .micro_batches = std::ssize(layout.micro_batches),
                                        .devices = static_cast<std::int64_t>(layout.devices.size() / per_device)});
        }
        fitter->add(device_rows(rows, per_device));
        return {};
      });
  if (!read) return read.error();
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
  const auto& [popularity, device, site] = fit.model.variance;
  std::string text = fmt::format(
      "{}, {}, {}, {}: loads vary by {}, {}, {} (coefficients of variation); "
      "popularity keeps {:.4f} of itself a step; the fullest device has {:.3f} times the mean, {:.3f} by the model",
      counted_text(fit.steps, "step"), counted_text(fit.shape.layers, "layer"),
      counted_text(fit.shape.micro_batches, "micro-batch"), counted_text(fit.shape.devices, "device"),
      part("popularity", popularity, fit.error.popularity), part("device", device, fit.error.device),
      part("sequences", site, fit.error.site), fit.model.persistence, fit.fullest,
      fit.model.mean > 0 ? graph_build::mean_fullest_load(fit.model, fit.shape.devices) / fit.model.mean : 1.0);
  if (!fit.missing.empty()) text += "; " + fit.missing;
  return text;
}

}  // namespace tidemark::formats
