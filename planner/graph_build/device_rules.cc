#include "planner/graph_build/device_rules.h"

#include <fmt/format.h>

namespace tidemark::graph_build {

std::vector<SpecProblem> find_device_problems(const JobSpec& job, const Machine& machine) {
  if (job.parallel.compute != ParallelSpec::Compute::fp8 || machine.chip.sheet.peak(Precision::fp8) > 0) return {};
  return {{"precision.compute",
           fmt::format("compute is fp8, but the chip of device {} has no rate for it; use bf16, or a device whose chip "
                       "has peak_flops.fp8",
                       machine.name)}};
}

}  // namespace tidemark::graph_build
