#pragma once
// The schedule of passes of one step, played with a time for each pass of each chunk: rank by rank, without the ops
// inside. What a pass takes comes from pass_times.h. Also the longest path through the schedule, which is a lower bound
// of the step for any other times of the same schedule, so that placements of layers can be bounded without being
// played.

#include <array>
#include <cstdint>
#include <vector>

#include "core/result.h"
#include "planner/graph_build/job_spec.h"
#include "planner/graph_build/pipeline_schedule.h"

namespace tidemark::simulate {

struct PassTime {
  std::int64_t compute_ns = 0;  ///< sum on the compute lane
  std::int64_t early_ns = 0;    ///< of compute ops before the first that waits for the input
  std::int64_t lane_ns = 0;     ///< from the first compute op to the end of the last
  std::int64_t out_ns = 0;      ///< from the first compute op to the end of the send; 0: sends nothing
  std::int64_t end_ns = 0;      ///< from the first compute op to the end of the last op on any lane
  std::int64_t intra_ns = 0;    ///< sum on the intra-node lane, all of it
  std::int64_t inter_ns = 0;    ///< sum on the inter-node lane, all of it
};

struct ChunkTime {
  PassTime forward, backward;
};

/// By [rank][chunk].
using StageTimes = std::vector<std::vector<ChunkTime>>;

/// The times of a pass that a path through the schedule can hold.
enum class PassSpan : std::uint8_t { lane, out, early, compute, intra, inter };
inline constexpr std::size_t kPassSpans = 6;

/// How often a path holds each span of the forward and, behind them, the backward passes of a stage.
using StageSpans = std::array<std::int32_t, 2 * kPassSpans>;

/// The spans of a chunk in the order of StageSpans, ns.
[[nodiscard]] std::array<std::int64_t, 2 * kPassSpans> spans_of(const ChunkTime& time);

/// The chunk that has them; end_ns is the later of lane_ns and out_ns.
[[nodiscard]] ChunkTime chunk_time(const std::array<std::int64_t, 2 * kPassSpans>& spans);

/// By stage along the pipeline. Whatever passes take, step_ns is at least the sum of these times their spans.
using SchedulePath = std::vector<StageSpans>;

/// One thread at a time: it keeps its buffers.
class PassClock {
 public:
  /// Errors: those of pipeline_passes.
  [[nodiscard]] static Result<PassClock> of(const graph_build::ParallelSpec& parallel);

  /// When the last pass ends; passes that run interleaved wait for each other's inputs and communication too. An
  /// estimate of the step with everything kept, without its end.
  [[nodiscard]] Result<std::int64_t> step_ns(const StageTimes& times);
  /// The same where interleaved passes share nothing but the compute lane: no step with everything kept is shorter.
  [[nodiscard]] Result<std::int64_t> bound_ns(const StageTimes& times);
  /// A longest path of step_ns.
  [[nodiscard]] Result<SchedulePath> path(const StageTimes& times);

  [[nodiscard]] std::int64_t passes() const { return std::int64_t{2} * ranks_ * chunks_ * micro_batches_; }

 private:
  friend class PassPlay;
  graph_build::PipelineShape shape_;
  std::int32_t ranks_ = 1, chunks_ = 1;
  std::int64_t micro_batches_ = 1;
  std::vector<std::vector<graph_build::Pass>> order_;  ///< by rank
  std::array<std::vector<std::int64_t>, 2> ready_;     ///< forward, backward: by micro-batch, then stage
  std::array<std::vector<std::int32_t>, 2> ready_node_;
};

}  // namespace tidemark::simulate
