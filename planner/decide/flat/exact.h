#pragma once
// The best schedule of a small list, proven: the cheapest path through states (ops done, storages resident, storages
// with a copy outside). Nothing is dropped before room is needed, since what stays can always go later. Second runs may
// come in any order and any number here.

#include <cstdint>
#include <optional>

#include "planner/decide/flat/problem.h"
#include "planner/decide/flat/run_order.h"

namespace tidemark::decide::flat {

struct ExactAnswer {
  bool feasible = false;  ///< false: proven that no schedule fits
  RunOrder schedule;
  std::int64_t added_cost = 0;
};

/// Nothing: more than 64 storages, or more than `most_work` ways to make room to look at. `most_added`: a cost that is
/// known to do; dearer states are not looked at. `work`: what was looked at is added.
[[nodiscard]] std::optional<ExactAnswer> solve_exactly(const Problem& problem, Bytes budget, std::int64_t most_added,
                                                       std::int64_t most_work, std::int64_t* work = nullptr);

}  // namespace tidemark::decide::flat
