#pragma once
// What every decision here comes down to, with nothing said of where it comes from: storages idle in *gaps* on a row of
// positions, and each gap is kept, recomputed or swapped so that what is left fits everywhere at the least cost. Two
// instances: transformer steps folded into site classes (planner/decide/sites) and steps from elsewhere as flat lists
// of ops (planner/decide/flat). Costs are whole numbers of whatever the instance counts (nanoseconds, joules,
// operations).

#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/decision.h"

namespace tidemark::decide::gaps {

/// A single step away from "keep": recompute one unit, or swap one gap. Cost and freed positions are estimates of the
/// move alone; a Pricer has the last word.
struct Move {
  Action action = Action::recompute;
  std::int32_t unit = 0;
  std::int32_t gap = 0;   ///< swap: the gap; recompute: the first of the unit
  std::int32_t slot = 0;  ///< swap: which gap of its kind of unit this is, the same number in alike units
  double cost = 0;
  double full_cost = 0;     ///< where none of it is free
  double link_time = 0;     ///< swap: both directions
  std::int32_t from = 0;    ///< position from which the bytes are free (of the first gap)
  std::int32_t until = 0;   ///< position at which they are taken again
  std::int32_t run_at = 0;  ///< recompute: position around which transients live
  Bytes transient_bytes = 0;
  Bytes bytes = 0;  ///< of all gaps of the move
};

struct GapProblem {
  struct Gap {
    Bytes bytes = 0;
    std::int32_t free_from = 0;   ///< position from which the bytes are free if dropped at once
    std::int32_t taken_from = 0;  ///< position at which they must be back at the latest
    std::int32_t host_until = 0;  ///< a swapped copy holds host memory from free_from at least to this position
    double swap_cost = -1;        ///< at least; negative: cannot be swapped
    double full_swap_cost = -1;   ///< where none of it is free
  };
  /// Gaps that are recomputed together, or not at all. Every gap is in exactly one unit.
  struct Unit {
    std::int32_t first = 0, count = 0;  ///< into unit_gaps
    double recompute_cost = -1;         ///< at least; negative: no recipe
    double full_cost = -1;              ///< where none of it is free
    std::int32_t kind = 0;              ///< units of one kind differ only in where they are on the row
  };
  std::vector<Bytes> base_bytes;  ///< per position, with everything kept
  Bytes base_host_bytes = 0;      ///< in host memory whatever is decided
  std::vector<Gap> gaps;
  std::vector<Unit> units;
  std::vector<std::int32_t> unit_gaps;
  std::int32_t kinds = 0;
  std::vector<Move> moves;
  /// Where a price of memory is looked for: what giving up all excess bytes together may be worth.
  double least_worth = 1e-3, most_worth = 1e9;

  [[nodiscard]] std::span<const std::int32_t> gaps_of(const Unit& unit) const {
    return {unit_gaps.data() + unit.first, static_cast<std::size_t>(unit.count)};
  }
  [[nodiscard]] std::span<const std::int32_t> gaps_of(const Move& move) const {
    if (move.action == Action::swap) return {&move.gap, 1};
    return gaps_of(units[static_cast<std::size_t>(move.unit)]);
  }
};

/// One action per gap; the gaps of one unit are all recomputed or none is.
using Choice = std::vector<Action>;

/// What a choice comes to.
struct Pricing {
  Bytes peak_bytes = 0, host_peak_bytes = 0;
  std::int64_t added_cost = 0;
  std::int64_t exposed_copy_cost = 0;  ///< of that, for waiting on copies
};

/// Prices choices exactly: the one definition of what fits and what it costs. Not thread-safe.
class Pricer {
 public:
  Pricer() = default;
  Pricer(const Pricer&) = delete;
  Pricer& operator=(const Pricer&) = delete;
  virtual ~Pricer() = default;
  virtual Pricing price(const Choice& choice) = 0;

  // Of the choice priced last:
  /// Positions at which the bytes of each gap left and came back (kept gaps: undefined).
  [[nodiscard]] virtual const std::vector<std::int32_t>& freed_from() const = 0;
  [[nodiscard]] virtual const std::vector<std::int32_t>& freed_until() const = 0;
  /// Bytes per position.
  [[nodiscard]] virtual const std::vector<Bytes>& profile() const = 0;
  [[nodiscard]] virtual const std::vector<Bytes>& host_profile() const = 0;
};

/// Everything with a recipe is recomputed.
[[nodiscard]] Choice recompute_all(const GapProblem& problem);

}  // namespace tidemark::decide::gaps
