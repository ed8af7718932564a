#pragma once
// Rules that a job obeys on one device and breaks on another.

#include <vector>

#include "core/machine.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::graph_build {

/// Empty: the device can do what the job asks for. Otherwise each with the key of the job.
[[nodiscard]] std::vector<SpecProblem> find_device_problems(const JobSpec& job, const Machine& machine);

}  // namespace tidemark::graph_build
