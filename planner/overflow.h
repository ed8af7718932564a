#pragma once
// How likely a device-step is to have routed storages larger than their slots: what rung `room` of the runtime is for
// (swap/load_ladder.h). With the load model (graph_build/load_model.h), a device whose layers have popularity b[l]
// exceeds no room (site_rooms.h) with probability
//
//   E_a prod_l Phi((room_l / mean - 1 - a - b[l]) / s)^n_l      a: the device's part, s^2: variance of a site, n: sites
//
// An integral over a by the trapezoid rule, in terms of 1 - Phi, so that small probabilities keep their digits. A
// forecast starts from counts: the quantiles of what follows from draws of their posterior (load_posterior.h) are the
// interval, with kShareConfidence.

#include <cstdint>
#include <span>
#include <vector>

#include "planner/graph_build/load_fit.h"
#include "planner/site_rooms.h"

namespace tidemark::plan {

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

}  // namespace tidemark::plan
