#pragma once
// Measured rows per expert rank as CSV, and the load distribution they show.
//
//   layer,micro_batch,device,rows
//   3,0,0,65012
//   3,0,1,66102
//
// A row of the table is one device's share of one (layer, micro-batch). Every (layer, micro-batch) names the same
// devices. `#` starts a comment line.

#include <string_view>

#include "core/result.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::formats {

/// `base` with mean, coefficient of variation and layer correlation replaced by the measured ones; quantile and seed
/// stay. f = rows of a device over the mean of its (layer, micro-batch), so the mean is 1 and what varies splits into a
/// part common to all sites of a device and a part of its own: the variance components of a one-way layout with devices
/// as groups, a negative component taken as 0. Errors (bad_input): `file:line: what`, or too little to tell (fewer than
/// two devices or two sites).
[[nodiscard]] Result<graph_build::ExpertLoadSpec> read_expert_counts(std::string_view csv_text,
                                                                     std::string_view file_name,
                                                                     const graph_build::ExpertLoadSpec& base);

}  // namespace tidemark::formats
