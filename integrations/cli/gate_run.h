#pragma once
// The jobs of one check, answered and judged.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "integrations/ci/baseline.h"
#include "integrations/ci/budget_job.h"
#include "integrations/ci/date.h"
#include "integrations/ci/gate_result.h"
#include "integrations/cli/answered_job.h"

namespace tidemark::cli {

class Console;

struct GateJob {
  ci::BudgetJob job;
  JobFile file;
};

struct GateRequest {
  std::string budget_file;         ///< as it was named; empty: none
  std::vector<std::string> names;  ///< of all jobs of the budget file, also of those that are not asked for
  std::vector<GateJob> jobs;
  std::vector<JobFile> not_asked;       ///< of the other jobs of the budget file
  std::filesystem::path baseline_file;  ///< empty: none
  std::optional<ci::Baseline> baseline;
  bool is_baseline_expected = false;  ///< a job that the baseline lacks is said so
  bool is_growth_asked = false;       ///< by `--fail-on`: a job of which growth cannot be told does not PASS
  ci::Date today{};
};

/// What one job held, or the one line that says why it is not known. The line of a budget file stands before errors
/// that do not begin with a file's name.
struct GateAnswer {
  std::optional<AnsweredJob> answer;
  Error error;
};

/// In the order of the jobs. Errors: a fault in Tidemark; what is wrong with a job is in its answer.
[[nodiscard]] Result<std::vector<GateAnswer>> answer_all(const GateRequest& request, const Console& console);

/// Judged, with remedies for the jobs that fail. Errors: as answer_all; of a job on the command line that it cannot be
/// compared as asked for.
[[nodiscard]] Result<std::vector<ci::JobResult>> judge_all(const GateRequest& request,
                                                           const std::vector<GateAnswer>& answers);

}  // namespace tidemark::cli
