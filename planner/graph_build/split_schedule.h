#pragma once
// Orders of passes on all ranks of a pipeline whose backward is split in two: the gradient of a chunk's input (dX,
// "B"), which the stage before waits for, and the gradient of its weights (dW, "W"), which no stage waits for and which
// fills what would be idle. Plain values; no times. Who makes them: whole_backward_schedule (1F1B and interleaved
// 1F1B), v_schedule.h, v_zero_bubble.h, zero_bubble.h. Any thread. Sources: Qi et al., arXiv 2401.10241; Qi et al.,
// arXiv 2405.15362; docs/design/pipeline_schedules.md.

#include <cstdint>
#include <vector>

#include "core/result.h"
#include "planner/graph_build/pipeline_schedule.h"

namespace tidemark::graph_build {

enum class PassKind : std::uint8_t {
  forward,
  input_grad,   ///< dX only: its weight_grad comes later
  weight_grad,  ///< dW only
  backward,     ///< dX and dW as one pass; the stage before waits for both
};

/// Which rank has stage s = chunk * ranks + n, 0 <= n < ranks.
enum class StagePlacement : std::uint8_t {
  looped,  ///< rank n
  zigzag,  ///< rank n in even chunks, ranks - 1 - n in odd ones: two chunks are a V
};

struct SplitPass {
  PassKind kind = PassKind::forward;
  std::int32_t chunk = 0;
  std::int32_t micro_batch = 0;
  friend bool operator==(const SplitPass&, const SplitPass&) = default;
};

struct SplitSchedule {
  std::int32_t ranks = 1;          ///< p
  std::int32_t chunks = 1;         ///< stages per rank
  std::int32_t micro_batches = 1;  ///< m
  StagePlacement placement = StagePlacement::looped;
  std::vector<std::vector<SplitPass>> passes = {};  ///< [rank], in order

  [[nodiscard]] std::int32_t stages() const { return ranks * chunks; }
  [[nodiscard]] std::int32_t stage_of(std::int32_t rank, std::int32_t chunk) const {
    const bool reversed = placement == StagePlacement::zigzag && chunk % 2 == 1;
    return chunk * ranks + (reversed ? ranks - 1 - rank : rank);
  }
  [[nodiscard]] std::int32_t rank_of(std::int32_t stage) const {
    const bool reversed = placement == StagePlacement::zigzag && stage / ranks % 2 == 1;
    return reversed ? ranks - 1 - stage % ranks : stage % ranks;
  }
};

/// The passes of pipeline_passes on every rank, backward whole; pairs of overlapped passes one after the other. Errors
/// as there.
[[nodiscard]] Result<SplitSchedule> whole_backward_schedule(const PipelineShape& shape);

/// Per rank, the most chunk passes whose forward has run and whose weight_grad (or whole backward) has not ended.
[[nodiscard]] std::vector<std::int64_t> in_flight_peaks(const SplitSchedule& schedule);

/// Errors: counts below 1 (bad_input).
[[nodiscard]] Status check_split_counts(std::int32_t ranks, std::int32_t micro_batches);

}  // namespace tidemark::graph_build
