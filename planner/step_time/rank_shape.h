#pragma once
// Widths and counts of one rank and micro-batch, from a run: what every part of a layer is priced at.

#include "planner/step_time/timed_run.h"

namespace tidemark::step_time {

/// All are what one rank holds unless said; means, so they need not be whole.
struct RankShape {
  double tokens = 0;                                              ///< of a micro-batch, after context parallelism
  double split_tokens = 0;                                        ///< where sequence parallelism splits them too
  double tensor = 1, context = 1, expert = 1, expert_tensor = 1;  ///< ranks of each group
  double hidden = 0;                                              ///< whole
  double heads = 0, kv_heads = 0;
  double qk_dim = 0, v_dim = 0;  ///< of a head
  double qkv_width = 0;          ///< of queries, keys and values; MLA: and of what they are projected from and to
  double ffn = 0, shared_ffn = 0, expert_ffn = 0;
  double gates = 1;  ///< products side by side before the activation: 2 where gated
  double vocabulary = 0;
  double routed_rows = 0;  ///< of experts, together with those of its expert tensor group
  double experts = 0;      ///< at least one
};

[[nodiscard]] RankShape rank_shape(const TimedRun& run);

/// What all parts are priced from. Borrows the three values; they outlive it.
struct StepSetting {
  const TimedRun& run;
  const Chip& device;
  const Software& software;
  RankShape rank;
};

}  // namespace tidemark::step_time
