#pragma once
// A baseline for people: `tidemark baseline show` and what `update` did. Peaks are those that a check holds against
// limits: what a job's own reserve stands for is out of them (judgement.h). The file itself has all of them whole.

#include <optional>
#include <string>
#include <vector>

#include "integrations/ci/baseline.h"
#include "integrations/ci/budget_job.h"

namespace tidemark::ci {

/// A line a job: ranks, highest peak, where the figures come from; of measured ones the runs and their spread.
/// `jobs`: of the budget file; one that is not among them has no reserve of its own.
[[nodiscard]] std::string baseline_summary(const Baseline& baseline, const std::vector<BudgetJob>& jobs);

/// A line a job: added, removed, or its highest peak before and after. `before`: nothing was written yet.
[[nodiscard]] std::string baseline_changes(const std::optional<Baseline>& before, const Baseline& after,
                                           const std::vector<BudgetJob>& jobs);

}  // namespace tidemark::ci
