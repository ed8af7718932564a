#pragma once
// The longest path of a step again and again, while work is added here and there on the compute lanes: what
// simulate_step() says of it, without times of single tasks. What holds up what does not change with durations, so it
// is put in order once.

#include <cstdint>
#include <span>
#include <vector>

#include "planner/simulate/simulator.h"

namespace tidemark::simulate {

/// Per rank and compute task in order, ns.
using PerComputeTask = std::vector<std::vector<float>>;

/// A task of a compute lane, by its place there.
struct ComputeTask {
  std::int32_t rank = 0, place = 0;
};

/// Not thread-safe.
class LongestPath {
 public:
  /// REQUIRES: simulate_step(works) succeeds. O(tasks + waits + messages log messages).
  explicit LongestPath(std::span<const RankWork> works);

  /// How long the step takes with so much added to each compute task, ns. O(tasks + waits).
  double step_ns(const PerComputeTask& added);
  /// Compute tasks on the longest path of the step asked for last, from its end back.
  [[nodiscard]] const std::vector<ComputeTask>& compute_tasks() const { return on_path_; }
  /// Zeros.
  [[nodiscard]] PerComputeTask nothing() const;

 private:
  struct Node {
    std::int32_t first_edge = 0;  ///< into edges_
    std::int32_t rank = 0;
    std::int32_t place = -1;  ///< on the compute lane; -1: another lane
    std::int64_t duration_ns = 0;
  };
  /// What is known of a rank while it is put in order.
  struct Placed {
    std::vector<std::int32_t> node_of;  ///< per task
    std::vector<std::int32_t> last_of_lane;
  };
  void add_node(std::size_t rank, const RankWork& work, std::int32_t sender, Placed& placed);
  void trace(std::int32_t last);

  std::vector<Node> nodes_;             ///< in an order in which the step runs, and one behind the last
  std::vector<std::int32_t> edges_;     ///< of nodes that must have ended
  std::vector<double> end_ns_;          ///< per node, of the step asked for last
  std::vector<std::int32_t> cause_;     ///< per node: whose end it started at; -1: the begin of the step
  std::vector<std::int32_t> computes_;  ///< per rank
  std::vector<ComputeTask> on_path_;
};

}  // namespace tidemark::simulate
