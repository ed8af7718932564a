#include "planner/graph_build/dropped_rows.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace tidemark::graph_build {
namespace {

/// E[(x - c)+] for a normal x.
double mean_above(double mean, double deviation, double c) {
  if (deviation <= 0) return std::max(0.0, mean - c);
  const double z = (c - mean) / deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  return std::max(0.0, deviation * (density - z * std::erfc(z / std::numbers::sqrt2) / 2));
}

}  // namespace

std::int64_t capacity_of(double factor, std::int64_t rows, std::int64_t holders) {
  constexpr double kExact = 1e-12, kMost = 0x1p53;  // of whole numbers in a double
  const double capacity = factor * static_cast<double>(rows) / static_cast<double>(holders);
  return static_cast<std::int64_t>(std::min(kMost, std::ceil(capacity * (1 - kExact))));
}

void add_dropped(std::span<const std::int64_t> counts, std::int64_t counts_per_holder, double factor,
                 DroppedRows& dropped) {
  const auto per_holder = static_cast<std::size_t>(counts_per_holder);
  const std::int64_t rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const std::int64_t capacity = capacity_of(factor, rows, std::ssize(counts) / counts_per_holder);
  dropped.routed += rows;
  for (std::size_t first = 0; first < counts.size(); first += per_holder) {
    const auto own = counts.subspan(first, per_holder);
    dropped.dropped += std::max<std::int64_t>(0, std::accumulate(own.begin(), own.end(), std::int64_t{0}) - capacity);
  }
}

double mean_dropped_share(const LoadModel& model, double factor) {
  if (model.mean <= 0) return 0;
  const double deviation = model.mean * std::sqrt(model.variance.sum());
  return mean_above(model.mean, deviation, factor) / mean_above(model.mean, deviation, 0);
}

LoadModel model_of_experts(const LoadModel& of_device, std::int64_t experts, std::int64_t devices) {
  LoadModel model = of_device;
  if (devices < 2) return model;  // one device has all rows, whatever its experts do
  const auto group = static_cast<double>(devices);
  const double times = 1 + static_cast<double>(experts - 1) * group / (group - 1);
  model.variance.popularity *= times;
  model.variance.site *= times;
  return model;
}

}  // namespace tidemark::graph_build
