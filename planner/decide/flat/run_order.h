#pragma once
// A schedule as the flat search holds it: the order in which ops run, some of them more than once, and what is swapped
// between which positions of it; and what that comes to once it is carried out. Private to the search.

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan.h"
#include "planner/decide/flat/problem.h"

namespace tidemark::decide::flat {

struct RunOrder {
  /// A storage is last touched by the run at position `after` and needed again by the one at `before`. It is not in
  /// device memory at positions `gone` to `back` - 1: the run at `gone` waits until it is copied out, and copying in
  /// begins before the run at `back`. after < gone <= back <= before.
  struct Swap {
    std::int32_t storage = 0;
    std::int32_t after = 0, before = 0;
    std::int32_t gone = after + 1, back = before;
    friend bool operator==(const Swap&, const Swap&) = default;
  };
  std::vector<std::int32_t> order;  ///< ops; each at least once
  std::vector<Swap> swaps;          ///< by storage, then position
  friend bool operator==(const RunOrder&, const RunOrder&) = default;
};

/// Every op once.
[[nodiscard]] RunOrder keep_all_order(const Problem& problem);

/// The same in the planner's words. A storage of which there is one version is copied out once, however often it
/// leaves. REQUIRES: first runs ascend, other runs are of ops that may run again there, swaps lie between two touches.
[[nodiscard]] Plan plan_of(const Problem& problem, const RunOrder& order);

/// What the scheduler and the simulator make of it.
struct RunOutcome {
  std::string fault;               ///< why the scheduler refused; empty: nothing, and only then the rest counts
  std::vector<Bytes> profile;      ///< per position: device bytes while that run is under way
  Bytes peak_bytes = 0;            ///< the most of them
  std::int32_t peak_position = 0;  ///< the first there
  std::int64_t cost = 0;           ///< of all runs and copies, and what runs waited for copies
  std::int64_t added_cost = 0;     ///< above one run of every op
  std::int64_t waited = 0;         ///< of that, waiting for copies
  Bytes host_peak_bytes = 0;
};
[[nodiscard]] RunOutcome carry_out(const Problem& problem, const RunOrder& order);

}  // namespace tidemark::decide::flat
