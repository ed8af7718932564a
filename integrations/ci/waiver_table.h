#pragma once
// The waivers of a job by what they are for, so that many limits of one scope look them up once a rank.

#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "integrations/ci/budget_job.h"
#include "integrations/ci/date.h"
#include "integrations/ci/waiver_match.h"
#include "planner/budget/holdings.h"
#include "planner/budget/limit.h"

namespace tidemark::ci {

/// Fills itself as it is asked: O(ranks x waivers) for each thing that limits speak of, whatever their number. Threads:
/// one. What it was made of must outlive it.
class WaiverTable {
 public:
  WaiverTable(const BudgetJob& job, Date today) : job_(job), today_(today) {}

  /// The waiver for what each rank holds of what the limit is on: a row a rank; of a rank without a figure none.
  /// `holdings`: always the same for limits on the same thing.
  [[nodiscard]] const std::vector<WaiverMatch>& of(const budget::Limit& limit, const budget::Holdings& holdings);

 private:
  /// Phase, category (-1: none) and whether it is of host memory.
  using Key = std::tuple<int, int, bool>;

  const BudgetJob& job_;
  Date today_;
  std::map<Key, std::vector<WaiverMatch>> rows_;
};

}  // namespace tidemark::ci
