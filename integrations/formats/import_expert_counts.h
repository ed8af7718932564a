#pragma once
// The load distribution that measured rows per device show (integrations/formats/expert_counts.h has the format). Every
// (layer, micro-batch) of a step names the same devices.

#include <string_view>

#include "core/result.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::formats {

/// `base` with mean, coefficient of variation and layer correlation replaced by the measured ones; quantile and seed
/// stay. f = rows of a device over the mean of its (layer, micro-batch), so the mean is 1 and what varies splits into a
/// part common to all sites of a device and a part of its own: the variance components of a one-way layout with devices
/// as groups, averaged over steps, a negative component taken as 0. Errors (bad_input): `file:line: what`, or too
/// little to tell (fewer than two devices or two sites).
[[nodiscard]] Result<graph_build::ExpertLoadSpec> read_expert_counts(std::string_view csv_text,
                                                                     std::string_view file_name,
                                                                     const graph_build::ExpertLoadSpec& base);

}  // namespace tidemark::formats
