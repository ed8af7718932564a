#pragma once
// Seconds of a step's micro-batches through the stages of a pipeline, in closed form.
//
//   stage 0  F F F F . . . B B B B       every stage passes all micro-batches; the fullest one is never idle in
//   between, stage 1    F F F F . B B B B .       and the others' work of one micro-batch, with a hop each way, fills
//   and drains stage 2      F F F F B B B B         it: as many chunks as a rank has, so many times less

#include "planner/step_time/rank_shape.h"

namespace tidemark::step_time {

/// Of one micro-batch, forward and backward.
struct StageSeconds {
  double layers_s = 0;                 ///< of a stage's layers
  double embedding_s = 0, head_s = 0;  ///< more on the first and the last
};

struct PipelineSeconds {
  double seconds = 0;
  double fill_s = 0;        ///< of them, filling and draining
  double bubble_share = 0;  ///< of them, where a mean stage is idle; 0 for one stage
};

/// Closed form: exact only where chunks are even. O(1).
[[nodiscard]] PipelineSeconds pipeline_s(const StepSetting& setting, const StageSeconds& stage);

}  // namespace tidemark::step_time
