#pragma once
// The load distribution that measured rows per device show (integrations/formats/expert_counts.h has the format). Every
// step names the same layers, every layer the same micro-batches, every (layer, micro-batch) the same devices.

#include <string>
#include <string_view>

#include "core/result.h"
#include "planner/graph_build/job_spec.h"
#include "planner/graph_build/load_fit.h"

namespace tidemark::formats {

struct MeasuredLoads {
  graph_build::ExpertLoadSpec spec;
  graph_build::LoadFit fit;
};

/// The distribution fitted to the counts (graph_build/load_fit.h), with `base`'s quantile and seed. The mean is 1: f =
/// rows of a device over the mean of its (layer, micro-batch). Errors (bad_input): `file:line: what`, or too little to
/// tell (fewer than two devices or two sites).
[[nodiscard]] Result<MeasuredLoads> read_expert_counts(std::string_view csv_text, std::string_view file_name,
                                                       const graph_build::ExpertLoadSpec& base);

/// Parts as coefficients of variation of f with their standard errors, the fullest device, and what is missing.
[[nodiscard]] std::string loads_text(const graph_build::LoadFit& fit);

}  // namespace tidemark::formats
