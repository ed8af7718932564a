#pragma once
// Executes the pass lists of all ranks of a pipeline with given pass times: a forward pass waits for the previous
// virtual stage, a backward pass for the next one, and each message takes a latency. The plainest reference there is.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "planner/graph_build/pipeline_schedule.h"

namespace tidemark {

struct PassTimes {
  double forward = 1;
  double backward = 2;
  double hop = 0;  ///< latency of a message between two ranks
};

struct PassRun {
  double makespan = 0;
  bool complete = false;                ///< false: deadlock, or a pass list that misses or repeats a pass
  std::vector<std::int64_t> in_flight;  ///< per rank: most passes between their forward and their backward
};

class PassExecutor {
 public:
  PassExecutor(const graph_build::PipelineShape& shape, const PassTimes& times);

  /// REQUIRES: one list per rank.
  [[nodiscard]] PassRun run(const std::vector<std::vector<graph_build::Pass>>& passes);

 private:
  [[nodiscard]] std::size_t cell(std::int32_t stage, std::int32_t micro_batch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(shape_.micro_batches) +
           static_cast<std::size_t>(micro_batch);
  }
  /// When the input of a pass arrives, or a negative number while it is unknown.
  [[nodiscard]] double ready_at(std::int32_t rank, const graph_build::Pass& pass) const;
  bool step(std::int32_t rank, const graph_build::Pass& pass);

  graph_build::PipelineShape shape_;
  PassTimes times_;
  std::vector<double> forward_end_, backward_end_;  ///< per (virtual stage, micro-batch); negative: not run yet
  std::vector<double> clock_;                       ///< per rank
};

inline PassExecutor::PassExecutor(const graph_build::PipelineShape& shape, const PassTimes& times)
    : shape_(shape), times_(times) {
  const auto cells = static_cast<std::size_t>(shape.ranks) * static_cast<std::size_t>(shape.chunks) *
                     static_cast<std::size_t>(shape.micro_batches);
  forward_end_.assign(cells, -1);
  backward_end_.assign(cells, -1);
  clock_.assign(static_cast<std::size_t>(shape.ranks), 0);
}

inline double PassExecutor::ready_at(std::int32_t rank, const graph_build::Pass& pass) const {
  const std::int32_t stage = pass.chunk * shape_.ranks + rank;
  const std::int32_t last = shape_.ranks * shape_.chunks - 1;
  const double hop = shape_.ranks > 1 ? times_.hop : 0;
  if (pass.forward) {
    if (stage == 0) return 0;
    const double end = forward_end_[cell(stage - 1, pass.micro_batch)];
    return end < 0 ? end : end + hop;
  }
  const double own = forward_end_[cell(stage, pass.micro_batch)];
  if (own < 0 || stage == last) return own;
  const double end = backward_end_[cell(stage + 1, pass.micro_batch)];
  return end < 0 ? end : end + hop;
}

inline bool PassExecutor::step(std::int32_t rank, const graph_build::Pass& pass) {
  const double ready = ready_at(rank, pass);
  auto& end = (pass.forward ? forward_end_ : backward_end_)[cell(pass.chunk * shape_.ranks + rank, pass.micro_batch)];
  if (ready < 0 || end >= 0) return false;  // not ready, or run twice: the list never finishes
  double& clock = clock_[static_cast<std::size_t>(rank)];
  clock = std::max(clock, ready) + (pass.forward ? times_.forward : times_.backward);
  end = clock;
  return true;
}

inline PassRun PassExecutor::run(const std::vector<std::vector<graph_build::Pass>>& passes) {
  PassRun result;
  result.in_flight.assign(passes.size(), 0);
  std::vector<std::size_t> next(passes.size(), 0);
  std::vector<std::int64_t> held(passes.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < passes.size(); ++rank) {
      while (next[rank] < passes[rank].size() && step(static_cast<std::int32_t>(rank), passes[rank][next[rank]])) {
        held[rank] += passes[rank][next[rank]].forward ? 1 : -1;
        result.in_flight[rank] = std::max(result.in_flight[rank], held[rank]);
        ++next[rank];
        moved = true;
      }
    }
  }
  result.complete = true;
  for (const double end : backward_end_) result.complete = result.complete && end >= 0;
  for (std::size_t rank = 0; rank < passes.size(); ++rank) {
    result.complete = result.complete && next[rank] == passes[rank].size() && held[rank] == 0;
    result.makespan = std::max(result.makespan, clock_[rank]);
  }
  return result;
}

}  // namespace tidemark
