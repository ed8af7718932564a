#pragma once
// Problems whose copies take time.

#include "tests/planner/decide/flat/flat_step.h"

namespace tidemark::testing {

/// Copies take time, as the search sees it: each as if it had the link to itself.
inline decide::flat::Problem with_windows(const FlatStep& flat) {
  decide::flat::Problem problem = flat.problem;
  for (const ReferenceStep::Storage& row : flat.step.storages) {
    problem.out_time.push_back(row.copies.out.link);
    problem.in_time.push_back(row.copies.in.link);
  }
  std::int64_t start = 0;
  for (const std::int64_t cost : problem.cost) {
    problem.stage_start.push_back(start);
    start += cost;
  }
  return problem;
}

}  // namespace tidemark::testing
