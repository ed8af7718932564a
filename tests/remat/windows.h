#pragma once
// Problems whose pages take time.

#include "planner/remat/problem.h"

namespace tidemark::testing {

/// Pages take time, as the search sees it: each as if it had the link to itself.
inline remat::Problem with_windows(const OpList& list) {
  remat::Problem problem(list);
  for (const OpList::Storage& row : list.storages) {
    problem.out_time.push_back(row.page_out_time);
    problem.in_time.push_back(row.page_in_time);
  }
  std::int64_t start = 0;
  for (const std::int64_t cost : problem.cost) {
    problem.stage_start.push_back(start);
    start += cost;
  }
  return problem;
}

}  // namespace tidemark::testing
