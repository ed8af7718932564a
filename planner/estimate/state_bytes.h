#pragma once
// Bytes of training state a parameter drags along on one rank: weight, gradient, fp32 master, moments, by mode.

#include <vector>

#include "planner/estimate/parameter_list.h"

namespace tidemark::estimate {

/// Bytes; per parameter element or of all parameters of a rank.
struct StateBytes {
  double weight = 0;
  double gradient = 0;
  double main = 0;     ///< fp32 (or narrower) master copy
  double moments = 0;  ///< appear in the first optimizer step
  /// fp32 copy of a 16-bit gradient: made in `step`, freed by the next `zero_grad`, so held when memory is logged and
  /// gone while forward and backward run.
  double gradient_copy = 0;
  double reference = 0;  ///< frozen second model
  [[nodiscard]] double total() const { return weight + gradient + main + moments + gradient_copy + reference; }
};

/// State of one element of `parameter`, sharding included.
[[nodiscard]] StateBytes state_of(const TrainingRun& run, const Parameter& parameter);
[[nodiscard]] StateBytes state_of(const TrainingRun& run, const std::vector<Parameter>& parameters);

/// Ranks that share the optimizer state of a parameter; 1 without a distributed optimizer.
[[nodiscard]] double optimizer_shards(const TrainingRun& run, bool expert);

}  // namespace tidemark::estimate
