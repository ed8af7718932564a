#pragma once
// `plan --graph FILE`: a captured step in place of a model.

#include <filesystem>
#include <optional>
#include <string>

#include "core/result.h"
#include "integrations/cli/job_request.h"
#include "integrations/cli/options.h"

namespace tidemark::cli {

struct GraphJob {
  std::filesystem::path graph;  ///< empty: not asked for
  std::filesystem::path schedule_out;
  std::string objective = "cost";
  std::optional<double> effort;
  std::optional<double> time_limit;  ///< seconds from when the request is read
  bool frontier = false;
  bool group_recompute = false;
};

/// --graph and what goes with it alone. After all other options of the verb: it excludes what describes a job.
void add_graph_options(CLI::App& app, GraphJob& job);

/// The request for the step of --graph. Errors (bad_input): one line.
[[nodiscard]] Result<plan::PlanRequest> read_graph_request(const GraphJob& job, const JobOptions& options);

}  // namespace tidemark::cli
