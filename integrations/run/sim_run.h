#pragma once
// The step of a plan on simulated devices: all ranks given share one virtual time, sizes are true, messages between
// them are matched. What comes back is the runtime's own report and what the simulation saw from outside.
//
// Every time is virtual. Nothing here decides; the plan's simulator is used only for the figure beside.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/machine.h"
#include "core/result.h"
#include "device/sim_device.h"
#include "planner/planner.h"
#include "swap/executor.h"

namespace tidemark::run {

struct SimRunRequest {
  std::span<const plan::RankPlan> ranks;
  const Machine& machine;
  std::int64_t scale = 1;
  bool verify = false;
  bool check_races = true;
  bool match_messages = true;  ///< false: receives complete at once. REQUIRES: all ranks of the step where true
  bool measure_stall = true;   ///< keeps the timeline: how long the compute lane stood still for copies
  SimSchedule schedule;        ///< seed 0: durations as estimated
  bool aliasing = true;        ///< false: devices that cannot show a granule at a second address
  std::function<SiteLoad(std::int32_t rank, SiteId)> load;  ///< empty: as planned
  /// Of the fullest device of the expert group, which ops take the time of. Empty: `load`.
  std::function<double(std::int32_t rank, SiteId)> fullest;
  swap::Agree agree;          ///< for the expert group of every rank; empty: its other devices are loaded the same
  std::vector<Fault> faults;  ///< of every device
};

struct SimRankRun {
  swap::RunReport report;
  SimStatistics statistics;
  DeviceTraits traits;
  std::int64_t finish_ns = 0;      ///< virtual time of this rank's last work, from the start of the step
  std::int64_t copy_stall_ns = 0;  ///< compute lane idle with only copies to wait for
  std::int64_t races = 0;
  std::vector<std::string> race_texts;  ///< the first ones
  std::string leaks;                    ///< what was not given back; empty: nothing
};

struct SimRun {
  std::vector<SimRankRun> ranks;
  std::int64_t step_ns = 0;  ///< latest finish
};

/// Simulated devices and the executors on them, opened once for any number of steps. Threads: one at a time.
class SimRig {
 public:
  /// What the request refers to must outlive the rig; its functions are asked anew in every step. Errors: as Executor;
  /// a message of another micro-batch than its receive (infeasible).
  [[nodiscard]] static Result<std::unique_ptr<SimRig>> open(const SimRunRequest& request);
  ~SimRig();
  SimRig(const SimRig&) = delete;
  SimRig& operator=(const SimRig&) = delete;

  /// One step; races and wrong bytes are those found in it. Errors: as Executor; a deadlock of the step (infeasible).
  /// After an error only destruction is meaningful.
  [[nodiscard]] Result<SimRun> play();
  /// Gives everything back. Into the last step's `run`: races in doing so, and what was not given back.
  void close(SimRun& run);

 private:
  explicit SimRig(const SimRunRequest& request);
  [[nodiscard]] Status open_rank(const plan::RankPlan& plan);
  [[nodiscard]] SimRankRun collect(std::size_t rank, std::int64_t started_ns, swap::RunReport report);

  SimRunRequest request_;
  std::unique_ptr<SimWorld> world_;
  std::vector<std::unique_ptr<SimDevice>> devices_;
  std::vector<std::unique_ptr<swap::Executor>> executors_;  ///< gone before their devices
};

/// One step, and all given back. Errors: as SimRig.
[[nodiscard]] Result<SimRun> run_on_sim(const SimRunRequest& request);

/// A simulated device plays what the plan's step was modelled with: estimates that have the cost of issuing copies in
/// them. Without it the two steps would differ by that cost.
void charge_copies(plan::PlanOutcome& plan, const Machine& machine);

/// The device a plan's rank is carried out on: as much memory as its arenas may take, the machine's links.
[[nodiscard]] SimOptions sim_options_for(const plan::RankPlan& rank, const Machine& machine);

/// Names for messages: ops, copies and sites with chunk, layer and micro-batch. `plan` must outlive them.
[[nodiscard]] swap::RunNames names_of(const plan::RankPlan& plan);

/// Time the compute lane stood still before a task because a copy it waits for was the last to end. Spans by task id.
[[nodiscard]] std::int64_t copy_stall(const Schedule& schedule, std::span<const SimSpan> spans);

}  // namespace tidemark::run
