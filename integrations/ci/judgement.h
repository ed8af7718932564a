#pragma once
// From what the ranks of a job hold to what a gate says about it. Pure: today's date and the baseline are values.

#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "integrations/ci/baseline.h"
#include "integrations/ci/budget_job.h"
#include "integrations/ci/date.h"
#include "integrations/ci/gate_result.h"
#include "planner/budget/holdings.h"
#include "planner/budget/limit.h"

namespace tidemark::ci {

struct JobInput {
  BudgetJob job;
  std::string budget_file;                     ///< where lines of limits are; empty: none
  budget::Holdings holdings;                   ///< as made: a planned peak with its device's reserve. At least one rank
  std::optional<Bytes> device_capacity_bytes;  ///< what the device shows, where the job names no capacity
  Bytes device_reserve_bytes = 0;  ///< of the device file: off the capacity of an estimate without a reserve
  std::vector<InputHash> inputs;   ///< what its files hold now; empty: not said
  std::optional<BaselineJob> baseline;
  bool is_baseline_expected = false;          ///< there is a baseline file: a job that it lacks is said so
  bool is_growth_asked = false;               ///< by `--fail-on`: NEAR where growth cannot be told
  std::optional<budget::Holdings> predicted;  ///< beside a measured job
  Date today{};
};

/// The holdings that every figure of a job is of: where the job names a reserve, without the device file's of a plan,
/// and without as much of what was measured outside an allocator. Limits on categories alone are held against what
/// there is.
[[nodiscard]] budget::Holdings judged_holdings(const BudgetJob& job, budget::Holdings holdings);

/// A baseline in the same figures: peaks that the job's limits and growth are held against.
[[nodiscard]] BaselineJob judged_baseline(const BudgetJob& job, const BaselineJob& baseline);

/// What of a capacity the job may not fill: its own reserve; of an estimate without one the device file's.
[[nodiscard]] Bytes kept_of_capacity(const JobInput& input);

/// Device total, host, then the job's own: those there are. A remedy must keep all of them.
[[nodiscard]] std::vector<budget::Limit> limits_of(const JobInput& input);

/// REQUIRES: at least one rank in the holdings.
[[nodiscard]] JobResult judge(const JobInput& input);

/// A job that could not be read, planned or estimated: `error` is its line.
/// Its place is the job's file, until a caller names a better one.
[[nodiscard]] JobResult unreadable(BudgetJob job, std::string error);

}  // namespace tidemark::ci
