#include "planner/graph_build/load_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tidemark::graph_build {
namespace {

double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double square_of_change(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

/// Steps that an autoregression's squares are worth.
double independent_steps(double persistence, std::int64_t steps) {
  double sum = 1;
  const auto count = static_cast<double>(steps);
  for (std::int64_t k = 1; k < steps; ++k) {
    const double kept_share = std::pow(persistence, 2 * static_cast<double>(k));
    if (kept_share < 1e-6) break;
    sum += 2 * (1 - static_cast<double>(k) / count) * kept_share;
  }
  return count / sum;
}

}  // namespace

/// Mean squares, and the degrees of freedom of one step.
struct LoadFitter::Moments {
  double layers = 0, micro_batches = 0, steps = 0;
  double layer_free = 0, device_free = 0;  ///< per step: of h, of c
  double within = 0;                       ///< site
  double layer = 0;                        ///< popularity + site / M
  double device = 0;                       ///< device + layer / L
  double noise = 0;                        ///< of `layer`: site / M
};

LoadFitter::LoadFitter(const CountedShape& shape) : shape_(shape) {}

void LoadFitter::add(std::span<const double> loads) {
  const auto devices = static_cast<std::size_t>(shape_.devices);
  const auto layers = static_cast<std::size_t>(shape_.layers), batches = static_cast<std::size_t>(shape_.micro_batches);
  StepMeans means{.of_layer = std::vector<double>(layers * devices, 0.0),
                  .of_device = std::vector<double>(devices, 0.0)};
  std::vector<double> deviations(batches * devices);
  for (std::size_t l = 0; l < layers; ++l) {
    const std::span<double> mean = std::span(means.of_layer).subspan(l * devices, devices);
    for (std::size_t m = 0; m < batches; ++m) {
      const std::span<const double> site = loads.subspan((l * batches + m) * devices, devices);
      double all = 0;
      for (const double f : site) all += f;
      load_sum_ += all;
      fullest_sum_ += all > 0 ? std::ranges::max(site) / all : 1 / static_cast<double>(devices);
      for (std::size_t d = 0; d < devices; ++d) {
        const double x = all > 0 ? site[d] * static_cast<double>(devices) / all - 1 : 0;
        deviations[m * devices + d] = x;
        mean[d] += x / static_cast<double>(batches);
      }
    }
    for (std::size_t i = 0; i < deviations.size(); ++i) {
      const double x = deviations[i] - mean[i % devices];
      within_ += x * x;
    }
  }
  // One layer alone cannot be told from its device: all of it counts as the layer's.
  if (layers > 1) {
    for (std::size_t i = 0; i < means.of_layer.size(); ++i)
      means.of_device[i % devices] += means.of_layer[i] / static_cast<double>(layers);
    for (std::size_t i = 0; i < means.of_layer.size(); ++i) means.of_layer[i] -= means.of_device[i % devices];
  }
  layer_ += dot(means.of_layer, means.of_layer);
  device_ += dot(means.of_device, means.of_device);
  if (!recent_.empty()) {
    layer_change_ += square_of_change(means.of_layer, recent_.back().of_layer);
    device_change_ += square_of_change(means.of_device, recent_.back().of_device);
  }
  for (std::size_t i = 0; i < lags_.size(); ++i) {
    const std::size_t back = std::size_t{1} << i;
    if (back > recent_.size()) break;
    lags_[i].products += dot(means.of_layer, recent_[recent_.size() - back].of_layer);
    ++lags_[i].pairs;
  }
  recent_.push_back(std::move(means));
  if (std::ssize(recent_) > kMostLag) recent_.pop_front();
  ++steps_;
}

LoadFitter::Moments LoadFitter::moments() const {
  const auto devices = static_cast<double>(shape_.devices);
  Moments m{.layers = static_cast<double>(shape_.layers),
            .micro_batches = static_cast<double>(shape_.micro_batches),
            .steps = static_cast<double>(steps_)};
  const double layer_parts = std::max(1.0, m.layers - 1);
  m.layer_free = layer_parts * (devices - 1);
  m.device_free = shape_.layers > 1 ? devices - 1 : 0;
  if (shape_.micro_batches > 1) m.within = within_ / (m.steps * m.layers * (m.micro_batches - 1) * devices);
  m.layer = layer_ / (m.steps * layer_parts * devices);
  m.device = device_ / (m.steps * devices);
  return m;
}

double LoadFitter::product_mean(std::size_t lag) const {
  const double layer_parts = std::max(1.0, static_cast<double>(shape_.layers - 1));
  return lags_[lag].products /
         (static_cast<double>(lags_[lag].pairs) * layer_parts * static_cast<double>(shape_.devices));
}

void LoadFitter::fit_persistence(const Moments& m, LoadFit& fit) const {
  // Without micro-batches to compare, the shortest lag stands in for what a step has of popularity.
  const bool alone = shape_.micro_batches < 2;
  const std::size_t first = alone ? 1 : 0;
  const double whole = alone ? (lags_[0].pairs > 0 ? product_mean(0) : 0) : m.layer - m.within / m.micro_batches;
  if (lags_[first].pairs == 0) {
    fit.persistence_error = 1;
    return;
  }
  const double noise = m.within / m.micro_batches;
  // What cannot be told from no popularity does not drift.
  if (whole <= 2 * noise * std::sqrt(2 / (m.layer_free * m.steps)) || whole <= 0) return;
  double ratio = 0, steps = 1, pairs = 1;
  for (std::size_t i = first; i < lags_.size() && lags_[i].pairs > 0; ++i) {
    const double kept_share = std::clamp(product_mean(i) / whole, 0.0, 1.0);
    const auto back = static_cast<double>((std::int64_t{1} << i) - (alone ? 1 : 0));
    if (i > first && (kept_share < 0.5 || static_cast<double>(lags_[i].pairs) < back)) break;
    ratio = kept_share;
    steps = back;
    pairs = static_cast<double>(lags_[i].pairs);
  }
  fit.model.persistence = std::pow(ratio, 1 / steps);
  const double free = m.layer_free * std::max(1.0, pairs / steps), share = noise / whole;
  const double error = std::sqrt(((1 - ratio * ratio) * (1 - ratio * ratio) + 2 * share + share * share) / free);
  fit.persistence_error = std::min(1.0, error / steps * std::pow(std::max(ratio, 0.01), 1 / steps - 1));
}

void LoadFitter::fit_parts(const Moments& m, LoadFit& fit) const {
  LoadParts& variance = fit.model.variance;
  if (shape_.micro_batches > 1) {
    variance.site = m.within;
    variance.popularity = std::max(0.0, m.layer - m.within / m.micro_batches);
  } else {
    const double lasting = lags_[0].pairs > 0 ? product_mean(0) / std::max(0.01, fit.model.persistence) : 0;
    variance.popularity = std::clamp(lasting, 0.0, m.layer);
    variance.site = m.layer - variance.popularity;
  }
  if (shape_.layers > 1) variance.device = std::max(0.0, m.device - m.layer / m.layers);
}

void LoadFitter::fit_device(const Moments& m, LoadFit& fit) const {
  fit.device_step = fit.model.variance.device;
  if (shape_.layers < 2) return;
  const double site = fit.model.variance.site / (m.layers * m.micro_batches);
  if (steps_ < 2) {
    fit.device_lasting = fit.model.variance.popularity / m.layers;
    fit.device_step_error = fit.error.device;
    return;
  }
  // From changes, in which what stays cancels: a few devices say little about the mean of their popularity.
  const auto devices = static_cast<double>(shape_.devices);
  const double changed = device_change_ / (2 * (m.steps - 1) * devices);
  const double of_layers = layer_change_ / (2 * (m.steps - 1) * (m.layers - 1) * devices * m.layers);
  fit.device_step = std::max(0.0, changed - of_layers);
  fit.device_lasting = std::max(0.0, m.device - fit.device_step - site);
  // Successive differences are worth two thirds of their number.
  fit.device_step_error = std::sqrt(2 / (m.device_free * std::max(1.0, (m.steps - 1) * 2 / 3))) * changed;
}

void LoadFitter::fit_errors(const Moments& m, LoadFit& fit) const {
  const LoadParts& variance = fit.model.variance;
  const double site_steps = m.steps * m.layers * (m.micro_batches - 1) * static_cast<double>(shape_.devices - 1);
  const double noise = variance.site / m.micro_batches;
  const double lasting = independent_steps(fit.model.persistence, steps_);
  const double layer = std::sqrt(2 * variance.popularity * variance.popularity / (m.layer_free * lasting) +
                                 2 * noise * (noise + 2 * variance.popularity) / (m.layer_free * m.steps));
  fit.error.popularity = layer;
  fit.error.site = shape_.micro_batches > 1 ? variance.site * std::sqrt(2 / site_steps) : layer;
  if (m.device_free <= 0) return;
  const double drawn = 2 * variance.device * (variance.device + 2 * m.layer / m.layers) / m.steps;
  const double of_layers = 2 * (m.layer / m.layers) * (m.layer / m.layers) / lasting;
  fit.error.device = std::sqrt((drawn + of_layers) * (1 / m.device_free + 1 / m.layer_free));
}

std::string LoadFitter::missing() const {
  std::string text;
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  if (shape_.layers < 2) add("one layer: the part of devices is missing, it counts as popularity");
  if (steps_ < 2 && shape_.micro_batches < 2)
    add("one step of one micro-batch: popularity and its drift are missing, they count as sequences");
  else if (steps_ < 2)
    add("one step: the drift of popularity is missing, taken as none");
  else if (steps_ < 3 && shape_.micro_batches < 2)
    add("two steps of one micro-batch: the drift of popularity is missing, taken as none");
  return text;
}

LoadFit LoadFitter::fit() const {
  LoadFit fit{.shape = shape_, .steps = steps_, .missing = missing(), .recent = {recent_.begin(), recent_.end()}};
  const Moments m = moments();
  const double sites = m.steps * m.layers * m.micro_batches;
  fit.model.mean = load_sum_ / (sites * static_cast<double>(shape_.devices));
  fit.fullest = fullest_sum_ / sites * static_cast<double>(shape_.devices);
  fit_persistence(m, fit);
  fit_parts(m, fit);
  fit_errors(m, fit);
  fit_device(m, fit);
  return fit;
}

}  // namespace tidemark::graph_build
