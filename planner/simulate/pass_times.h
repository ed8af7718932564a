#pragma once
// What one pass of one chunk takes by itself, and the lower bound of a step that follows from it: the bound by which
// layouts are looked at in order, and passed over once it is above what has been found.
//
// A pass by itself starts with idle lanes and its input there. Other passes only hold it up, so from the start of its
// first compute op it takes at least that long: `lane_ns` until its last compute op ends, `out_ns` until its message
// has been sent. Communication that no compute op of the pass comes before may have run earlier and counts as nothing;
// compute ops that do not wait for the input (`early_ns`) may have run before it came. Passes that run interleaved each
// take at least their own time, and together the sum of their compute. The end of the step (reductions, optimizer) is
// left out. So the schedule of passes, played with these times, ends no later than the simulated step with everything
// kept, and a plan only adds to that.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/machine.h"
#include "core/result.h"
#include "planner/graph_build/job_spec.h"

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

/// What single layers take, under the degrees of one layout. Nothing of the embedding and the head.
struct LayerTimes {
  ChunkTime dense, moe, mtp;
  ChunkTime windowed_dense, windowed_moe;  ///< of layers whose attention has the window

  [[nodiscard]] const ChunkTime& of(const graph_build::JobSpec& job, const graph_build::Slot& slot) const;
};

/// By [rank][chunk].
using StageTimes = std::vector<std::vector<ChunkTime>>;

/// Times of every chunk, worked out once for chunks that hold the same layers under the same degrees. Any thread.
class PassTimeTable {
 public:
  PassTimeTable(const Machine& machine, double load, double time_scale)
      : machine_(machine), load_(load), time_scale_(time_scale) {}

  /// REQUIRES: find_problems(job) is empty; all jobs differ in `parallel` only.
  [[nodiscard]] Result<StageTimes> times_of(const graph_build::JobSpec& job);
  [[nodiscard]] Result<LayerTimes> layers_of(const graph_build::JobSpec& job);

 private:
  const Machine& machine_;
  double load_;
  double time_scale_;
  std::mutex mutex_;
  std::map<std::string, ChunkTime> chunks_;
  std::map<std::string, LayerTimes> layers_;
};

struct StepGuess {
  std::int64_t bound_ns = 0;     ///< proven: the step with everything kept takes at least this
  std::int64_t estimate_ns = 0;  ///< what it rather takes; the order in which layouts are looked at, nothing more
};

/// From the layers each rank has: bound, its compute; estimate, with communication and the fill of the pipeline.
/// O(slots).
[[nodiscard]] StepGuess guess_by_layers(const LayerTimes& times, const graph_build::JobSpec& job);

/// From the schedule of passes played. O(passes). The bound is never below that of the layers.
[[nodiscard]] Result<StepGuess> guess_by_passes(const StageTimes& times, const graph_build::ParallelSpec& parallel);

}  // namespace tidemark::simulate
