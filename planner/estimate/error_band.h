#pragma once
// How far above a prediction a measured peak may lie: what a verdict about a run that was never made has to add.
//
// A band is a quantile of what was measured, not a guess: docs/ACCURACY.md states for every class how many runs lie
// behind it and how many of them exceeded it. The prediction it belongs to is a cautious one: it takes expert load at
// a stated quantile, sequences of full length, and, where the version of libraries decides the attention kernel, the
// one that keeps most.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "planner/estimate/rank_memory.h"
#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

enum class RunClass : std::uint8_t { cuda_dense, cuda_experts, ascend };

struct ErrorBand {
  RunClass run_class = RunClass::cuda_dense;
  std::string_view name;
  double percent = 0;        ///< of the predicted peak, to be added
  double share_percent = 0;  ///< at most this share of runs peak higher than that
};

/// One per class, in the order of RunClass.
[[nodiscard]] const std::array<ErrorBand, 3>& error_bands();
[[nodiscard]] const ErrorBand& band_of(const TrainingRun& run);

/// Expert load a check assumes: rows of a full rank over the mean. Four in five of the measured dropless runs peak
/// below what this load explains.
inline constexpr double kCautiousRoutingLoad = 1.3;

/// The run and the knobs as a check must take them.
[[nodiscard]] TrainingRun cautious(TrainingRun run);
[[nodiscard]] MemoryKnobs cautious(MemoryKnobs knobs);

/// The rank of pipeline stage `stage` with the highest running peak, ties: the lowest. What estimate_stages says of
/// shards holds. REQUIRES: 0 <= stage < parallel.pipeline. Errors: those of estimate_rank.
[[nodiscard]] Result<RankMemory> estimate_stage(const TrainingRun& run, std::int64_t stage,
                                                const MemoryKnobs& knobs = {});

/// Of every pipeline stage the rank with the highest running peak. Shards of the optimizer differ from rank to rank on
/// Ascend: there one rank of every shard is looked at, up to shard kMostShards; on CUDA the ranks of a stage are alike.
/// Errors: those of estimate_rank. One or two estimates a stage, and a look at the optimizer step of every shard where
/// one could decide.
[[nodiscard]] Result<std::vector<RankMemory>> estimate_stages(const TrainingRun& run, const MemoryKnobs& knobs = {});
inline constexpr std::int64_t kMostShards = 256;

}  // namespace tidemark::estimate
