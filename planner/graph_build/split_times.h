#pragma once
// What passes with a split backward take on every chunk of every rank: given to builders whose order depends on it, and
// to the evaluator (planner/simulate/split_step.h). Any unit will do for builders; the evaluator's is nanoseconds.

#include <cstdint>
#include <vector>

namespace tidemark::graph_build {

/// Of one chunk, none negative.
struct SplitTimes {
  std::int64_t forward_ns = 0;
  std::int64_t input_grad_ns = 0;   ///< dX
  std::int64_t weight_grad_ns = 0;  ///< dW
};

struct SplitTimeTable {
  std::vector<std::vector<SplitTimes>> chunks;  ///< [rank][chunk]
  std::int64_t hop_ns = 0;                      ///< latency of a message to another rank
};

[[nodiscard]] inline SplitTimeTable uniform_times(std::int32_t ranks, std::int32_t chunks, const SplitTimes& times,
                                                  std::int64_t hop_ns) {
  const std::vector<SplitTimes> rank(static_cast<std::size_t>(chunks), times);
  return {.chunks = std::vector<std::vector<SplitTimes>>(static_cast<std::size_t>(ranks), rank), .hop_ns = hop_ns};
}

/// Forward, dX and dW of every chunk alike and no latency: what the published V schedules are drawn for.
[[nodiscard]] inline SplitTimeTable unit_times(std::int32_t ranks, std::int32_t chunks) {
  return uniform_times(ranks, chunks, {.forward_ns = 1, .input_grad_ns = 1, .weight_grad_ns = 1}, 0);
}

}  // namespace tidemark::graph_build
