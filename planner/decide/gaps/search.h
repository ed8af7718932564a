#pragma once
// Finds choices that fit at the least cost: the searches behind every rule that decides.
//
// optimal: prices from the Lagrangian bound start a choice; overflowing positions are repaired with the moves of least
// reduced cost per byte; moves that turn out unneeded are undone, dearest first; every round is re-priced exactly by
// the Pricer. Small problems are enumerated and proven. Deterministic: bounded by rounds, never by the clock.

#include <cstdint>
#include <functional>
#include <optional>

#include "planner/decide/gaps/gap_problem.h"
#include "planner/decide/gaps/prices.h"

namespace tidemark::decide::gaps {

struct SearchResult {
  Choice choice;
  Pricing pricing;
  bool fits = false;             ///< device and host budgets hold in `pricing`
  double lower_bound = 0;        ///< no choice that fits adds less
  bool proven_optimal = false;   ///< enumerated completely
  std::optional<Prices> prices;  ///< what proves the bound, where it was not enumerated
};

/// Where a search sets out from, found for all ranks together.
struct SearchStart {
  Choice choice;
  Prices prices;       ///< near those of the problem
  Prices full_prices;  ///< near those of all that is added
};

/// How far a search goes.
enum class SearchDepth : std::uint8_t {
  /// Prices, rounded and repaired, and where that does not fit a start with everything recomputed; small problems as
  /// with `full`.
  brief,
  rounding,  ///< prices, rounded and repaired: a start for searches of another kind
  full,      ///< small problems enumerated or refined besides, and other starts where nothing fits
};
/// A long step that repeats itself is decided on a short one (period.h) and priced, mended and bounded on the whole.
/// Told to stop, it ends with the best choice so far, of those that fit or else of the others.
[[nodiscard]] SearchResult search_optimal(const GapProblem& problem, Pricer& pricer, Bytes device_budget,
                                          Bytes host_budget, SearchDepth depth = SearchDepth::full,
                                          const std::function<bool()>& should_stop = {},
                                          const SearchStart* start = nullptr);

/// Whole kinds of moves at a time, most bytes per added cost first, until it fits. `taken` is called after each that
/// was taken, while the pricer holds the choice so far.
[[nodiscard]] SearchResult search_greedy(const GapProblem& problem, Pricer& pricer, Bytes device_budget,
                                         Bytes host_budget, const std::function<void()>& taken = {});

/// Every choice, priced exactly by depth-first search with pruning on cost. REQUIRES: count_choices is small.
[[nodiscard]] SearchResult search_exhaustively(const GapProblem& problem, Pricer& pricer, Bytes device_budget,
                                               Bytes host_budget);
/// How many choices that is (saturating).
[[nodiscard]] double count_choices(const GapProblem& problem);

/// A choice that fits beats one that does not, then less added cost; among those that do not fit, less host memory over
/// the budget, then the lower device peak.
[[nodiscard]] bool is_better(const SearchResult& a, const SearchResult& b, Bytes host_budget);

/// The choice with its exact price. Clears what a search would add.
[[nodiscard]] SearchResult priced(Choice choice, Pricer& pricer, Bytes device_budget, Bytes host_budget);

}  // namespace tidemark::decide::gaps
