#pragma once
// For how much expert load a rank should hold memory. A byte held costs time in every step: the price of memory, dual
// to the budget (decide/gaps/prices.h). A byte short costs time where loads are high: sections run in chunks. Both are
// equal at one quantile of the rank's highest peak in its expert group, where the expected step is shortest.
//
//   expected(f) = held * f + short * G * E[(M - f)+]      M: load of one device's peak; G: devices
//   0           = held - short * G * P(M > f)
//   quantile    = P(M <= f) ^ G = (1 - held / (short * G)) ^ G
//
// Any device that is short puts its whole group in chunks, hence G; and delays of the ranks of a pipeline come at
// different sites, so that the step waits for more than one rank's and for less than all ranks' together: the geometric
// mean of both is taken, sqrt(P) for P ranks. Steps that were played waited 2.3 and 2.7 times as long as for one of 4
// ranks, and 5 times as long as for one of 16 (simulated, 27 Nov 2026): it is low by 13 to 26 %. First order: prices
// hold near the plan they were found for, and a rank that is short by one part in n of its routed bytes runs one site
// in n in chunks.

#include <cstdint>

#include "planner/planner.h"

namespace tidemark::plan {

/// Per unit of expert load, ns of a step, modelled.
struct LoadPrices {
  double held_ns = 0;   ///< for memory
  double short_ns = 0;  ///< for sections in chunks, of one device and what it adds to those of other ranks
  [[nodiscard]] bool are_known() const { return held_ns > 0 && short_ns > 0; }
};

/// `bytes_per_load`: what a unit of load adds to the rank's peak. A delay of any rank of the pipeline holds all up. 0:
/// memory has no price that is known; a section of the plan cannot run in chunks. O(tasks + touches).
[[nodiscard]] LoadPrices load_prices(const RankPlan& plan, const PlanRequest& request, double bytes_per_load);

/// In [0, 1]. Where chunks have no price: 0.
[[nodiscard]] double best_quantile(const LoadPrices& prices, std::int64_t devices);

}  // namespace tidemark::plan
