#pragma once
// What grew between two jobs, and whether it may.

#include <optional>
#include <string>

#include "integrations/ci/baseline.h"
#include "integrations/ci/changed_control.h"
#include "integrations/ci/gate_result.h"
#include "integrations/formats/plan_diff.h"
#include "planner/budget/growth.h"
#include "planner/budget/limit.h"

namespace tidemark::ci {

/// One side of a comparison.
struct DiffSide {
  std::string label;  ///< `base/plan.json`, `tidemark-baseline.json, pangu`
  std::string file;   ///< what it was read from, for annotations; empty: no one file
  budget::Basis basis = budget::Basis::planned;
};

struct DiffResult {
  std::string tool_version;
  DiffSide before, after;
  budget::Growth growth;
  std::optional<budget::Tolerance> allowed;         ///< of `--fail-on growth=2%`; nothing: nothing fails
  budget::Verdict verdict = budget::Verdict::pass;  ///< FAIL: a rank grew by more than is allowed
  std::string line;                ///< `FAIL base.json -> plan.json rank 3: peak 61.42 GiB exceeds 60.00 GiB by ...`
  std::vector<std::string> notes;  ///< of one side alone: `before: ...`, `after: ...`
  std::optional<ChangedControl> changed;   ///< the line of `after` that was another before; nothing: no rank grew
  std::optional<formats::PlanDiff> plans;  ///< of two plan files: what was asked for and decided otherwise
};

/// A rank that only `after` has is judged against the highest of `before`. Where nothing is known of a rank
/// (missing_rank.h), or either side was not understood, and growth may fail, it is NEAR at best. `baseline`: the one
/// that `before` is, whose runs' spread counts, else nullptr. REQUIRES: both sides of one basis.
[[nodiscard]] DiffResult diff_of(DiffSide before, const budget::Holdings& held_before, DiffSide after,
                                 const budget::Holdings& held_after, std::optional<budget::Tolerance> allowed,
                                 std::string tool_version, const BaselineJob* baseline = nullptr);

/// 1: FAIL, unless `is_exit_zero`; else 0.
[[nodiscard]] int exit_status(const DiffResult& result, bool is_exit_zero);

}  // namespace tidemark::ci
