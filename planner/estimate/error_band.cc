#include "planner/estimate/error_band.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "planner/estimate/rank_place.h"

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

}  // namespace

const std::array<ErrorBand, 3>& error_bands() {
  return kBands;
}

const ErrorBand& band_of(const TrainingRun& run) {
  return kBands[static_cast<std::size_t>(class_of(run))];
}

TrainingRun cautious(TrainingRun run) {
  if (is_attention_open(run)) run.model.attention.backend = AttentionBackend::unfused;
  return run;
}

MemoryKnobs cautious(MemoryKnobs knobs) {
  knobs.routing_load = std::max(knobs.routing_load, kCautiousRoutingLoad);
  knobs.variable_length_share = 1;
  return knobs;
}

Result<std::vector<RankMemory>> estimate_stages(const TrainingRun& run, const MemoryKnobs& knobs) {
  const bool sharded = run.platform.framework == Framework::mindspeed_llm;
  std::vector<std::optional<RankMemory>> worst(static_cast<std::size_t>(run.parallel.pipeline));
  std::set<std::array<std::int64_t, 3>> seen;  // ranks of one place in every group hold the same
  for (std::int64_t rank = 0; rank < run.parallel.world; ++rank) {
    const RankPlace place = place_of(run, rank);
    const bool far = std::max(place.dense_shard, place.expert_shard) >= kMostShards;
    if (far || !seen.insert({place.stage, sharded ? place.dense_shard : 0, sharded ? place.expert_shard : 0}).second)
      continue;
    Result<RankMemory> memory = estimate_rank(run, rank, knobs);
    if (!memory) return memory.error();
    std::optional<RankMemory>& at = worst[static_cast<std::size_t>(place.stage)];
    if (!at || memory.value().running_peak_bytes > at->running_peak_bytes) at = std::move(memory).value();
  }
  std::vector<RankMemory> stages;
  for (std::optional<RankMemory>& at : worst)
    if (at) stages.push_back(*std::move(at));
  return stages;
}

}  // namespace tidemark::estimate
