#pragma once
// One rank's decision problem in the form every rule reads: the gaps that may be decided, folded into site classes, the
// base memory profile, and the nominal timeline that prices windows. Built once per rank, then read-only (safe to share
// between threads). Works on storages of any Graph; knows nothing of layers or kinds of tensor.
//
// Clock: all memory positions are half-steps of the compute clock (core/schedule.h) of the keep-all schedule.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/graph.h"
#include "core/liveness.h"
#include "core/machine.h"
#include "core/plan.h"
#include "core/result.h"
#include "planner/cost/copy_cost.h"
#include "planner/decide/gaps/gap_problem.h"
#include "planner/decide/sites/state_offload.h"
#include "planner/simulate/simulator.h"

namespace tidemark::decide::sites {

/// A gap with what deciding it means. One per (storage, gap).
struct GapRow {
  Gap gap;
  std::int32_t site_class = 0;
  std::int32_t slot = 0;  ///< position among the gaps of its site class
  Bytes bytes = 0;
  std::int32_t free_from = 0;   ///< half-step from which the bytes are free if dropped at once
  std::int32_t taken_from = 0;  ///< half-step at which they must be back at the latest
  std::int32_t host_until = 0;  ///< a swapped copy holds host memory from free_from at least to this half-step
  cost::CopyCost copy_out, copy_in;
  /// What the step pays of each ns that is added: by the copy out, the copy in, and a recomputation.
  struct Weight {
    double out = 1, in = 1, run = 1;
  };
  Weight weight;
};

/// Sites that differ only in micro-batch (same block, chunk and layer): decided slots, recipes and local op order are
/// the same for all of them, so effects are worked out once.
struct SiteClass {
  BlockId block = kNone<BlockId>;
  std::int32_t chunk = 0;
  std::int32_t layer = -1;
  std::vector<SiteId> sites;              ///< ascending micro-batch
  std::vector<std::int32_t> first_gap;    ///< per site: row of its first gap; its gaps are contiguous
  SiteId representative = kNone<SiteId>;  ///< the site whose nominal times stand for the class (the middle one)

  struct Slot {
    std::int32_t local = 0;       ///< storage within the block
    std::int32_t ordinal = 0;     ///< Gap::ordinal
    std::int32_t before_pos = 0;  ///< site-local op position of the last own op before the gap ends up idle
    std::int32_t after_pos = 0;   ///< site-local op position of the first own op at or after the end of the gap
    std::int32_t pass_pos = 0;    ///< where the pass that ends the gap begins: nothing needs the storage before it
    std::int32_t unit = -1;       ///< position in `units`
  };
  std::vector<Slot> slots;

  /// What is decided together: the outputs of one recipe, or one storage without a usable recipe.
  struct Unit {
    RecipeId recipe = kNone<RecipeId>;
    std::vector<std::int32_t> slots;
    std::int64_t compute_ns = 0;  ///< of one run of the recipe
    std::int32_t latest_pos = 0;  ///< last site-local op before which the recipe can run: a source dies there
  };
  std::vector<Unit> units;
  std::vector<std::int32_t> unit_order;  ///< units with a recipe, sources before dependents
};

struct DecisionProblem {
  const Graph* graph = nullptr;
  const Liveness* liveness = nullptr;
  const Machine* machine = nullptr;
  const simulate::Timeline* nominal = nullptr;  ///< per op, everything kept
  std::vector<std::int64_t> op_ns;              ///< per op
  std::vector<std::int64_t> template_ns;        ///< per op template at the load of this graph's sites (recipe steps)
  std::vector<OpId> compute_op;                 ///< k-th compute op
  std::vector<std::int32_t> clock_of;           ///< per op: compute ops before it
  std::vector<std::int64_t> clock_start_ns;     ///< per compute op, nominal start, ascending
  /// Per compute op: how long the lane waits ahead of it for collectives of this rank, with everything kept.
  std::vector<std::int64_t> lane_idle_ns;
  bool is_weighted = false;       ///< not all that is added lengthens the step (GapRow::weight)
  bool runs_early = false;        ///< recomputation may run ahead of where it is needed, to be hidden (RunTime)
  std::vector<Bytes> base_bytes;  ///< per half-step: device bytes with everything kept
  Bytes static_bytes = 0;         ///< what persists on the device
  StateOffload state;             ///< not for a choice to decide: base_bytes are with it
  std::int64_t kept_ns = 0;       ///< when the step ends with everything kept, by finish_alone_ns
  std::vector<GapRow> gaps;       ///< by site class, then site, then slot
  std::vector<SiteClass> classes;
  std::vector<std::int32_t> first_site_op;  ///< CSR per site into site_ops
  std::vector<OpId> site_ops;               ///< ops of each site, ascending

  [[nodiscard]] std::span<const OpId> ops_of(SiteId site) const {
    const auto begin = static_cast<std::size_t>(first_site_op[row(site)]);
    const auto end = static_cast<std::size_t>(first_site_op[row(site) + 1]);
    return {site_ops.data() + begin, end - begin};
  }
  [[nodiscard]] std::int32_t clock_length() const { return static_cast<std::int32_t>(base_bytes.size()); }
};

/// The first site-local position of the pass that runs `position`, not before `limit`: a backward pass does not reach
/// back into a forward one.
[[nodiscard]] std::int32_t pass_begin(const DecisionProblem& problem, SiteId site, std::int32_t limit,
                                      std::int32_t position);

/// When recomputation without collectives runs: just ahead of the op that needs it, or earlier in the same pass where
/// the compute lane waits for collectives, which takes memory for longer.
enum class RunTime : std::uint8_t { late, hidden };

struct ProblemOptions {
  OffloadChoice offload;  ///< which state is offloaded is given
  RunTime run_time = RunTime::late;
  /// Per compute op: by how much the step gets longer for each ns that is added there (planner/step_relaxation.h);
  /// empty: by all of it.
  std::span<const float> weights;
  std::int32_t min_gap_ops = 2;
};

/// The compute op ahead of which a copy in begins that has the link for itself, as a position of the lane.
[[nodiscard]] std::int32_t copy_in_clock(const DecisionProblem& problem, const GapRow& gap);

/// Sets the weights of all gaps. `weights`: ProblemOptions. `plan`: per gap, what is given up by a plan of all ranks
/// that these weights belong to: gaps given up there count less, by whatever action; empty: nothing is known.
void weigh(DecisionProblem& problem, std::span<const float> weights, std::span<const Action> plan = {});

/// Builds the problem. Only the longest gap of each storage is open to decision, and only if it is at least
/// `min_gap_ops` ops long. Borrowed arguments must outlive the problem, `weights` the call. Errors: those of the
/// keep-all schedule.
[[nodiscard]] Result<DecisionProblem> build_problem(const Graph& graph, const Liveness& liveness,
                                                    const Machine& machine, const simulate::Timeline& nominal,
                                                    std::vector<std::int64_t> op_ns,
                                                    const ProblemOptions& options = {});

/// The copies of state that a choice comes to. REQUIRES: the problem is without one.
[[nodiscard]] StateOffload offload_beside(const DecisionProblem& problem, const OffloadChoice& choice);

/// How much longer than with everything kept a schedule takes, messages arriving as in the nominal step.
[[nodiscard]] std::int64_t added_alone_ns(const DecisionProblem& problem, const Schedule& schedule);

/// One action per row of DecisionProblem::gaps: what a plan made of this problem (Evaluator::plan) does with each.
[[nodiscard]] gaps::Choice choice_of(const DecisionProblem& problem, const Plan& plan);

}  // namespace tidemark::decide::sites
