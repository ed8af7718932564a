#include "planner/graph_build/expert_load.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <utility>

#include "planner/graph_build/load_model.h"
#include "planner/graph_build/normal_draws.h"

namespace tidemark::graph_build {
namespace {

constexpr int kSamples = 512;
static_assert(1 - 0.5 / kSamples >= kMostLoadQuantile && 0.5 / kSamples <= kLeastLoadQuantile);
constexpr std::size_t kPositions = 32;
constexpr int kBisections = 40, kNodes = 100;  ///< of integrals, on each side
constexpr double kNodesEnd = 7;                ///< deviations

/// A storage in device memory on [begin, end) of some clock.
struct DeviceResidency {
  StorageId storage = kNone<StorageId>;
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

/// The times with the most bytes, one per stretch of the clock.
std::vector<std::int32_t> top_positions(const Graph& graph, const std::vector<DeviceResidency>& residencies,
                                        std::size_t length) {
  std::vector<Bytes> live(length + 1, 0);
  for (const DeviceResidency& s : residencies) {
    live[static_cast<std::size_t>(s.begin)] += graph.storages[row(s.storage)].bytes;
    live[static_cast<std::size_t>(s.end)] -= graph.storages[row(s.storage)].bytes;
  }
  for (std::size_t t = 1; t < live.size(); ++t) live[t] += live[t - 1];
  std::vector<std::int32_t> positions;
  for (std::size_t s = 0; s < kPositions; ++s) {
    const auto begin = live.begin() + static_cast<std::ptrdiff_t>(s * live.size() / kPositions);
    const auto end = live.begin() + static_cast<std::ptrdiff_t>((s + 1) * live.size() / kPositions);
    if (begin != end) positions.push_back(static_cast<std::int32_t>(std::max_element(begin, end) - live.begin()));
  }
  return positions;
}

std::vector<LoadPosition> describe(const Graph& graph, const std::vector<DeviceResidency>& residencies,
                                   std::size_t length) {
  const std::vector<std::int32_t> clocks = top_positions(graph, residencies, length);
  std::vector<LoadPosition> positions(clocks.size());
  std::vector<std::map<std::size_t, double>> routed(clocks.size());
  for (const DeviceResidency& residency : residencies) {
    const StorageTemplate& t = graph.template_of(residency.storage);
    const Storage& storage = graph.storages[row(residency.storage)];
    const auto first = std::lower_bound(clocks.begin(), clocks.end(), residency.begin);
    const auto last = std::lower_bound(first, clocks.end(), residency.end);
    for (auto it = first; it != last; ++it) {
      const auto p = static_cast<std::size_t>(it - clocks.begin());
      const bool follows = t.routed_rows > 0 && t.rows_of == RowsOf::received;
      positions[p].fixed += static_cast<double>(follows ? t.fixed_bytes : storage.bytes);
      if (follows) routed[p][row(storage.site)] += static_cast<double>(t.routed_rows * t.routed_row_bytes);
    }
  }
  for (std::size_t p = 0; p < positions.size(); ++p) {
    positions[p].routed.assign(routed[p].begin(), routed[p].end());
    for (const auto& [site, bytes] : positions[p].routed) positions[p].routed_bytes += bytes;
  }
  return positions;
}

/// Layers of sites, numbered from 0.
std::vector<std::size_t> layer_numbers(const Graph& graph) {
  std::map<std::int32_t, std::size_t> numbers;
  std::vector<std::size_t> of_site;
  for (const Site& site : graph.sites) of_site.push_back(numbers.try_emplace(site.layer, numbers.size()).first->second);
  return of_site;
}

/// Highest bytes of one device under loads drawn anew for each sample.
std::vector<double> sample_peaks(const Graph& graph, const std::vector<LoadPosition>& positions,
                                 const ExpertLoadSpec& spec, double most_load) {
  NormalDraws generator(spec.seed + static_cast<std::uint64_t>(graph.rank));
  const double cv = spec.coefficient_of_variation;
  const double common = cv * std::sqrt(spec.layer_correlation);
  const double popularity = cv * std::sqrt(spec.popularity_share);
  const double own = cv * std::sqrt(std::max(0.0, 1.0 - spec.layer_correlation - spec.popularity_share));
  const std::vector<std::size_t> layer_of = layer_numbers(graph);
  std::vector<double> liked(layer_of.empty() ? 0 : 1 + *std::ranges::max_element(layer_of), 0.0);
  std::vector<double> load(graph.sites.size()), peaks;
  for (int s = 0; s < kSamples; ++s) {
    const double z = generator.normal();
    if (popularity > 0)
      for (double& part : liked) part = popularity * generator.normal();
    for (std::size_t i = 0; i < load.size(); ++i)
      load[i] = std::clamp(spec.mean * (1.0 + common * z + liked[layer_of[i]] + own * generator.nearly_normal()), 0.0,
                           most_load);
    double peak = 0;
    for (const LoadPosition& p : positions) {
      double bytes = p.fixed;
      for (const auto& [site, routed] : p.routed) bytes += load[site] * routed;
      peak = std::max(peak, bytes);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<LoadPosition> positions_of(const Graph& graph, const Schedule& schedule) {
  std::vector<DeviceResidency> residencies;
  for (const Residency& r : schedule.residencies)
    if (r.space == MemorySpace::device) residencies.push_back({r.storage, r.acquire, r.release});
  return describe(graph, residencies, static_cast<std::size_t>(schedule.compute_tasks) * 2 + 1);
}

std::vector<LoadPosition> positions_of(const Graph& graph, const Liveness& liveness) {
  std::vector<DeviceResidency> residencies;
  for (std::size_t s = 0; s < graph.storages.size(); ++s)
    if (liveness.ranges[s].begin < liveness.ranges[s].end)
      residencies.push_back({id_of<StorageId>(s), liveness.ranges[s].begin, liveness.ranges[s].end});
  return describe(graph, residencies, graph.ops.size());
}

}  // namespace

PeakLoads::PeakLoads(const Graph& graph, const Schedule& schedule, const ExpertLoadSpec& spec, double most_load)
    : PeakLoads(graph, positions_of(graph, schedule), spec, most_load) {}

PeakLoads::PeakLoads(const Graph& graph, const Liveness& liveness, const ExpertLoadSpec& spec, double most_load)
    : PeakLoads(graph, positions_of(graph, liveness), spec, most_load) {}

PeakLoads::PeakLoads(const Graph& graph, std::vector<LoadPosition> positions, const ExpertLoadSpec& spec,
                     double most_load)
    : positions_(std::move(positions)), mean_load_(spec.mean), most_load_(std::max(spec.mean, most_load)) {
  const std::vector<double> samples = sample_peaks(graph, positions_, spec, most_load_);
  double squares = 0;
  for (const double sample : samples) mean_ += sample / static_cast<double>(samples.size());
  for (const double sample : samples) squares += (sample - mean_) * (sample - mean_);
  deviation_ = std::sqrt(squares / static_cast<double>(samples.size() - 1));
  double weights = 0;
  for (int i = -kNodes; i <= kNodes; ++i) {
    const double z = kNodesEnd * i / kNodes;
    nodes_.push_back({.load = load_of_peak(mean_ + deviation_ * z), .weight = std::exp(-z * z / 2)});
    weights += nodes_.back().weight;
  }
  for (Node& node : nodes_) node.weight /= weights;
}

double PeakLoads::load_at(double quantile, std::int64_t devices) const {
  const double one = std::clamp(std::pow(quantile, 1.0 / static_cast<double>(devices)), 1e-12, 1 - 1e-12);
  const double wanted = mean_ + deviation_ * normal_quantile(one);
  if (uniform_peak(0) >= wanted) return mean_load_;  // nothing routed sets the peak
  return load_of_peak(wanted);
}

double PeakLoads::load_of_peak(double peak) const {
  double low = 0, high = most_load_;
  for (int i = 0; i < kBisections; ++i) {
    const double middle = (low + high) / 2;
    (uniform_peak(middle) < peak ? low : high) = middle;
  }
  return high;
}

double PeakLoads::share_within(double load, std::int64_t devices) const {
  if (load >= most_load_) return 1;
  return std::pow(std::erfc(-deviations(load) / std::numbers::sqrt2) / 2, static_cast<double>(devices));
}

double PeakLoads::deviations(double load) const {
  const double above = uniform_peak(load) - mean_;
  if (deviation_ > 0) return above / deviation_;
  return above < 0 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

double PeakLoads::mean_excess(double load, std::int64_t devices) const {
  double excess = 0;
  for (const Node& node : nodes_) excess += node.weight * std::max(0.0, node.load - load);
  return static_cast<double>(devices) * excess;
}

double PeakLoads::bytes_per_load(double load) const {
  double peak = 0, bytes = 0;
  for (const LoadPosition& p : positions_) {
    const double routed = p.routed_bytes;
    if (p.fixed + load * routed <= peak) continue;
    peak = p.fixed + load * routed;
    bytes = routed;
  }
  return bytes;
}

double PeakLoads::uniform_peak(double load) const {
  double peak = 0;
  for (const LoadPosition& p : positions_) peak = std::max(peak, p.fixed + load * p.routed_bytes);
  return peak;
}

}  // namespace tidemark::graph_build
