#pragma once
// The cheapest change that brings a plan within its memory, planned anew, or what is known where none does.
//
//   1. The ranks that exceed are planned by a policy that searches; the others keep their plans.
//   2. Where that finds nothing that fits, keys of the job are changed one at a time, then all together, each change
//      planned anew on all ranks: the one with the shortest modelled step is taken. A change is given up as soon as one
//      of its ranks is found not to fit, or its step is seen to be no shorter.
//   3. Where nothing clears: the smallest budget that is known to be met, and whether a proof says that none is.
//
// A verdict waits for this, so the search is brief (PlanRequest::is_brief): a few targets a rank,
// then about the least memory that a plan can do with. `tidemark plan` at the same budget takes longer and may find
// what adds less, or fits where nothing is found here.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/budget/remedy.h"
#include "planner/planner.h"

namespace tidemark::plan {

/// What ranks may take.
struct MemoryLimits {
  Bytes device_bytes = 0;  ///< reserves included
  Bytes host_bytes = 0;    ///< pinned
};

[[nodiscard]] bool exceeds(const RankFigures& figures, const MemoryLimits& limits);

struct RemedyQuestion {
  const PlanRequest& request;  ///< what was planned
  MemoryLimits limits;
  const Policy& search;     ///< least added time within a budget
  bool changes_job = true;  ///< keys of the job may be changed; not of a given step
  /// Off every size of the remedy: reserves that the reader's figures are without. Not off `limits`.
  Bytes left_out_bytes = 0;
};

struct PlanRemedy {
  budget::Remedy remedy;
  PlanRequest request;  ///< of `outcome`: with the changed job, and the limits as budgets
  PlanOutcome outcome;  ///< with the edits; where nothing clears, what came closest
};

/// `planned`: of the question's request. The step cost is modelled: of the step of all ranks, against that of
/// `planned`. Errors: those of plan_step. REQUIRES: some rank of `planned` exceeds the limits.
[[nodiscard]] Result<PlanRemedy> find_remedy(const RemedyQuestion& question, PlanOutcome planned);

/// How near a plan of changed ranks is to the least that can be added to each: `the cheapest (proven by rank); ...`
/// only where each of them meets its bound, else what the rank with the widest gap adds beside its bound. REQUIRES: not
/// empty.
[[nodiscard]] std::string cost_text(const std::vector<RankFigures>& ranks);

/// A change of one key of a job.
struct JobChange {
  std::string_view key;  ///< dotted, of the YAML
  std::string text;      ///< `parallel.micro_batch: 1`
  std::function<void(graph_build::JobSpec&)> apply;
};
/// Changes that leave the model, its devices and the tokens of a step as they are, and may need less memory; those
/// that the job's rules allow. Each micro-batch size that divides the job's is one.
[[nodiscard]] std::vector<JobChange> job_changes(const graph_build::JobSpec& job);

}  // namespace tidemark::plan
