#pragma once
// The single steps a search can take away from "keep": recompute one unit at one site, or swap one gap. Costs and freed
// intervals here are estimates of each move alone; the Evaluator has the last word.

#include <cstdint>
#include <vector>

#include "planner/decision/problem.h"

namespace tidemark {

struct Move {
  Action action = Action::recompute;
  std::int32_t site_class = 0;
  std::int32_t unit = 0;       ///< of the class
  std::int32_t first_gap = 0;  ///< of the site
  std::int32_t slot = 0;       ///< swap: the slot of this gap
  double cost_ns = 0;
  double link_ns = 0;           ///< swap: both directions
  std::int32_t until = 0;       ///< estimate of the half-step at which the bytes are taken again
  std::int32_t from = 0;        ///< estimate of the half-step from which they are free (of the first gap)
  std::int32_t back_clock = 0;  ///< recompute: half-step around which transients live
  Bytes transient_bytes = 0;
  Bytes bytes = 0;  ///< of all gaps of the move
};

/// Every move of a problem: per class, site and unit the recompute (if any), then the swaps that leave room for two
/// copies.
[[nodiscard]] std::vector<Move> list_moves(const DecisionProblem& problem);

/// The gap rows a move acts on.
[[nodiscard]] inline std::vector<std::int32_t> gaps_of(const DecisionProblem& problem, const Move& move) {
  if (move.action == Action::swap) return {move.first_gap + move.slot};
  std::vector<std::int32_t> gaps;
  for (const std::int32_t slot :
       problem.classes[static_cast<std::size_t>(move.site_class)].units[static_cast<std::size_t>(move.unit)].slots)
    gaps.push_back(move.first_gap + slot);
  return gaps;
}

}  // namespace tidemark
