#include "integrations/run/load_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace tidemark::run {

StepLoads::StepLoads(const graph_build::LoadShape& shape)
    : rows_of_layers_(static_cast<std::size_t>(shape.layers.back()) + 1, -1),
      micro_batches_(shape.micro_batches),
      devices_(shape.devices),
      mean_rows_(shape.mean_rows),
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
  return static_cast<double>(rows_[place(row_of(layer), micro_batch, device)]) / static_cast<double>(mean_rows_);
}

SiteLoad StepLoads::site(std::int64_t layer, std::int64_t micro_batch, std::int64_t device) const {
  const double received = at(layer, micro_batch, device);
  if (nodes_ == 1) return received;
  const std::int64_t row = row_of(layer);
  const auto rows_of = [&](std::int64_t first, std::int64_t last) {
    const auto begin = rows_.begin() + static_cast<std::ptrdiff_t>(place(row, micro_batch, first));
    return static_cast<double>(std::accumulate(begin, begin + (last - first), std::int64_t{0}));
  };
  // The last node may have fewer devices.
  const std::int64_t first = device / node_devices_ * node_devices_, end = std::min(devices_, first + node_devices_);
  const double mean = rows_of(0, devices_) / static_cast<double>(devices_);
  return {received, mean > 0 ? rows_of(first, end) / (static_cast<double>(end - first) * mean) : 1};
}

double StepLoads::fullest(std::int64_t layer, std::int64_t micro_batch) const {
  const auto first = rows_.begin() + static_cast<std::ptrdiff_t>(place(row_of(layer), micro_batch, 0));
  return static_cast<double>(*std::max_element(first, first + devices_)) / static_cast<double>(mean_rows_);
}

double StepLoads::most() const {
  return static_cast<double>(*std::max_element(rows_.begin(), rows_.end())) / static_cast<double>(mean_rows_);
}

std::vector<double> StepLoads::all() const {
  std::vector<double> loads;
  loads.reserve(rows_.size());
  for (const std::int64_t rows : rows_) loads.push_back(static_cast<double>(rows) / static_cast<double>(mean_rows_));
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
    return reader.wrong(count.line, fmt::format("{} rows: at most {} can reach one device of this job, {} times the "
                                                "mean of {}",
                                                count.rows, shape.most_rows, shape.most_load(), shape.mean_rows));
  std::int64_t& rows = rows_[place(row, count.micro_batch, count.device)];
  if (rows >= 0)
    return reader.wrong(count.line, fmt::format("layer {}, micro-batch {} names device {} twice", count.layer,
                                                count.micro_batch, count.device));
  rows = count.rows;
  return {};
}

Status StepLoads::check(const formats::CountedStep& step, const graph_build::LoadShape& shape,
                        const formats::ExpertCountReader& reader) const {
  const int line = step.counts.back().line;
  for (std::int64_t row = 0; row < std::ssize(shape.layers); ++row)
    for (std::int64_t m = 0; m < micro_batches_; ++m) {
      std::int64_t sum = 0;
      for (std::int64_t d = 0; d < devices_; ++d) {
        const std::int64_t rows = rows_[place(row, m, d)];
        if (rows < 0)
          return reader.wrong(line, fmt::format("step {} ends here without layer {}, micro-batch {}, device {}; a step "
                                                "names every device of every (layer, micro-batch)",
                                                step.step, shape.layers[static_cast<std::size_t>(row)], m, d));
        sum += rows;
      }
      if (sum > mean_rows_ * devices_)
        return reader.wrong(
            line, fmt::format("step {}: layer {}, micro-batch {} has {} rows on all devices; the job "
                              "has {}",
                              step.step, shape.layers[static_cast<std::size_t>(row)], m, sum, mean_rows_ * devices_));
    }
  return {};
}

Result<StepLoads> StepLoads::of(const formats::CountedStep& step, const graph_build::LoadShape& shape,
                                const formats::ExpertCountReader& reader) {
  StepLoads loads(shape);
  for (const formats::ExpertCount& count : step.counts)
    if (Status status = loads.add(count, shape, reader); !status) return status.error();
  if (Status status = loads.check(step, shape, reader); !status) return status.error();
  return loads;
}

StepLoads StepLoads::of_rows(std::vector<std::int64_t> rows, const graph_build::LoadShape& shape) {
  StepLoads loads(shape);
  loads.rows_ = std::move(rows);
  return loads;
}

}  // namespace tidemark::run
