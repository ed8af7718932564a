#include "planner/expert_load.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tidemark {
namespace {

constexpr int kSamples = 512;
constexpr std::size_t kPositions = 96;
constexpr int kRounds = 4;
constexpr double kTolerance = 0.005;

/// A position of the clock: bytes that do not depend on load, and the routed bytes at load 1 of each site alive there.
struct Position {
  double fixed = 0;
  std::vector<std::pair<std::size_t, double>> routed;
};

/// SplitMix64: small, seeded, the same on every platform.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}
  double normal() {
    // Box-Muller; the second value is dropped to keep one call one draw.
    const double u = (static_cast<double>(next() >> 11) + 0.5) * 0x1.0p-53;
    const double v = (static_cast<double>(next() >> 11) + 0.5) * 0x1.0p-53;
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
  }

 private:
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

/// The half-steps with the most bytes, one per stretch of the clock.
std::vector<std::int32_t> top_positions(const Schedule& schedule) {
  std::vector<Bytes> live(static_cast<std::size_t>(schedule.compute_tasks) * 2 + 2, 0);
  for (const Residency& r : schedule.residencies) {
    if (r.space != MemorySpace::device) continue;
    live[static_cast<std::size_t>(r.acquire)] += r.bytes;
    live[static_cast<std::size_t>(r.release)] -= r.bytes;
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

std::vector<Position> describe(const Graph& graph, const Schedule& schedule) {
  const std::vector<std::int32_t> clocks = top_positions(schedule);
  std::vector<Position> positions(clocks.size());
  std::vector<std::map<std::size_t, double>> routed(clocks.size());
  for (const Residency& r : schedule.residencies) {
    if (r.space != MemorySpace::device) continue;
    const StorageTemplate& t = graph.template_of(r.storage);
    const auto first = std::lower_bound(clocks.begin(), clocks.end(), r.acquire);
    const auto last = std::lower_bound(first, clocks.end(), r.release);
    for (auto it = first; it != last; ++it) {
      const auto p = static_cast<std::size_t>(it - clocks.begin());
      positions[p].fixed += static_cast<double>(t.routed_rows > 0 ? t.fixed_bytes : r.bytes);
      if (t.routed_rows > 0)
        routed[p][row(graph.storages[row(r.storage)].site)] += static_cast<double>(t.routed_rows * t.routed_row_bytes);
    }
  }
  for (std::size_t p = 0; p < positions.size(); ++p) positions[p].routed.assign(routed[p].begin(), routed[p].end());
  return positions;
}

}  // namespace

double equivalent_load(const Graph& graph, const Schedule& schedule, const ExpertLoadSpec& spec) {
  const std::vector<Position> positions = describe(graph, schedule);
  Generator generator(spec.seed + static_cast<std::uint64_t>(graph.rank));
  const double common = spec.coefficient_of_variation * std::sqrt(spec.layer_correlation);
  const double own = spec.coefficient_of_variation * std::sqrt(1.0 - spec.layer_correlation);
  std::vector<double> load(graph.sites.size()), peaks;
  for (int s = 0; s < kSamples; ++s) {
    const double z = generator.normal();
    for (double& f : load) f = std::max(0.0, spec.mean * (1.0 + common * z + own * generator.normal()));
    double peak = 0;
    for (const Position& p : positions) {
      double bytes = p.fixed;
      for (const auto& [site, routed] : p.routed) bytes += load[site] * routed;
      peak = std::max(peak, bytes);
    }
    peaks.push_back(peak);
  }
  std::sort(peaks.begin(), peaks.end());
  const auto rank = static_cast<std::size_t>(std::ceil(spec.quantile * kSamples)) - 1;
  const double wanted = peaks[std::min(rank, peaks.size() - 1)];

  const auto uniform_peak = [&](double f) {
    double peak = 0;
    for (const Position& p : positions) {
      double routed = 0;
      for (const auto& [site, bytes] : p.routed) routed += bytes;
      peak = std::max(peak, p.fixed + f * routed);
    }
    return peak;
  };
  double low = 0, high = std::max(1.0, spec.mean) * 16;
  if (uniform_peak(low) >= wanted) return spec.mean;  // nothing routed sets the peak
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (uniform_peak(middle) < wanted ? low : high) = middle;
  }
  return high;
}

Result<PlanOutcome> plan_for_quantile(const ExpertLoadSpec& spec, std::size_t ranks,
                                      const std::function<Result<PlanOutcome>(const std::vector<double>&)>& plan) {
  std::vector<double> loads(ranks,
                            spec.mean * (1.0 + spec.coefficient_of_variation * std::sqrt(spec.layer_correlation)));
  for (int round = 0;; ++round) {
    Result<PlanOutcome> outcome = plan(loads);
    if (!outcome) return outcome;
    bool covered = true;
    for (const RankPlan& rank : outcome.value().ranks) {
      const double needed = equivalent_load(rank.graph, rank.program.schedule, spec);
      double& planned = loads[static_cast<std::size_t>(rank.graph.rank)];
      if (needed <= planned + kTolerance && planned <= needed + 4 * kTolerance) continue;
      covered = covered && needed <= planned + kTolerance;
      planned = round < kRounds ? needed : std::max(planned, needed);
    }
    if (covered || round > kRounds) return outcome;
  }
}

}  // namespace tidemark
