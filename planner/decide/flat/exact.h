#pragma once
// The best schedule of a list of up to 128 storages, proven: the cheapest path through states (ops done, storages
// resident, storages with a copy outside), by a best-first search that a relaxation guides (relaxation.h). Nothing is
// dropped before room is needed, since what is there can always go later; recomputations may come in any order and any
// number.

#include <cstdint>
#include <functional>
#include <limits>

#include "planner/decide/flat/problem.h"
#include "planner/decide/flat/run_order.h"

namespace tidemark::decide::flat {

constexpr std::int32_t kMostExactStorages = 128;
constexpr std::int64_t kAnyAddedCost = std::numeric_limits<std::int64_t>::max() / 4;

struct ExactLimits {
  std::int64_t most_added = kAnyAddedCost;  ///< dearer states are not looked at
  std::int64_t most_states = 1'000'000;     ///< to reach; about 150 bytes each
  std::int64_t most_work = 0;               ///< ways to make room to look at, about a tenth of a microsecond each
  /// About what the best schedule adds, for the relaxation; < 0: all ops once more.
  std::int64_t likely_added = -1;
  int ascents = 3000;                   ///< of the relaxation, before and again after what is too dear is ruled out
  std::int64_t first_work = 1'000'000;  ///< with most_added: of the work, before memory is priced by storage
  int storage_ascents = 4000;           ///< iterations of each of up to ten ascents that find these prices; 0: none
  std::function<bool()> should_stop;    ///< asked now and then; it ends with what is proven so far
};

enum class ExactStatus : std::uint8_t {
  found,  ///< the best schedule
  none,   ///< proven: none adds up to most_added
  open,   ///< a limit was met
};

struct ExactAnswer {
  ExactStatus status = ExactStatus::open;
  RunOrder schedule;                  ///< that was found, or where it is open the best so far; empty: none
  std::int64_t added_cost = 0;        ///< of it
  std::int64_t least_added_cost = 0;  ///< no schedule adds less, or less than most_added + 1
  std::int64_t states = 0, work = 0;  ///< that were looked at
};

/// `open` at once: more than kMostExactStorages. REQUIRES: copies take no time (Problem::has_link). Deterministic
/// unless told to stop.
[[nodiscard]] ExactAnswer solve_exactly(const Problem& problem, Bytes budget, const ExactLimits& limits);

}  // namespace tidemark::decide::flat
