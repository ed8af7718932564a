#pragma once
// The load distribution that measured rows per device show (integrations/formats/expert_counts.h has the format). Every
// step names the same layers, every layer the same micro-batches, every (layer, micro-batch) the same devices.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "planner/graph_build/job_spec.h"
#include "planner/graph_build/load_fit.h"

namespace tidemark::formats {

struct MeasuredLoads {
  graph_build::ExpertLoadSpec spec;
  graph_build::LoadFit fit;
};

/// What every step of a file names.
struct CountedLayout {
  std::int64_t step = 0;  ///< the first
  std::vector<std::int64_t> layers, micro_batches;
  std::vector<std::int64_t> devices;  ///< or experts
  bool is_by_expert = false;
  [[nodiscard]] std::size_t sites() const { return layers.size() * micro_batches.size(); }
};

/// Calls `take` with one step after the other: rows by layer, micro-batch and device, or expert, each ascending. Errors
/// (bad_input): `file:line: what`; a file without a step.
[[nodiscard]] Result<CountedLayout> each_counted_step(
    std::string_view csv_text, std::string_view file_name,
    const std::function<Status(const CountedLayout&, const std::vector<std::int64_t>&)>& take);

/// The distribution fitted to the counts (graph_build/load_fit.h), with `base`'s quantile and seed. The mean is 1: f =
/// rows of a device over the mean of its (layer, micro-batch). `devices`: of an expert group, on which counts of
/// experts are added up; 0: not known, so counts are of devices. Errors (bad_input): `file:line: what`, or too little
/// to tell (fewer than two devices or two sites).
[[nodiscard]] Result<MeasuredLoads> read_expert_counts(std::string_view csv_text, std::string_view file_name,
                                                       const graph_build::ExpertLoadSpec& base,
                                                       std::int64_t devices = 0);

/// Parts as coefficients of variation of f with their standard errors, the fullest device, and what is missing.
[[nodiscard]] std::string loads_text(const graph_build::LoadFit& fit);

}  // namespace tidemark::formats
