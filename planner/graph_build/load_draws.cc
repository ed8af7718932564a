#include "planner/graph_build/load_draws.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "planner/graph_build/normal_draws.h"

namespace tidemark::graph_build {
namespace {

constexpr double kLayerCv = 0.20, kDeviceCv = 0.05, kSiteCv = 0.07;
constexpr double kHotspotLoad = 3;
constexpr double kCutOff = 1e-3, kMostTerms = 20'000;
constexpr double kColdSpread = 1, kWarmSpread = 0.2, kWarmUpSteps = 500;

/// Streams of draws that do not meet.
enum Stream : std::uint64_t { kOfStep = 1, kOfLayers = 2, kOfHotspot = 3, kOfExperts = 4, kOfExpertLayers = 5 };

/// Whole rows in the proportion of `shares`, none above `most`, which sum to `all`; remainders go to the largest, ties
/// to the lower device. REQUIRES: most * shares.size() >= all.
void share_out(std::span<const double> shares, std::int64_t all, std::int64_t most, std::span<std::int64_t> rows) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<std::pair<double, std::size_t>> remainders;
  std::int64_t left = all;
  for (std::size_t d = 0; d < shares.size(); ++d) {
    const double exact = sum > 0 ? static_cast<double>(all) * shares[d] / sum : 0;
    rows[d] = std::min(most, static_cast<std::int64_t>(exact));
    remainders.emplace_back(static_cast<double>(rows[d]) - exact, d);
    left -= rows[d];
  }
  std::sort(remainders.begin(), remainders.end());
  while (left > 0)
    for (const auto& [remainder, d] : remainders) {
      if (left == 0) break;
      // What is cut off above `most` goes to the others in large parts.
      const std::int64_t part = std::min({left, most - rows[d], std::max<std::int64_t>(1, left / std::ssize(rows))});
      rows[d] += part;
      left -= part;
    }
}

/// Of the logarithms of popularity.
double cold_spread(std::int64_t step) {
  const double warm = std::min(1.0, static_cast<double>(step) / kWarmUpSteps);
  return kColdSpread * std::pow(kWarmSpread / kColdSpread, warm);
}

}  // namespace

std::size_t LoadDraws::place(std::size_t layer, std::int64_t micro_batch, std::int64_t device) const {
  return static_cast<std::size_t>(
      (static_cast<std::int64_t>(layer) * shape_.micro_batches + micro_batch) * shape_.devices + device);
}

std::uint64_t LoadDraws::stream(std::uint64_t kind, std::int64_t step) const {
  return NormalDraws(NormalDraws(seed_ * 8 + kind).next() + static_cast<std::uint64_t>(step)).next();
}

void LoadDraws::add_own(std::int64_t step, std::vector<double>& shares) const {
  NormalDraws draws(stream(kOfStep, step));
  std::vector<double> common(static_cast<std::size_t>(shape_.devices));
  for (double& z : common) z = draws.normal();
  const double cv = own_.coefficient_of_variation;
  const double of_device = cv * std::sqrt(own_.layer_correlation);
  const double of_site = cv * std::sqrt(std::max(0.0, 1 - own_.layer_correlation - own_.popularity_share));
  const std::vector<double> liked = own_popularity(step);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::size_t device = i % common.size();
    const std::size_t layer = i / common.size() / static_cast<std::size_t>(shape_.micro_batches);
    const double popularity = liked.empty() ? 0 : liked[layer * common.size() + device];
    shares[i] = std::max(0.0, 1 + of_device * common[device] + popularity + of_site * draws.normal());
  }
}

std::vector<double> LoadDraws::own_popularity(std::int64_t step) const {
  const double spread = own_.coefficient_of_variation * std::sqrt(own_.popularity_share);
  if (spread <= 0) return {};
  return drifting(kOfLayers, spread, own_.persistence, step,
                  shape_.layers.size() * static_cast<std::size_t>(shape_.devices));
}

std::vector<double> LoadDraws::drifting(std::uint64_t kind, double spread, double keep, std::int64_t step,
                                        std::size_t count) const {
  std::vector<double> liked(count, 0.0);
  // An autoregression as the weighted sum of its innovations, so that a step needs none before it. What is cut off
  // weighs kCutOff; a popularity that hardly drifts does not drift.
  const double terms = keep > 0 ? std::ceil(std::log(kCutOff) / std::log(keep)) : 1;
  const bool fixed = keep >= 1 || terms > kMostTerms;
  double weight = fixed ? spread : spread * std::sqrt(1 - keep * keep);
  for (std::int64_t back = 0; back < (fixed ? 1 : static_cast<std::int64_t>(terms)); ++back, weight *= keep) {
    NormalDraws layers(stream(kind, fixed ? 0 : step - back));
    for (double& part : liked) part += weight * layers.normal();
  }
  return liked;
}

void LoadDraws::add_persistent(std::int64_t step, std::vector<double>& shares) const {
  NormalDraws layers(stream(kOfLayers, 0)), draws(stream(kOfStep, step));
  const auto devices = static_cast<std::size_t>(shape_.devices);
  std::vector<double> popularity(shape_.layers.size() * devices), common(devices);
  for (double& z : popularity) z = layers.normal();
  for (double& z : common) z = draws.normal();
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::size_t device = i % devices, layer = i / devices / static_cast<std::size_t>(shape_.micro_batches);
    shares[i] = std::max(0.0, 1 + kLayerCv * popularity[layer * devices + device] + kDeviceCv * common[device] +
                                  kSiteCv * draws.normal());
  }
}

void LoadDraws::add_cold_start(std::int64_t step, std::vector<double>& shares) const {
  NormalDraws layers(stream(kOfLayers, 0)), draws(stream(kOfStep, step));
  const double spread = cold_spread(step);
  const auto devices = static_cast<std::size_t>(shape_.devices);
  std::vector<double> popularity(shape_.layers.size() * devices, 0.0);
  const std::int64_t own = std::max<std::int64_t>(1, shape_.experts / shape_.devices);
  for (double& device : popularity)
    for (std::int64_t e = 0; e < own; ++e) device += std::exp(spread * layers.normal());
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::size_t device = i % devices, layer = i / devices / static_cast<std::size_t>(shape_.micro_batches);
    shares[i] = popularity[layer * devices + device] * std::max(0.0, 1 + kSiteCv * draws.normal());
  }
}

void LoadDraws::set_load(std::vector<double>& shares, std::size_t layer, std::int64_t micro_batch, std::int64_t device,
                         double load) const {
  double others = 0;
  for (std::int64_t d = 0; d < shape_.devices; ++d)
    if (d != device) others += shares[place(layer, micro_batch, d)];
  const double part = std::min(1.0, load / static_cast<double>(shape_.devices));
  const bool alone = part >= 1 || others <= 0;
  for (std::int64_t d = 0; d < shape_.devices; ++d) {
    double& share = shares[place(layer, micro_batch, d)];
    share = d == device ? part : alone ? 0 : share / others * (1 - part);
  }
}

std::vector<double> LoadDraws::shares(std::int64_t step) const {
  std::vector<double> shares(shape_.layers.size() * static_cast<std::size_t>(shape_.micro_batches * shape_.devices));
  if (family_ == LoadFamily::persistent)
    add_persistent(step, shares);
  else if (family_ == LoadFamily::cold_start)
    add_cold_start(step, shares);
  else
    add_own(step, shares);
  if (family_ == LoadFamily::own || family_ == LoadFamily::persistent || family_ == LoadFamily::cold_start)
    return shares;
  NormalDraws draws(stream(kOfHotspot, step));
  const std::size_t hot_layer = draws.next() % shape_.layers.size();
  const auto micro_batch = static_cast<std::int64_t>(draws.next() % static_cast<std::uint64_t>(shape_.micro_batches));
  const auto device = static_cast<std::int64_t>(draws.next() % static_cast<std::uint64_t>(shape_.devices));
  const double load =
      family_ == LoadFamily::hotspot ? std::min(kHotspotLoad, shape_.most_routed_load()) : shape_.most_routed_load();
  for (std::size_t layer = 0; layer < shape_.layers.size(); ++layer) {
    if (family_ != LoadFamily::worst_step && layer != hot_layer) continue;
    for (std::int64_t m = 0; m < shape_.micro_batches; ++m)
      if (family_ != LoadFamily::worst_site || m == micro_batch) set_load(shares, layer, m, device, load);
  }
  return shares;
}

std::vector<std::int64_t> LoadDraws::rows(std::int64_t step) const {
  return share_rows(shape_, shares(step), shape_.all_rows());
}

LoadDraws::ExpertSpread LoadDraws::expert_spread() const {
  if (family_ == LoadFamily::persistent) return {.layer = kLayerCv, .site = kSiteCv};
  if (family_ == LoadFamily::cold_start) return {.layer = 0, .site = kSiteCv};
  const double cv = own_.coefficient_of_variation;
  return {.layer = cv * std::sqrt(own_.popularity_share),
          .site = cv * std::sqrt(std::max(0.0, 1 - own_.layer_correlation - own_.popularity_share))};
}

std::vector<double> LoadDraws::expert_popularity(std::int64_t step) const {
  const std::int64_t own = std::max<std::int64_t>(1, shape_.experts / shape_.devices);
  std::vector<double> weights(shape_.layers.size() * static_cast<std::size_t>(shape_.devices * own), 1.0);
  if (family_ == LoadFamily::cold_start) {  // the experts that make up the device's popularity
    NormalDraws layers(stream(kOfLayers, 0));
    const double spread = cold_spread(step);
    for (double& weight : weights) weight = std::exp(spread * layers.normal());
    return weights;
  }
  const double spread = std::sqrt(static_cast<double>(own)) * expert_spread().layer;
  if (spread <= 0) return weights;
  const double keep = family_ == LoadFamily::persistent ? 1 : own_.persistence;
  const std::vector<double> liked = drifting(kOfExpertLayers, spread, keep, step, weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] += liked[i];
  return weights;
}

std::vector<std::int64_t> LoadDraws::expert_rows(std::int64_t step) const {
  const std::vector<std::int64_t> of_devices = rows(step);
  const auto own = static_cast<std::size_t>(std::max<std::int64_t>(1, shape_.experts / shape_.devices));
  const std::vector<double> popularity = expert_popularity(step);
  const double of_site = std::sqrt(static_cast<double>(own)) * expert_spread().site;
  const std::int64_t most = shape_.most_expert_rows > 0 ? shape_.most_expert_rows : shape_.most_rows;
  const auto devices = static_cast<std::size_t>(shape_.devices);
  NormalDraws draws(stream(kOfExperts, step));
  std::vector<std::int64_t> rows(of_devices.size() * own);
  std::vector<double> weights(own);
  for (std::size_t i = 0; i < of_devices.size(); ++i) {
    const std::size_t layer = i / devices / static_cast<std::size_t>(shape_.micro_batches);
    const double* liked = &popularity[(layer * devices + i % devices) * own];
    for (double& weight : weights) weight = draws.normal();
    const double mean = std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(own);
    const double liked_mean = std::accumulate(liked, liked + own, 0.0) / static_cast<double>(own);
    // Given what the device has, experts deviate from its mean as independent ones from theirs.
    const double device = static_cast<double>(of_devices[i]) / static_cast<double>(shape_.mean_rows);
    for (std::size_t e = 0; e < own; ++e) {
      const double site = of_site * (weights[e] - mean);
      weights[e] = std::max(
          0.0, family_ == LoadFamily::cold_start ? liked[e] * (1 + site) : device + liked[e] - liked_mean + site);
    }
    share_out(weights, of_devices[i], most, std::span(rows).subspan(i * own, own));
  }
  return rows;
}

std::vector<std::int64_t> share_rows(const LoadShape& shape, std::span<const double> parts, std::int64_t all) {
  std::vector<std::int64_t> rows(parts.size(), 0);
  const auto devices = static_cast<std::size_t>(shape.devices);
  for (std::size_t i = 0; i < parts.size(); i += devices)
    share_out(parts.subspan(i, devices), all, shape.most_rows, std::span(rows).subspan(i, devices));
  return rows;
}

}  // namespace tidemark::graph_build
