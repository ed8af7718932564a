#pragma once
// Seconds of a training step, from what a run is, the device it runs on and what its software does. Modelled.

#include "planner/step_time/timed_run.h"

namespace tidemark::step_time {

/// Parts of `seconds`, of the slowest rank; sums of all micro-batches. For people, and to see which term is off.
struct StepTerms {
  double matmul_s = 0, attention_s = 0, vector_s = 0, tensor_s = 0, expert_s = 0;  ///< of the layers of a mean stage
  double copy_s = 0;                                                               ///< of those, what is not hidden
  double host_s = 0;                                                               ///< launches of those layers
  double head_s = 0, sharded_s = 0, exchange_s = 0, optimizer_s = 0;  ///< sharded, exchange: what is not hidden
  double bubble_share = 0;
};

struct StepSeconds {
  double seconds = 0;   ///< the three parts together
  double passes_s = 0;  ///< all micro-batches on the fullest stage
  double fill_s = 0;    ///< of the pipeline: filling and draining it
  double end_s = 0;     ///< update, exchange that is not hidden, host work of a step
  StepTerms terms;
};

/// REQUIRES: `device` supports the run's precision, layout divides the devices; counts >= 1. O(pipeline). Any thread.
[[nodiscard]] StepSeconds step_seconds(const TimedRun& run, const Chip& device, const Software& software);

}  // namespace tidemark::step_time
