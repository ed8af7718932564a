#pragma once
// The modelled step beside a published one, and the gap split by cause. Nothing is tuned: what the publication states
// is taken from it, and what is left over is what its kernels must have needed beyond the model's.

#include <cstdint>
#include <string_view>
#include <vector>

#include "planner/time_split.h"

namespace tidemark::plan {

/// What a report says of one job's step.
struct PublishedStep {
  std::string_view model;   ///< name of the job's model
  std::string_view source;  ///< the report
  double step_ns = 0;
  double bubble_share = 0;                ///< of the step
  double hidden_communication_share = 0;  ///< of communication time; the rest is exposed
};

/// nullptr: nothing is published that we know of.
[[nodiscard]] const PublishedStep* find_published_step(std::string_view model);
/// Models with a published step.
[[nodiscard]] std::vector<std::string_view> published_models();

struct GapLine {
  std::string_view cause;
  std::string_view basis;  ///< where the published side comes from
  double published_ns = 0;
  double modelled_ns = 0;
  [[nodiscard]] double gap_ns() const { return published_ns - modelled_ns; }
};

/// Invariant: the lines add up to the steps on both sides.
struct GapReport {
  double published_step_ns = 0, modelled_step_ns = 0;
  double published_layer_ns = 0,
         modelled_layer_ns = 0;  ///< step outside the bubble per slot of the fullest rank and micro-batch
  std::vector<GapLine> lines;
  /// The rate of the published kernels over the modelled rate, if nothing but kernels explains the rest.
  double kernel_rate_ratio = 0;
};

/// `mean`: over all ranks. `slots_per_rank`: layers and MTP modules of the rank that holds most.
[[nodiscard]] GapReport split_gap(const PublishedStep& published, const TimeSplit& mean, double slots_per_rank,
                                  double micro_batches);

/// The same for an outcome. REQUIRES: every rank was planned.
[[nodiscard]] GapReport gap_to(const PublishedStep& published, const graph_build::JobSpec& job,
                               const PlanOutcome& outcome);

}  // namespace tidemark::plan
