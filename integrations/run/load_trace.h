#pragma once
// A file of expert counts (integrations/formats/expert_counts.h) held against the job whose plan runs.

#include <cstdint>
#include <vector>

#include "core/result.h"
#include "integrations/formats/expert_counts.h"
#include "planner/graph_build/load_shape.h"

namespace tidemark::run {

/// Loads f of one step, rows over the mean of the job. Counts are of rows that are routed; where the job has a
/// capacity, loads are of what devices hold then.
class StepLoads {
 public:
  /// Errors (bad_input, `file:line: what`): a layer, micro-batch or device that the job does not have, one named twice
  /// or not at all, other rows of a (layer, micro-batch) than the job routes. REQUIRES: `reader` read the step last; it
  /// is not asked for another after an error.
  [[nodiscard]] static Result<StepLoads> of(const formats::CountedStep& counted, const graph_build::LoadShape& shape,
                                            formats::ExpertCountReader& reader);

  /// Of rows by place of the layer in the shape, micro-batch and device (graph_build/load_draws.h). REQUIRES: as of().
  [[nodiscard]] static StepLoads of_rows(std::vector<std::int64_t> rows, const graph_build::LoadShape& shape);

  /// REQUIRES: of the shape.
  [[nodiscard]] double at(std::int64_t layer, std::int64_t micro_batch, std::int64_t device) const;
  /// What that device receives and sends: devices of a node send alike, together the node's part of all rows.
  /// REQUIRES: of the shape.
  [[nodiscard]] SiteLoad site(std::int64_t layer, std::int64_t micro_batch, std::int64_t device) const;
  /// Of the fullest device. REQUIRES: of the shape.
  [[nodiscard]] double fullest(std::int64_t layer, std::int64_t micro_batch) const;
  [[nodiscard]] double most() const;
  /// By place of the layer in the shape, micro-batch, device.
  [[nodiscard]] std::vector<double> all() const;

 private:
  explicit StepLoads(const graph_build::LoadShape& shape);
  /// -1: the shape has no such layer.
  [[nodiscard]] std::int64_t row_of(std::int64_t layer) const;
  /// Rows that are routed become rows that are held.
  void drop();
  [[nodiscard]] double load_of(std::int64_t held) const;
  [[nodiscard]] std::size_t place(std::int64_t row, std::int64_t micro_batch, std::int64_t device) const;
  [[nodiscard]] Status add(const formats::ExpertCount& count, const graph_build::LoadShape& shape,
                           const formats::ExpertCountReader& reader);
  /// Every device of every (layer, micro-batch) is named, and they have the job's rows.
  [[nodiscard]] Status check(const formats::CountedStep& step, const graph_build::LoadShape& shape,
                             formats::ExpertCountReader& reader) const;

  graph_build::LoadShape shape_;
  std::vector<std::int64_t> rows_of_layers_;  ///< layer to row; -1
  std::int64_t micro_batches_ = 0, devices_ = 0;
  std::int64_t nodes_ = 1, node_devices_ = 0;
  std::vector<std::int64_t> rows_;  ///< that are held, by layer row, micro-batch, device; -1: not named
};

}  // namespace tidemark::run
