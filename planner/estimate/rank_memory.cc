#include "planner/estimate/rank_memory.h"

#include <algorithm>

#include "planner/estimate/estimable.h"
#include "planner/estimate/fsdp2_rank.h"
#include "planner/estimate/optimizer_step.h"
#include "planner/estimate/peak_ascend.h"
#include "planner/estimate/peak_cuda.h"
#include "planner/estimate/rank_view.h"
#include "planner/estimate/static_ascend.h"
#include "planner/estimate/static_cuda.h"

namespace tidemark::estimate {
namespace {

constexpr std::string_view kCalibrated = "calibration with a measured run";

/// What a calibration found missing, as a term of its own, so that terms still sum to the figures.
void calibrate(std::vector<Term>& terms, double bytes) {
  if (bytes != 0) terms.push_back({"calibration", bytes, Origin::fitted, kCalibrated});
}

double positive_part(const std::vector<Term>& terms) {
  double sum = 0;
  for (const Term& term : terms) sum += std::max(0.0, term.bytes);
  return sum;
}

/// Moments that appear in the first optimizer step; a resumed run loads them before it.
double missing_moments(const RankView& view) {
  return view.run.platform.resumed ? 0 : view.state.moments;
}

void calibrate_pass(const RankView& view, std::vector<Term>& terms) {
  calibrate(terms, (view.knobs.activation_factor - 1) * positive_part(terms));
}

/// The step works in place: passes decide, unless nothing they hold outweighs the gradient copies they free.
void add_peak_cuda(const RankView& view, RankMemory& memory) {
  PassTerms pass = pass_cuda(view);
  calibrate_pass(view, pass.terms);
  const double added = sum_of(pass.terms);
  // Before its first backward a process has no autograd thread, nor that thread's workspace.
  const bool only_forward = pass.in_forward && view.run.batch.micro_batches == 1;
  const double missing = missing_moments(view) + (only_forward ? cublas_workspace_bytes(view.run.platform) : 0);
  memory.first_peak_bytes = memory.steady_bytes + std::max(0.0, added - missing);
  if (added > 0) memory.at_peak = std::move(pass.terms);
  memory.at_running_peak = memory.at_peak;
  memory.peak_bytes = memory.running_peak_bytes = memory.steady_bytes + std::max(0.0, added);
  memory.step_peak_bytes = memory.steady_bytes;
}

/// Memory is logged after one step: the passes ran without moments, the optimizer step with them.
void add_peak_ascend(const RankView& view, RankMemory& memory) {
  std::vector<Term> pass = pass_ascend(view);
  calibrate_pass(view, pass);
  std::vector<Term> step{optimizer_step_ascend(view)};
  const double missing = missing_moments(view);
  const double of_pass = sum_of(pass);
  const double of_step = sum_of(step);
  memory.running_peak_bytes = memory.steady_bytes + std::max(of_pass, of_step);
  memory.step_peak_bytes = memory.steady_bytes + of_step;
  memory.at_running_peak = of_pass >= of_step ? pass : step;
  if (of_pass - missing >= of_step) {
    if (missing > 0) pass.push_back({"moments_not_yet", -missing, Origin::code, "made in the first optimizer step"});
    memory.at_peak = std::move(pass);
  } else {
    memory.at_peak = std::move(step);
  }
  memory.peak_bytes = memory.steady_bytes + sum_of(memory.at_peak);
  memory.first_peak_bytes = memory.peak_bytes;
}

}  // namespace

RankView view_of(const TrainingRun& run, std::int64_t rank, const MemoryKnobs& knobs) {
  RankView view{.run = run, .knobs = knobs, .place = place_of(run, rank), .sizes = local_sizes(run, knobs)};
  view.chunks = chunk_parameters(run, view.place.stage);
  for (const std::vector<Parameter>& chunk : view.chunks)
    view.parameters.insert(view.parameters.end(), chunk.begin(), chunk.end());
  view.state = state_of(run, view.parameters);
  return view;
}

bool RankView::has_loss() const {
  if (run.model.kind == ModelClass::t5) return true;
  if (run.model.kind == ModelClass::hybrid) return last_stage();
  const std::vector<Chunk>& mine = run.parallel.chunks[static_cast<std::size_t>(place.stage)];
  return std::any_of(mine.begin(), mine.end(), [](const Chunk& chunk) { return chunk.loss; });
}

double sum_of(const std::vector<Term>& terms) {
  double sum = 0;
  for (const Term& term : terms) sum += term.bytes;
  return sum;
}

std::int64_t logged_rank(const TrainingRun& run) {
  return run.parallel.world - 1;
}

Result<RankMemory> estimate_rank(const TrainingRun& run, std::int64_t rank, const MemoryKnobs& knobs) {
  if (Status status = check_estimable(run); !status) return status.error();
  if (rank < 0 || rank >= run.parallel.world)
    return bad_input("rank " + std::to_string(rank) + " is outside a world of " + std::to_string(run.parallel.world));
  const RankView view = view_of(run, rank, knobs);
  const bool ascend = on_ascend(run);
  RankMemory memory{.rank = rank, .stage = view.place.stage};
  if (run.platform.framework == Framework::torchtitan) {
    estimate_fsdp2(view, memory);
    return memory;
  }
  memory.steady = ascend ? static_ascend(view) : static_cuda(view);
  calibrate(memory.steady, (knobs.static_factor - 1) * sum_of(memory.steady) + knobs.static_offset_bytes);
  memory.steady_bytes = sum_of(memory.steady);
  memory.parameters = count_elements(view.parameters);
  if (ascend)
    add_peak_ascend(view, memory);
  else
    add_peak_cuda(view, memory);
  return memory;
}

}  // namespace tidemark::estimate
