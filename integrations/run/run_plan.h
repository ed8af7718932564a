#pragma once
// A plan carried out on a device of choice, and the verdict: what was asked, what each rank did, what is wrong with it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/machine.h"
#include "core/result.h"
#include "planner/planner.h"
#include "swap/run_report.h"

namespace tidemark::run {

enum class RunDevice : std::uint8_t { sim, host, cuda, ascend };

/// Loads other than the planned ones.
struct LoadChange {
  SiteLoad load;
  std::int64_t from_op = 0;  ///< sites whose first op is at or behind this have it; the others are as planned
};

struct RunAsk {
  RunDevice device = RunDevice::sim;
  std::optional<std::int32_t> rank;  ///< nothing: all; on `sim` in one virtual time, elsewhere one after the other
  std::int64_t scale = 1;
  bool verify = false;
  std::uint64_t seed = 0;      ///< sim: of the first schedule; 0: durations as estimated
  std::int64_t schedules = 1;  ///< sim: how many, seed after seed
  std::optional<LoadChange> load;
};

struct RankOutcome {
  swap::RunReport report;     ///< of the first schedule; mismatches of all
  Bytes taken_bytes = 0;      ///< of the device, at most: by the arenas, or by what a simulated device saw
  Bytes allowed_bytes = 0;    ///< of the device, by the plan: whole granules, and the region where loads ask for it
  Bytes plan_peak_bytes = 0;  ///< the plan's figure, reserves included, true size
  Bytes reserve_bytes = 0;    ///< true size
  Bytes budget_bytes = 0;     ///< true size
  std::optional<std::int64_t> plan_step_ns;  ///< when the plan's simulator has this rank finish, where it was asked
  std::int64_t copy_stall_ns = 0;            ///< sim: compute lane idle for copies
  std::optional<std::int64_t> plan_copy_stall_ns;  ///< the same in the plan's simulator
  std::int64_t races = 0;                          ///< of all schedules
  std::vector<std::string> race_texts;
};

struct RunOutcome {
  RunAsk ask;
  std::string device;  ///< as it calls itself
  std::string product;
  bool simulated = false;
  bool matched = false;  ///< messages between ranks
  std::vector<RankOutcome> ranks;
  std::int64_t step_ns = 0;           ///< of the first schedule: virtual where simulated
  std::int64_t plan_step_ns = 0;      ///< modelled, of the plan
  std::vector<std::string> problems;  ///< why the answer is no; empty: all is well
};

/// Errors: bad_input for what cannot be asked of this device or program; infeasible for a refusal, a failure of the
/// device, a device this machine does not have, or a plan larger than its memory (before any of it is taken).
[[nodiscard]] Result<RunOutcome> run_plan(plan::PlanOutcome plan, const Machine& machine, const RunAsk& ask);

}  // namespace tidemark::run
