#include "planner/estimate/error_band.h"

#include <algorithm>
#include <utility>

#include "planner/estimate/estimable.h"
#include "planner/estimate/optimizer_step.h"
#include "planner/estimate/rank_place.h"
#include "planner/estimate/rank_view.h"

namespace tidemark::estimate {
namespace {

/// Quantiles of measured runs with room for what the next ones bring: docs/ACCURACY.md, "The error band".
constexpr std::array<ErrorBand, 3> kBands = {
    {{.run_class = RunClass::cuda_dense, .name = "CUDA, dense", .percent = 6, .share_percent = 5},
     {.run_class = RunClass::cuda_experts, .name = "CUDA, experts", .percent = 15, .share_percent = 5},
     {.run_class = RunClass::ascend, .name = "Ascend", .percent = 15, .share_percent = 10}}};

RunClass class_of(const TrainingRun& run) {
  if (run.platform.framework == Framework::mindspeed_llm) return RunClass::ascend;
  return run.model.moe.experts > 0 ? RunClass::cuda_experts : RunClass::cuda_dense;
}

/// Whether it depends on the version of libraries, which no argument states, if attention keeps its scores: the flash
/// kernel that A100 takes has a deterministic backward pass only from release 2.4.1, and some long-term containers ran
/// without it.
bool is_attention_open(const TrainingRun& run) {
  const Attention& attention = run.model.attention;
  if (attention.backend != AttentionBackend::automatic || run.model.transformer_impl_local) return false;
  const bool deterministic = run.deterministic || !run.platform.allow_nondeterministic;
  return run.platform.lts || (run.platform.accelerator == Accelerator::a100 && deterministic);
}

/// Whether the version of libraries decides how many copies of the logits the compiled loss makes: containers with A100
/// were measured with one more than newer ones.
bool is_loss_open(const TrainingRun& run) {
  const bool compiled = run.loss.fused && !run.loss.fused_by_te;
  return compiled && (run.platform.lts || run.platform.accelerator == Accelerator::a100);
}

/// Global rank of the `within`-th rank of a stage: the other direction of place_of.
std::int64_t rank_at(const TrainingRun& run, std::int64_t stage, std::int64_t within) {
  const Parallel& parallel = run.parallel;
  if (!parallel.pipeline_inside_data) return stage * (parallel.world / parallel.pipeline) + within;
  const std::int64_t inner = parallel.tensor * parallel.context;
  return within / inner * (inner * parallel.pipeline) + stage * inner + within % inner;
}

/// Shards of a stage differ in what their optimizer step needs and in nothing else. `memory`: of the stage's first
/// rank.
std::int64_t rank_of_highest_step(const TrainingRun& run, std::int64_t stage, const MemoryKnobs& knobs,
                                  const RankMemory& memory) {
  RankView view = view_of(run, memory.rank, knobs);
  const double held = memory.running_peak_bytes - memory.steady_bytes;
  if (most_step_bytes(view) <= held) return memory.rank;
  const std::int64_t ranks = run.parallel.world / run.parallel.pipeline;
  std::int64_t highest = memory.rank;
  double most = held;
  for (std::int64_t within = 1; within < ranks; ++within) {
    const RankPlace place = place_of(run, rank_at(run, stage, within));
    if (std::max(place.dense_shard, place.expert_shard) >= kMostShards) break;  // both rise with the rank
    if (place.dense_shard == view.place.dense_shard && place.expert_shard == view.place.expert_shard) continue;
    view.place = place;
    const double step = optimizer_step_ascend(view).bytes;
    if (step <= most) continue;
    most = step;
    highest = place.rank;
  }
  return highest;
}

}  // namespace

const std::array<ErrorBand, 3>& error_bands() {
  return kBands;
}

const ErrorBand& band_of(const TrainingRun& run) {
  return kBands[static_cast<std::size_t>(class_of(run))];
}

TrainingRun cautious(TrainingRun run) {
  if (is_attention_open(run)) run.model.attention.backend = AttentionBackend::unfused;
  run.loss.cautious_copy = is_loss_open(run);
  run.model.unfused_rope = false;  // the fused one keeps its inputs, and no measured run goes without
  return run;
}

MemoryKnobs cautious(MemoryKnobs knobs) {
  knobs.routing_load = std::max(knobs.routing_load, kCautiousRoutingLoad);
  knobs.variable_length_share = 1;
  return knobs;
}

Result<RankMemory> estimate_stage(const TrainingRun& run, std::int64_t stage, const MemoryKnobs& knobs) {
  const std::int64_t first = rank_at(run, stage, 0);
  Result<RankMemory> memory = estimate_rank(run, first, knobs);
  if (!memory || run.platform.framework != Framework::mindspeed_llm) return memory;
  const std::int64_t highest = rank_of_highest_step(run, stage, knobs, memory.value());
  return highest == first ? std::move(memory) : estimate_rank(run, highest, knobs);
}

Result<std::vector<RankMemory>> estimate_stages(const TrainingRun& run, const MemoryKnobs& knobs) {
  if (Status status = check_estimable(run); !status) return status.error();
  std::vector<RankMemory> stages;
  for (std::int64_t stage = 0; stage < run.parallel.pipeline; ++stage) {
    Result<RankMemory> memory = estimate_stage(run, stage, knobs);
    if (!memory) return memory.error();
    stages.push_back(std::move(memory).value());
  }
  return stages;
}

}  // namespace tidemark::estimate
