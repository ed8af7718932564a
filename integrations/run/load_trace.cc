#include "integrations/run/load_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace tidemark::run {
namespace {

/// REQUIRES: the step names the (layer, micro-batch).
int last_line_of(const formats::CountedStep& step, std::int64_t layer, std::int64_t micro_batch) {
  int line = 0;
  for (const formats::ExpertCount& count : step.counts)
    if (count.layer == layer && count.micro_batch == micro_batch) line = count.line;
  return line;
}

}  // namespace

StepLoads::StepLoads(const graph_build::LoadShape& shape)
    : shape_(shape),
      rows_of_layers_(static_cast<std::size_t>(shape.layers.back()) + 1, -1),
      micro_batches_(shape.micro_batches),
      devices_(shape.devices),
      nodes_(shape.nodes),
      node_devices_(shape.node_devices),
      rows_(shape.layers.size() * static_cast<std::size_t>(shape.micro_batches * shape.devices), -1) {
  for (std::size_t row = 0; row < shape.layers.size(); ++row)
    rows_of_layers_[static_cast<std::size_t>(shape.layers[row])] = static_cast<std::int64_t>(row);
}

std::int64_t StepLoads::row_of(std::int64_t layer) const {
  return layer < std::ssize(rows_of_layers_) ? rows_of_layers_[static_cast<std::size_t>(layer)] : -1;
}

std::size_t StepLoads::place(std::int64_t row, std::int64_t micro_batch, std::int64_t device) const {
  return static_cast<std::size_t>((row * micro_batches_ + micro_batch) * devices_ + device);
}

double StepLoads::at(std::int64_t layer, std::int64_t micro_batch, std::int64_t device) const {
  return load_of(rows_[place(row_of(layer), micro_batch, device)]);
}

SiteLoad StepLoads::site(std::int64_t layer, std::int64_t micro_batch, std::int64_t device) const {
  const double received = at(layer, micro_batch, device);
  if (shape_.pads) return shape_.worst();
  if (nodes_ == 1) return received;
  const std::int64_t row = row_of(layer);
  const auto rows_of = [&](std::int64_t first, std::int64_t last) {
    const auto begin = rows_.begin() + static_cast<std::ptrdiff_t>(place(row, micro_batch, first));
    return static_cast<double>(std::accumulate(begin, begin + (last - first), std::int64_t{0}));
  };
  // The last node may have fewer devices.
  const std::int64_t first = device / node_devices_ * node_devices_, end = std::min(devices_, first + node_devices_);
  const double mean = shape_.capacity > 0 ? static_cast<double>(shape_.mean_rows)
                                          : rows_of(0, devices_) / static_cast<double>(devices_);
  return {received, mean > 0 ? rows_of(first, end) / (static_cast<double>(end - first) * mean) : 1};
}

double StepLoads::fullest(std::int64_t layer, std::int64_t micro_batch) const {
  const auto first = rows_.begin() + static_cast<std::ptrdiff_t>(place(row_of(layer), micro_batch, 0));
  return load_of(*std::max_element(first, first + devices_));
}

double StepLoads::most() const {
  return load_of(*std::max_element(rows_.begin(), rows_.end()));
}

std::vector<double> StepLoads::all() const {
  std::vector<double> loads;
  loads.reserve(rows_.size());
  for (const std::int64_t rows : rows_) loads.push_back(load_of(rows));
  return loads;
}

Status StepLoads::add(const formats::ExpertCount& count, const graph_build::LoadShape& shape,
                      const formats::ExpertCountReader& reader) {
  const std::int64_t row = row_of(count.layer);
  if (row < 0)
    return reader.wrong(count.line,
                        fmt::format("layer {} has no experts in this job; {} layers from {} to {} have", count.layer,
                                    shape.layers.size(), shape.layers.front(), shape.layers.back()));
  if (count.micro_batch >= shape.micro_batches)
    return reader.wrong(count.line, fmt::format("micro-batch {}: the job has micro-batches 0 to {}", count.micro_batch,
                                                shape.micro_batches - 1));
  if (count.device >= shape.devices)
    return reader.wrong(count.line, fmt::format("device {}: an expert group of this job has devices 0 to {}",
                                                count.device, shape.devices - 1));
  if (count.rows > shape.most_rows)
    return reader.wrong(count.line,
                        fmt::format("{} rows: at most {} can reach one device of this job, {:.4g} times the "
                                    "mean of {}",
                                    count.rows, shape.most_rows, shape.most_routed_load(), shape.mean_rows));
  std::int64_t& rows = rows_[place(row, count.micro_batch, count.device)];
  if (rows >= 0)
    return reader.wrong(count.line, fmt::format("layer {}, micro-batch {} names device {} twice", count.layer,
                                                count.micro_batch, count.device));
  rows = count.rows;
  return {};
}

Status StepLoads::check(const formats::CountedStep& step, const graph_build::LoadShape& shape,
                        formats::ExpertCountReader& reader) const {
  for (const std::int64_t layer : shape.layers)
    for (std::int64_t m = 0; m < micro_batches_; ++m) {
      const auto site = std::span(rows_).subspan(place(row_of(layer), m, 0), static_cast<std::size_t>(devices_));
      if (const auto missing = std::ranges::find(site, -1); missing != site.end())
        return reader.lacks(step, {.layer = layer, .micro_batch = m, .device = missing - site.begin()},
                            "a step names every device of every (layer, micro-batch)");
      const std::int64_t sum = std::accumulate(site.begin(), site.end(), std::int64_t{0});
      if (sum != shape.all_rows())
        return reader.wrong(last_line_of(step, layer, m),
                            fmt::format("step {}: layer {}, micro-batch {} has {} rows on all devices together; the "
                                        "job routes {}{}",
                                        step.step, layer, m, sum, shape.all_rows(),
                                        shape.capacity > 0 ? " before any is dropped" : ", and drops none"));
    }
  return {};
}

Result<StepLoads> StepLoads::of(const formats::CountedStep& counted, const graph_build::LoadShape& shape,
                                formats::ExpertCountReader& reader) {
  const Result<formats::CountedStep> step = formats::by_device(counted, reader, shape.experts, shape.devices);
  if (!step) return step.error();
  StepLoads loads(shape);
  for (const formats::ExpertCount& count : step.value().counts)
    if (Status status = loads.add(count, shape, reader); !status) return status.error();
  if (Status status = loads.check(step.value(), shape, reader); !status) return status.error();
  loads.drop();
  return loads;
}

StepLoads StepLoads::of_rows(std::vector<std::int64_t> rows, const graph_build::LoadShape& shape) {
  StepLoads loads(shape);
  loads.rows_ = std::move(rows);
  loads.drop();
  return loads;
}

void StepLoads::drop() {
  for (std::int64_t& rows : rows_) rows = shape_.held(rows);
}

double StepLoads::load_of(std::int64_t held) const {
  return held == shape_.capacity && held > 0 ? shape_.most_load()
                                             : static_cast<double>(held) / static_cast<double>(shape_.mean_rows);
}

}  // namespace tidemark::run
