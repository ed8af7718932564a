#pragma once
// Strings the stages together for every pipeline rank (rank_planner.h) and simulates the step that their plans make. A
// rank that does better at another expert load than it was planned at (planned_load.h) is planned again, a bounded
// number of times. Ranks are planned in parallel (oneTBB); the result does not depend on the thread count.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/decision.h"
#include "core/graph.h"
#include "core/liveness.h"
#include "core/machine.h"
#include "core/plan.h"
#include "core/program.h"
#include "core/result.h"
#include "planner/decide/flat/plan.h"
#include "planner/graph_build/job_spec.h"
#include "planner/graph_build/static_memory.h"
#include "planner/policy.h"
#include "planner/simulate/simulator.h"

namespace tidemark::plan {

/// A step given as a graph, in place of a job: one rank, one site, costs that are given.
struct GivenStep {
  std::string name;
  std::string framework;  ///< text of the one that captured it, kept with the plan
  std::shared_ptr<const Graph> graph;
  decide::flat::RecomputeRules rules;
  double effort = 1;                              ///< more searches longer; > 0
  bool frontier = false;                          ///< RankPlan::frontier is asked for
  std::function<void(double share)> on_progress;  ///< of the search, in [0, 1]; from any thread; may be empty
  /// Each better schedule of a search for one budget, while it lasts: what it adds and the least that any does, so far
  /// as is proven, in ns of the graph; may be empty. From the thread that plans.
  std::function<void(std::int64_t added_ns, std::int64_t lower_bound_ns)> on_better;
  /// Asked now and then by several threads at once, may be empty. Once it says yes, it must go on to: the plan is then
  /// made of what was found by then, which depends on the machine's speed.
  std::function<bool()> should_stop;
};

/// A plan that is of use only where all of its ranks fit and its step is short.
struct Trial {
  std::vector<std::int32_t> first;  ///< ranks planned before the others: those least likely to fit
  /// Of no use is a step that is no shorter than this with everything kept and memory ignored.
  std::int64_t useless_step_ns = std::numeric_limits<std::int64_t>::max();
};

struct PlanRequest {
  graph_build::JobSpec job;       ///< without a `step`
  std::optional<GivenStep> step;  ///< planned in place of the job
  Machine machine;
  const Policy* policy = nullptr;
  std::optional<Bytes> budget_bytes;       ///< default: machine.visible_bytes; includes reserves
  std::optional<Bytes> host_budget_bytes;  ///< default: machine.host_bytes_per_device
  /// Expert load f that every layer and micro-batch has memory for; nothing: job.expert_load decides (planned_load.h).
  std::optional<double> load;
  std::vector<std::int32_t> ranks;  ///< empty: all
  double time_scale = 1.0;          ///< multiplies compute times (what-if against a measured layer time)
  double pack_effort = 1;           ///< of looking for addresses, > 0; up to 1: only the quick orders
  /// Peaks, added times and decisions are all that is asked for, as of a verdict: programs are not verified and must
  /// not be run, worst_load_f is 0, a bound is told only where the search comes by one, prices of load only where
  /// they decide it. Plans are the same as without.
  bool figures_only = false;
  /// An answer soon is worth more than the least added time: of a rank that exceeds its budget few targets are asked
  /// for, then what needs about the least memory there is, and nothing in between. What fits so fits without, too.
  bool is_brief = false;
  /// Where it is seen to be of no use the outcome has only the ranks planned until then, or none.
  std::optional<Trial> trial;
  int threads = 0;                                    ///< 0: all cores; does not change the result
  std::function<void(int done, int total)> progress;  ///< called from any thread; may be empty
};

/// One try of the policy at a target below the budget.
struct PlanAttempt {
  Bytes target_bytes = 0;  ///< asked of the policy, without reserves
  Bytes height_bytes = 0;  ///< device arena height the layout came to
  Bytes load_bytes = 0;    ///< lower bound of that height
  std::string packer;
  friend bool operator==(const PlanAttempt&, const PlanAttempt&) = default;
};

/// What a simpler rule of the policy answers, whether or not the rank's plan is made of it. Without addresses.
struct Offer {
  const Rule* rule = nullptr;
  Plan plan;
  std::int64_t added_ns = 0;
  std::int64_t recompute_ns = 0;  ///< on the compute lane, hidden or not
};

struct RankFigures {
  std::int32_t rank = 0;
  /// Whose answer the plan is: the policy's name, that of a simpler rule (Policy::fallbacks), or `last-resort`.
  std::string rule;
  double load = 1.0;     ///< expert load that memory is planned for
  Bytes peak_bytes = 0;  ///< reserves + static + activation arena height
  Bytes budget_bytes = 0;
  Bytes static_bytes = 0;           ///< what persists on the device
  Bytes activation_peak_bytes = 0;  ///< arena height above the static storages
  Bytes reserve_bytes = 0;
  Bytes offloaded_bytes = 0;                  ///< of state that rests in host memory between steps; not in static_bytes
  std::int64_t offload_ns = 0;                ///< of added_ns: exposed copies and overhead of that state
  Bytes host_bytes = 0;                       ///< pinned arena
  Bytes swapped_bytes_per_step = 0;           ///< one direction
  std::int64_t recompute_ns = 0;              ///< compute lane, less what is hidden
  std::int64_t hidden_recompute_ns = 0;       ///< while the lane would wait for collectives
  std::int64_t exposed_communication_ns = 0;  ///< of recomputed collectives
  std::int64_t exposed_copy_ns = 0;
  std::int64_t copy_overhead_ns = 0;  ///< launches and memory bandwidth of copies
  std::int64_t added_ns = 0;          ///< recompute_ns and the three lines above
  /// What is recomputed, charged for copies and waited for copies or repeated communication on the longest path of the
  /// simulated step: the rest is done while others are waited for.
  std::int64_t paid_ns = 0;
  std::int64_t lower_bound_ns = 0;  ///< no plan that fits with the same state offloaded adds less (proven)
  double lower_bound_percent = 0;   ///< of the keep-all step
  /// Expert load up to which every step completes: the most that routing can send to one device, which no step exceeds;
  /// 1: nothing depends on routing. 0: the plan does not fit, or a layer cannot run in chunks (see `reason`).
  double worst_load_f = 1;
  /// Where expert load varies: the part of steps in which no device of the expert group needs more at its peak than at
  /// `load` (0: load was given, or it does not fit), what memory for more than the mean load adds to a step, and what
  /// sections in chunks add in the mean; 0: not known. First order (load_prices.h).
  double load_quantile = 0;
  std::int64_t load_held_ns = 0, load_short_ns = 0;
  bool fits = false;
  std::string peak_op;  ///< name of the op at the peak, with chunk, layer and micro-batch
  std::string reason;   ///< why worst_load_f is 0; empty otherwise
  /// Where it does not fit, the smallest of each that this policy is known to meet with the other budget as asked for;
  /// 0: none is known.
  Bytes smallest_budget_bytes = 0;
  Bytes smallest_host_budget_bytes = 0;
  bool misfit_is_proven = false;  ///< of a captured step that does not fit: no schedule does
  Bytes least_live_bytes = 0;     ///< of a captured step: no schedule has fewer bytes alive at its peak (proven), ...
  std::string least_live_op;      ///< ... because of what this op needs
  friend bool operator==(const RankFigures&, const RankFigures&) = default;
};

struct RankPlan {
  Graph graph;
  Liveness liveness;
  Decisions decisions;  ///< of the program
  Program program;
  std::vector<std::int64_t> task_ns;  ///< estimates, per task
  simulate::Timeline timeline;        ///< of the program's tasks in the simulated step
  RankFigures figures;
  double ns_per_byte = 0;  ///< price of device memory, modelled: what a byte less of budget adds; 0: none was found
  std::vector<PlanAttempt> attempts;
  std::vector<Offer> offers;  ///< while a job is planned; none after
  std::vector<decide::flat::FrontierPoint>
      frontier;  ///< of a given step, where asked for: what its search knows, in bytes live
};

/// No plan of this graph has fewer bytes alive at its peak: by what one op needs, or for a captured step by the figures
/// as well, which files from before they were in it lack.
[[nodiscard]] Bytes proven_least_bytes(const RankPlan& plan);

/// The modelled step over all pipeline ranks (from the ranks planned; with a subset of ranks the others run keep-all).
struct StepFigures {
  std::int64_t step_ns = 0;
  std::int64_t keep_all_step_ns = 0;  ///< the same job with nothing recomputed or swapped, memory ignored
  double bubble_percent = 0;          ///< compute-lane time spent waiting for other ranks, share of the step
  double exposed_communication_percent = 0;
  double exposed_copy_percent = 0;
  double recompute_percent = 0;
  double mfu_percent = 0;  ///< full-square attention
  double mfu_causal_percent = 0;
  double tokens_per_s = 0;
  double fullest_load = 1;  ///< expert load that ops take the time of: of the fullest device of a group
  friend bool operator==(const StepFigures&, const StepFigures&) = default;
};

struct PlanOutcome {
  std::vector<RankPlan> ranks;
  StepFigures step;
  graph_build::ParameterCount parameters;
  bool stopped = false;  ///< the search of a given step was stopped before its end; not part of a plan file
  bool is_whole = true;  ///< the ranks asked for are there: false of a trial that was of no use
  [[nodiscard]] bool fits() const;
  /// Of the ranks that add anything, or else of all: at which other plans compare with it. Ranks with memory to spare
  /// are planned for more than matters.
  [[nodiscard]] double highest_load() const;
};

/// What no allocator of ours owns, of the budget of each rank.
[[nodiscard]] graph_build::ReserveMemory reserve_of(const PlanRequest& request);

[[nodiscard]] Result<PlanOutcome> plan_step(const PlanRequest& request);

/// Plays the programs of a plan that was read from a file: fills timelines and every figure of the step but
/// keep_all_step_ns. Errors: bad_input where a rank of the step is missing; those of simulate_step.
[[nodiscard]] Status simulate_plan(const PlanRequest& request, PlanOutcome& outcome);

/// Device bytes by storage role over the compute clock of a schedule: what reports draw. O(residencies + clock).
struct MemoryProfile {
  std::vector<std::int32_t> clock;  ///< half-steps at which bytes change, ascending; they hold until the next
  std::vector<std::array<Bytes, kStorageRoleCount>> bytes;
};
[[nodiscard]] MemoryProfile memory_profile(const Graph& graph, const Schedule& schedule);

/// The storages that make up the bytes held at one op with everything kept, largest first, instances of one template
/// and layer together.
struct Contributor {
  std::string name;  ///< module path and storage name
  std::int32_t layer = -1;
  std::int32_t chunk = 0;
  std::int64_t count = 0;  ///< in flight
  Bytes bytes = 0;         ///< together
  StorageRole role = StorageRole::activation;
};
[[nodiscard]] std::vector<Contributor> contributors_at(const Graph& graph, const Liveness& liveness, OpId op);
/// The same at a position of the compute clock of a schedule.
[[nodiscard]] std::vector<Contributor> contributors_at(const Graph& graph, const Schedule& schedule,
                                                       std::int32_t clock);

}  // namespace tidemark::plan
