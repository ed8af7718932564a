#pragma once
// What a well described job may hold and no graph is built of.

#include <vector>

#include "planner/graph_build/job_spec.h"

namespace tidemark::graph_build {

/// One problem a key, in the order of docs/formats.md. REQUIRES: find_description_problems(job) is empty.
[[nodiscard]] std::vector<SpecProblem> find_unplanned(const JobSpec& job);

}  // namespace tidemark::graph_build
