#pragma once
// The one line of a finding, figures first:
// `FAIL pangu rank 3 (pp3): peak 61.42 GiB exceeds budget 60.00 GiB by 1.42 GiB (+2.4 %) at backward, micro-batch 14`.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "integrations/ci/baseline.h"
#include "integrations/ci/gate_result.h"
#include "planner/budget/holdings.h"
#include "planner/budget/limit.h"

namespace tidemark::ci {

/// `peak`, `host memory`, `peak of backward`, `category activations`.
[[nodiscard]] std::string subject_of(const budget::Limit& limit);

/// REQUIRES: everything of the finding but its line is there.
[[nodiscard]] std::string limit_line(const BudgetJob& job, const budget::Holdings& holdings, const JobFinding& finding,
                                     const budget::Limit& limit);

/// `spread`: of the runs of a measured baseline. REQUIRES: as limit_line, and before_bytes.
[[nodiscard]] std::string growth_line(const BudgetJob& job, const budget::Holdings& holdings, const JobFinding& finding,
                                      const std::optional<Spread>& spread);

/// `NEAR pangu: why`: of a finding without a rank.
[[nodiscard]] std::string rankless_line(const BudgetJob& job, budget::Verdict verdict, std::string_view why);

/// `; not all of its input was understood, so nothing says how far off this is: ...`. REQUIRES: is_understood is false.
[[nodiscard]] std::string doubt_text(const budget::Holdings& holdings);

/// `61.42 GiB exceeds baseline 60.00 GiB by 1.42 GiB (+2.4 %)`, `is ... below`, or `equals`.
[[nodiscard]] std::string distance_text(Bytes bytes, std::string_view most_name, Bytes most_bytes);

/// `+2.4 %`, `-0.3 %`; `from nothing` where it was 0.
[[nodiscard]] std::string change_text(Bytes before, Bytes after);

}  // namespace tidemark::ci
