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
  const auto count = static_cast<double>(devices);
  const double spread = std::sqrt(model.variance.sum() * count / (count - 1));
  return model.mean * (1 + spread * mean_of_largest_normal(devices));
}

}  // namespace tidemark::graph_build
