#pragma once
// From the command line of `check` to the jobs that are judged: those of a budget file, or one file.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "integrations/ci/date.h"
#include "integrations/cli/gate_run.h"
#include "integrations/cli/job_request.h"
#include "integrations/cli/options.h"
#include "planner/budget/limit.h"

namespace tidemark::cli {

struct CheckOptions {
  JobOptions job;
  Margin margin;
  std::filesystem::path file;      ///< a budget file or one job; empty: the budget file that is found
  std::string kind;                ///< of one job; empty: told by the file
  std::string only;                ///< one job of a budget file, or of a baseline
  std::filesystem::path baseline;  ///< a baseline, or one job of the base branch; empty: the budget file's
  std::optional<budget::Tolerance> fail_on;
  std::optional<ci::Date> today;
};

/// `app`: where it was parsed, so that an option that would be read and then count for nothing is refused. Errors
/// (bad_input): one line.
[[nodiscard]] Result<GateRequest> read_gate_request(const CheckOptions& options, const CLI::App& app);

/// The same for `baseline`: only what `file`, `only` and `job.threads` say counts, and the baseline need not be there.
/// `baseline`: instead of the budget file's; empty: not given.
[[nodiscard]] Result<GateRequest> read_baseline_request(const CheckOptions& options,
                                                        const std::filesystem::path& baseline);

/// The files that are read, so that no report replaces one.
[[nodiscard]] std::vector<std::filesystem::path> inputs_of(const GateRequest& request);

}  // namespace tidemark::cli
