#include "planner/graph_build/load_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tidemark::graph_build {

LoadModel load_model(const ExpertLoadSpec& spec) {
  const double all = spec.coefficient_of_variation * spec.coefficient_of_variation;
  const double site = std::max(0.0, 1 - spec.layer_correlation - spec.popularity_share);
  return {.mean = spec.mean,
          .variance = {.popularity = all * spec.popularity_share,
                       .device = all * spec.layer_correlation,
                       .site = all * site},
          .persistence = spec.persistence};
}

ExpertLoadSpec spec_of(const LoadModel& model, const ExpertLoadSpec& base) {
  ExpertLoadSpec spec = base;
  const double all = model.variance.sum();
  spec.mean = model.mean;
  spec.coefficient_of_variation = std::sqrt(all);
  spec.layer_correlation = all > 0 ? model.variance.device / all : 0;
  // Rounding must not bring the two shares above 1.
  spec.popularity_share = all > 0 ? std::min(model.variance.popularity / all, 1 - spec.layer_correlation) : 0;
  spec.persistence = model.persistence;
  return spec;
}

double mean_of_largest_normal(std::int64_t count) {
  constexpr double kStep = 1.0 / 64, kEnd = 12;
  double sum = 0;
  for (double x = kStep / 2; x < kEnd; x += kStep) {
    const auto of = static_cast<double>(count);
    const double above = std::erfc(x / std::numbers::sqrt2) / 2;
    sum += -std::expm1(of * std::log1p(-above)) - std::pow(above, of);
  }
  return sum * kStep;
}

namespace {

/// Expected value of the smaller of `most` and the largest of `count` normals: most less the integral of F below it.
double mean_of_capped_largest(std::int64_t count, double most) {
  constexpr double kEnd = 12;
  constexpr int kParts = 2048;
  if (most <= -kEnd) return most;
  const double end = std::min(most, kEnd), part = (end + kEnd) / kParts;
  double below = 0;
  for (int i = 0; i < kParts; ++i) {
    const double x = -kEnd + part * (i + 0.5);
    below += part * std::pow(std::erfc(-x / std::numbers::sqrt2) / 2, static_cast<double>(count));
  }
  return end - below;
}

double group_spread(const LoadModel& model, std::int64_t devices) {
  const auto count = static_cast<double>(devices);
  return std::sqrt(model.variance.sum() * count / (count - 1));
}

}  // namespace

double normal_quantile(double p) {
  // Of the smaller tail, so that p near 1 loses no digits.
  const double tail = std::min(p, 1 - p);
  double low = 0, high = 40;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::numbers::sqrt2) / 2 > tail ? low : high) = middle;
  }
  return p < 0.5 ? -low : low;
}

double mean_fullest_load(const LoadModel& model, std::int64_t devices) {
  if (devices < 2) return model.mean;
  return model.mean * (1 + group_spread(model, devices) * mean_of_largest_normal(devices));
}

double mean_fullest_load(const LoadModel& model, std::int64_t devices, double most) {
  const double spread = devices < 2 ? 0 : group_spread(model, devices);
  if (spread <= 0 || model.mean <= 0) return std::min(model.mean, most);
  return model.mean * (1 + spread * mean_of_capped_largest(devices, (most / model.mean - 1) / spread));
}

}  // namespace tidemark::graph_build
