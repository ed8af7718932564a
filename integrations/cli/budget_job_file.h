#pragma once
// From what says a job to the job to be answered: an entry of a budget file, or options of a command line.

#include <filesystem>

#include "integrations/ci/budget_job.h"
#include "integrations/cli/answered_job.h"
#include "integrations/cli/job_request.h"

namespace tidemark::cli {

/// Files are those beside the budget file. `threads` of `options` counts; all else is the entry's.
[[nodiscard]] JobFile job_file_of(const ci::BudgetJob& job, const std::filesystem::path& budget_file,
                                  const JobOptions& options);

/// One file with options of the command line.
[[nodiscard]] JobFile job_file_of(ci::JobKind kind, const std::filesystem::path& file, JobOptions options);

/// The entry that a budget file would have for it: no name, the budgets of the options.
[[nodiscard]] ci::BudgetJob entry_of(const JobFile& file, const Margin& margin);

}  // namespace tidemark::cli
