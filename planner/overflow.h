#pragma once
// How likely a device-step is to have routed storages larger than their slots: what rung `room` of the runtime is for
// (swap/load_ladder.h).
//
// A site's *room* is the largest load f at which all of its storages of rows received fit their slots. With the load
// model (graph_build/load_model.h), a device whose layers have popularity b[l] exceeds no room with probability
//
//   E_a prod_l Phi((room_l / mean - 1 - a - b[l]) / s)^n_l      a: the device's part, s^2: variance of a site, n: sites
//
// An integral over a by the trapezoid rule, in terms of 1 - Phi, so that small probabilities keep their digits. A
// forecast starts from counts: the quantiles of what follows from draws of their posterior (load_posterior.h) are the
// interval.

#include <cstdint>
#include <span>
#include <vector>

#include "planner/graph_build/load_fit.h"
#include "planner/planner.h"

namespace tidemark::plan {

/// Of the two-sided intervals below.
inline constexpr double kOverflowConfidence = 0.95;

/// Sites of a rank whose routed storages fit up to the same load, in one layer.
struct LayerRoom {
  std::int32_t layer = 0;
  double load = 0;  ///< the room
  std::int64_t sites = 0;
  friend bool operator==(const LayerRoom&, const LayerRoom&) = default;
};

/// The room of a site; layer and micro-batch as Site has them.
struct SiteRoom {
  std::int32_t layer = 0;
  std::int32_t micro_batch = 0;
  double load = 0;
  friend bool operator==(const SiteRoom&, const SiteRoom&) = default;
};

/// Of every site with routed storages, ascending site. Exact: load f exceeds it if and only if some storage of rows
/// received is larger than its slot at f (routed_bytes in core/dynamic_region.h).
[[nodiscard]] std::vector<SiteRoom> site_rooms(const RankPlan& plan);
/// Ascending layer and load.
[[nodiscard]] std::vector<LayerRoom> layer_rooms(std::span<const SiteRoom> rooms);

/// Of any device in any step, under a model that is known.
[[nodiscard]] double overflow_probability(const graph_build::LoadModel& model, std::span<const LayerRoom> rooms);

/// A share of device-steps or of sites.
struct ShareForecast {
  double probability = 0;
  double low = 0, high = 0;            ///< of the probability, for what the fit does not know
  double seen_low = 0, seen_high = 0;  ///< of the share that the given number of steps will show
};

struct OverflowForecast {
  ShareForecast steps;  ///< device-steps with any site above its room
  ShareForecast sites;  ///< sites above their room
};

struct ForecastAsk {
  std::int64_t steps = 1;            ///< that follow the last counted one
  std::vector<std::int64_t> layers;  ///< model layer of each layer of the fit
  std::int64_t device = -1;          ///< of the expert group; below 0: all of them
  std::uint64_t seed = 1;
};

/// REQUIRES: every layer of `rooms` is among ask.layers. O(draws x devices x rooms).
[[nodiscard]] OverflowForecast forecast_overflow(const graph_build::LoadFit& fit, std::span<const LayerRoom> rooms,
                                                 const ForecastAsk& ask);

/// A share of which something is known: Beta(above, below).
struct KnownShare {
  double above = 0.5, below = 0.5;  ///< Jeffreys' prior
};

/// The part of `next` that is not exceeded with this chance (beta-binomial). REQUIRES: above, below > 0; next > 0;
/// 0 < chance < 1. O(next).
[[nodiscard]] double share_quantile(const KnownShare& known, std::int64_t next, double chance);

/// Without a model, where loads are not normal (a hot spot that moves): a share that the next `next` exceed with a
/// chance of at most (1 - kOverflowConfidence) / 2, given that `above` of `seen` did. Holds for what is alike and
/// independent. REQUIRES: above <= seen, next > 0. O(next).
[[nodiscard]] inline double share_at_most(std::int64_t above, std::int64_t seen, std::int64_t next) {
  return share_quantile({.above = static_cast<double>(above) + 0.5, .below = static_cast<double>(seen - above) + 0.5},
                        next, (1 + kOverflowConfidence) / 2);
}

/// Of a share that differs from truth to truth, what is known of the next one: each of `above` is counted in `of`
/// trials under a truth of its own. By moments: what the counts scatter more than trials do is between truths.
/// REQUIRES: not empty, of > 0. O(counts).
[[nodiscard]] KnownShare share_of_next(std::span<const std::int64_t> above, std::int64_t of);

}  // namespace tidemark::plan
