#pragma once
// Times of chunks as sums over their layers: a few small graphs for each set of degrees, whatever chunks hold. What
// layers of one chunk hide of each other's communication is left out, and the ends of the pipeline are added to the
// chunk that has them. For searches that look at thousands of models; tests hold it against the chunks' own graphs.

#include "core/result.h"
#include "planner/simulate/pass_times.h"

namespace tidemark::simulate {

class LayerSums final : public ChunkTimes {
 public:
  /// `table` outlives it.
  explicit LayerSums(PassTimeTable& table) : table_(table) {}

  [[nodiscard]] Result<ChunkTime> chunk_of(const graph_build::JobSpec& job, const ChunkContent& content) override;
  [[nodiscard]] Result<LayerTimes> layers_of(const graph_build::JobSpec& job) override;

  /// Compute of all chunks of one micro-batch, forward and backward, ns: the same for every placement.
  [[nodiscard]] Result<std::int64_t> compute_ns(const graph_build::JobSpec& job);

 private:
  PassTimeTable& table_;
};

}  // namespace tidemark::simulate
