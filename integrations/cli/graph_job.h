#pragma once
// `plan --graph FILE`: a step from elsewhere in place of a model.

#include <filesystem>
#include <optional>
#include <string>

#include "core/result.h"
#include "integrations/cli/options.h"
#include "integrations/cli/verb.h"

namespace tidemark::cli {

class Console;

struct GraphJob {
  std::filesystem::path graph;  ///< empty: not asked for
  std::filesystem::path schedule_out;
  std::string objective = "cost";
  std::optional<double> effort;
  bool frontier = false;
  bool group_recompute = false;
  bool addresses = false;
};

/// --graph and what goes with it alone. After all other options of the verb: it excludes them.
void add_graph_options(CLI::App& app, GraphJob& job);

/// Reads, plans, checks, writes and prints. Errors (bad_input): one line; (internal): a schedule the checker refuses.
[[nodiscard]] Result<ExitStatus> run_graph_job(const GraphJob& job, const std::string& policy,
                                               std::optional<Bytes> budget_bytes, Format format, Console& console);

}  // namespace tidemark::cli
