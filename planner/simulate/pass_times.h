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
#include "planner/simulate/pass_clock.h"

namespace tidemark::simulate {

/// What single layers take, under the degrees of one layout. Nothing of the embedding and the head.
struct LayerTimes {
  ChunkTime dense, moe, mtp;
  ChunkTime windowed_dense, windowed_moe;  ///< of layers whose attention has the window

  [[nodiscard]] const ChunkTime& of(const graph_build::JobSpec& job, const graph_build::Slot& slot) const;
};

/// What one chunk holds. Its MTP modules are all or none: those of the last stage.
struct ChunkContent {
  std::int32_t first_layer = 0;
  std::int32_t layers = 0;  ///< in order from there
  bool is_first = false;    ///< of the pipeline: with the embedding
  bool is_last = false;     ///< of the pipeline: with the MTP modules and their heads
  bool has_head = false;    ///< with the main output head and its loss
};

/// Where times of chunks come from.
class ChunkTimes {
 public:
  virtual ~ChunkTimes() = default;

  // REQUIRES, of all three: find_problems(job) is empty; all jobs differ in `parallel` only. Errors: those of building
  // a graph. Any thread.

  /// Of a chunk in a job with as many stages. REQUIRES: the job has room for it: more stages than one where it is not
  /// first and last, and a head apart from the last stage only behind the last layer.
  [[nodiscard]] virtual Result<ChunkTime> chunk_of(const graph_build::JobSpec& job, const ChunkContent& content) = 0;
  [[nodiscard]] virtual Result<LayerTimes> layers_of(const graph_build::JobSpec& job) = 0;
  /// Of every chunk of the job.
  [[nodiscard]] Result<StageTimes> times_of(const graph_build::JobSpec& job);
};

/// Times of every chunk by its own graph, worked out once for chunks that hold the same layers under the same degrees.
class PassTimeTable final : public ChunkTimes {
 public:
  PassTimeTable(const Machine& machine, double load, double time_scale)
      : machine_(machine), load_(load), time_scale_(time_scale) {}

  [[nodiscard]] Result<ChunkTime> chunk_of(const graph_build::JobSpec& job, const ChunkContent& content) override;
  [[nodiscard]] Result<LayerTimes> layers_of(const graph_build::JobSpec& job) override;

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
