#pragma once
// From a distribution of expert load to the uniform load a rank is planned at, so that a quantile is one of the rank's
// peak and not of each storage.
//
// Model: graph_build/load_model.h, at least 0 and at most what routing can do; a device of any step, so that drift does
// not matter. A peak sums dozens of sites in flight, so parts of single sites average out, popularity averages out over
// the layers of a rank, and the planned load lies near the mean unless loads are correlated.

#include <cstdint>
#include <utility>
#include <vector>

#include "core/graph.h"
#include "core/liveness.h"
#include "core/schedule.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::graph_build {

/// Quantiles of a rank's highest peak that may be asked for. The peak's distribution is fitted to 512 draws, and of
/// those the largest lies at about 1 - 0.5 / 512 = 0.99902 (Hazen's plotting position): draws say nothing of what lies
/// beyond.
inline constexpr double kLeastLoadQuantile = 0.001, kMostLoadQuantile = 0.999;

/// A position of the clock: bytes that do not depend on load, and the routed bytes at load 1 of each site alive there.
struct LoadPosition {
  double fixed = 0;
  double routed_bytes = 0;  ///< sum of the next
  std::vector<std::pair<std::size_t, double>> routed;
};

/// The highest peaks of the devices of an expert group, one rank's, under loads that are drawn (seeded). Rows sent
/// count as planned, and what is in memory when is held fixed.
class PeakLoads {
 public:
  /// `most_load`: that routing can send to one device.
  PeakLoads(const Graph& graph, const Schedule& schedule, const ExpertLoadSpec& spec, double most_load);
  /// With everything kept.
  PeakLoads(const Graph& graph, const Liveness& liveness, const ExpertLoadSpec& spec, double most_load);

  /// The uniform load at which the rank's peak equals the `quantile` of the highest peak among `devices`, which run in
  /// chunks together where one of them has no room. Devices are taken as independent, and a peak, which sums dozens of
  /// sites, as normal. The mean load where nothing routed sets the peak. At most the most load. REQUIRES: 0 < quantile
  /// < 1; devices >= 1.
  [[nodiscard]] double load_at(double quantile, std::int64_t devices) const;
  /// The share of steps in which no peak of `devices` exceeds that of a uniform load.
  [[nodiscard]] double share_within(double load, std::int64_t devices) const;
  /// By how much load the peaks of `devices` exceed that of a uniform load in the mean, added up.
  [[nodiscard]] double mean_excess(double load, std::int64_t devices) const;
  /// What a unit of load adds to the peak, which is at a uniform load.
  [[nodiscard]] double bytes_per_load(double load) const;

 private:
  PeakLoads(const Graph& graph, std::vector<LoadPosition> positions, const ExpertLoadSpec& spec, double most_load);
  [[nodiscard]] double uniform_peak(double load) const;
  /// The uniform load with this peak, as far as there is one.
  [[nodiscard]] double load_of_peak(double peak) const;
  /// By how many deviations the peak of a uniform load is above the mean peak; infinite where peaks do not deviate.
  [[nodiscard]] double deviations(double load) const;

  /// Of the integral over one device's peak: the uniform load with that peak.
  struct Node {
    double load = 0, weight = 0;
  };

  std::vector<LoadPosition> positions_;
  double mean_load_ = 1, most_load_ = 1;
  double mean_ = 0, deviation_ = 0;  ///< of one device's peak, bytes
  std::vector<Node> nodes_;
};

}  // namespace tidemark::graph_build
