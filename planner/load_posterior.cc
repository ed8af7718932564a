#include "planner/load_posterior.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tidemark::plan {
namespace {

using graph_build::StepMeans;

/// The filter's variance and estimates for one autoregression observed with noise.
double filter(const std::vector<StepMeans>& steps, std::vector<double> StepMeans::*of, double persistence,
              double variance, double noise, std::vector<double>& estimate) {
  double unknown = variance;
  for (const StepMeans& step : steps) {
    const double gain = unknown + noise > 0 ? unknown / (unknown + noise) : 0;
    const std::vector<double>& seen = step.*of;
    const bool is_last = &step == &steps.back();
    for (std::size_t i = 0; i < estimate.size(); ++i) {
      estimate[i] += gain * (seen[i] - estimate[i]);
      if (!is_last) estimate[i] *= persistence;
    }
    unknown *= 1 - gain;
    if (!is_last) unknown = persistence * persistence * unknown + (1 - persistence * persistence) * variance;
  }
  return unknown;
}

/// Of a variance between devices of a layer, what is about the device's mean over layers.
double inside_share(const graph_build::CountedShape& shape) {
  const auto layers = static_cast<double>(shape.layers);
  return layers > 1 ? (layers - 1) / layers : 1;
}

}  // namespace

LoadPosterior::LoadPosterior(const graph_build::LoadFit& fit, std::vector<std::size_t> layers, std::uint64_t seed)
    : fit_(fit), rows_(layers.size()), devices_(static_cast<std::size_t>(fit.shape.devices)), draws_(seed) {
  for (const StepMeans& step : fit.recent) {
    recent_.push_back({.of_layer = {}, .of_device = step.of_device});
    for (const std::size_t layer : layers) {
      const auto begin = step.of_layer.begin() + static_cast<std::ptrdiff_t>(layer * devices_);
      recent_.back().of_layer.insert(recent_.back().of_layer.end(), begin, begin + fit.shape.devices);
    }
  }
}

void LoadPosterior::draw() {
  draw_variances();
  filter_popularity();
  scatter(of_layer_, layer_unknown_);
  scatter(of_device_, device_unknown_);
}

void LoadPosterior::drift(double steps) {
  drift(of_layer_, layer_variance_, steps);
  drift(of_device_, lasting_variance_, steps);
}

std::vector<double> LoadPosterior::draw_step() {
  // Variances are those of loads that share a fixed number of rows; sharing out takes a G-th from parts that do not
  // yet.
  const auto group = static_cast<double>(devices_);
  const double shared = std::sqrt(group / std::max(1.0, group - 1));
  std::vector<double> of_device(devices_), step;
  for (double& part : of_device) part = shared * device_ * draws_.normal();
  for (std::size_t layer = 0; layer < rows_; ++layer)
    for (std::int64_t m = 0; m < fit_.shape.micro_batches; ++m)
      for (std::size_t d = 0; d < devices_; ++d)
        step.push_back(std::max(0.0, 1 + popularity(layer, d) + of_device[d] + shared * site_ * draws_.normal()));
  return step;
}

double LoadPosterior::variance_near(double variance, double error) {
  if (variance <= 0 || error <= 0) return std::max(0.0, variance + std::max(0.0, error * draws_.normal()));
  // Wilson and Hilferty's chi-squared, of as many degrees of freedom as the error tells. Its inverse would be the
  // posterior, and foresees 15 % too much overflow where three steps were counted.
  const double free = 2 * variance * variance / (error * error);
  const double cube = 1 - 2 / (9 * free) + draws_.normal() * std::sqrt(2 / (9 * free));
  return variance * std::max(0.0, cube * cube * cube);
}

void LoadPosterior::draw_variances() {
  const graph_build::LoadParts& v = fit_.model.variance;
  const double inside = inside_share(fit_.shape);
  site_ = std::sqrt(variance_near(v.site, fit_.error.site));
  device_ = std::sqrt(variance_near(fit_.device_step, fit_.device_step_error));
  const double popularity = variance_near(v.popularity, fit_.error.popularity);
  layer_variance_ = popularity * inside;
  lasting_variance_ = std::max(fit_.device_lasting, popularity * (1 - inside));
  const double u = static_cast<double>(draws_.next() >> 11) * 0x1.0p-53;
  persistence_ = fit_.persistence_error >= 1
                     ? u
                     : std::clamp(fit_.model.persistence + fit_.persistence_error * draws_.normal(), 0.0, 1.0);
}

void LoadPosterior::filter_popularity() {
  const auto layers = static_cast<double>(fit_.shape.layers);
  const double noise = site_ * site_ / static_cast<double>(fit_.shape.micro_batches);
  of_layer_.assign(rows_ * devices_, 0.0);
  of_device_.assign(devices_, 0.0);
  layer_unknown_ =
      filter(recent_, &StepMeans::of_layer, persistence_, layer_variance_, noise * inside_share(fit_.shape), of_layer_);
  device_unknown_ = layers > 1 ? filter(recent_, &StepMeans::of_device, persistence_, lasting_variance_,
                                        device_ * device_ + noise / layers, of_device_)
                               : 0;
}

void LoadPosterior::drift(std::vector<double>& parts, double variance, double steps) {
  const double kept_share = std::pow(persistence_, steps);
  for (double& part : parts) part *= kept_share;
  scatter(parts, variance * (1 - kept_share * kept_share));
}

/// Devices share a fixed number of rows: what one gains the others of its row lose.
void LoadPosterior::scatter(std::vector<double>& parts, double variance) {
  if (variance <= 0) return;
  const double spread = std::sqrt(variance) * shared_spread();
  std::vector<double> row(devices_);
  for (std::size_t begin = 0; begin < parts.size(); begin += devices_) {
    double mean = 0;
    for (double& part : row) {
      part = spread * draws_.normal();
      mean += part / static_cast<double>(devices_);
    }
    for (std::size_t d = 0; d < devices_; ++d) parts[begin + d] += row[d] - mean;
  }
}

double LoadPosterior::shared_spread() const {
  const auto group = static_cast<double>(devices_);
  return std::sqrt(group / std::max(1.0, group - 1));
}

}  // namespace tidemark::plan
