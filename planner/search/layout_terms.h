#pragma once
// Which terms of step time a job and its layout have.

#include "core/time_term.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::search {

/// Of the job as laid out, without what a policy recomputes or copies. Pure; any thread.
[[nodiscard]] TimeTerms terms_of(const graph_build::JobSpec& job);

}  // namespace tidemark::search
