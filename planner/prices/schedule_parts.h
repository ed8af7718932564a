#pragma once
// What one micro-batch of a layer keeps and how much of its backward is weight gradients, taken from the ops of a step
// with everything kept, so that schedules which place layers otherwise can be played.

#include <cstdint>
#include <map>
#include <vector>

#include "core/bytes.h"
#include "planner/graph_build/split_schedule.h"
#include "planner/graph_build/split_times.h"
#include "planner/prices/kept_step.h"
#include "planner/simulate/pass_times.h"
#include "planner/simulate/split_step.h"

namespace tidemark::prices {

/// Of one micro-batch.
struct LayerPart {
  Bytes held_bytes = 0;             ///< saved for backward
  Bytes put_off_bytes = 0;          ///< what its weight gradients read: held until they have run
  std::int64_t weight_grad_ns = 0;  ///< on the compute lane
  std::int64_t compute_ns = 0;      ///< of all its ops there
  void add(const LayerPart& other) {
    held_bytes += other.held_bytes;
    put_off_bytes += other.put_off_bytes;
    weight_grad_ns += other.weight_grad_ns;
    compute_ns += other.compute_ns;
  }
};

class ScheduleParts {
 public:
  explicit ScheduleParts(const KeptStep& step);

  /// Of one stage of a job with the same model and degrees.
  [[nodiscard]] LayerPart stage(const graph_build::JobSpec& job, std::int64_t stage) const;
  /// The job with `chunks` stages a rank and its ranks about equally busy (work_balance.h). MTP modules are on the last
  /// stage; the main head is apart from them where that leaves the busiest rank less.
  [[nodiscard]] graph_build::JobSpec balanced(graph_build::JobSpec job, std::int32_t chunks,
                                              graph_build::StagePlacement placement) const;
  /// Of a message between ranks: the longest send.
  [[nodiscard]] std::int64_t hop_ns() const { return hop_ns_; }

 private:
  void take(const KeptStep& step, std::size_t rank);
  [[nodiscard]] LayerPart modules(const graph_build::ModelSpec& model) const;

  std::map<std::int32_t, LayerPart> layers_;  ///< MTP module n is layer `layers + n`
  LayerPart embedding_, head_;
  std::int64_t hop_ns_ = 0;
};

/// A job's stages as a schedule's chunks.
struct StagedJob {
  graph_build::SplitTimeTable times;
  simulate::PassBytesTable bytes;
  std::vector<Bytes> fixed_bytes;  ///< per rank: reserves and state
};

/// REQUIRES: find_problems(job) is empty, and it does not overlap forward and backward. Errors: those of building a
/// graph.
[[nodiscard]] Result<StagedJob> staged(const graph_build::JobSpec& job, const Machine& machine,
                                       graph_build::StagePlacement placement, const ScheduleParts& parts,
                                       simulate::ChunkTimes& chunk_times);

/// Errors: those of run_split_step.
[[nodiscard]] Result<SwitchSide> played(const graph_build::SplitSchedule& schedule, const StagedJob& job);

}  // namespace tidemark::prices
