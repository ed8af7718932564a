#pragma once
// What a gate found: one value from which every report is written (report_format.h), and the exit status with it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "integrations/ci/budget_job.h"
#include "integrations/ci/changed_control.h"
#include "planner/budget/comparison.h"
#include "planner/budget/control.h"
#include "planner/budget/growth.h"
#include "planner/budget/holdings.h"
#include "planner/budget/limit.h"
#include "planner/budget/remedy.h"

namespace tidemark::ci {

/// Of a finding, a job or a whole gate; the worst is the largest.
enum class GateVerdict : std::uint8_t { pass, near, fail, error };
inline constexpr std::array<std::string_view, 4> kGateVerdictWords = {"PASS", "NEAR", "FAIL", "ERROR"};
[[nodiscard]] std::string_view word_of(GateVerdict verdict);
[[nodiscard]] GateVerdict gate_verdict_of(budget::Verdict verdict);

/// What was held against the holdings of a job.
enum class FindingKind : std::uint8_t {
  device,
  host,
  limit,
  growth,
  rank,     ///< a rank of the job is not among those that were measured, or planned
  program,  ///< of a plan file: it is not sound, and nothing else is judged
  nothing,  ///< there is nothing to hold it against
};
inline constexpr std::array<std::string_view, 7> kFindingKindWords = {"device", "host",    "limit",  "growth",
                                                                      "rank",   "program", "nothing"};
[[nodiscard]] std::string_view word_of(FindingKind kind);

/// What a waiver did to a finding.
enum class WaiverEffect : std::uint8_t {
  none,      ///< no waiver is for it
  waived,    ///< exceeded, and allowed to
  expired,   ///< exceeded, and was allowed to until a day that has passed
  exceeded,  ///< by more than the waiver allows
};
inline constexpr std::array<std::string_view, 4> kWaiverEffectWords = {"none", "waived", "expired", "exceeded"};
[[nodiscard]] std::string_view word_of(WaiverEffect effect);

struct JobFinding {
  FindingKind kind = FindingKind::device;
  budget::Verdict verdict = budget::Verdict::pass;  ///< with waivers
  std::string line;  ///< `FAIL pangu rank 3 (pp3): peak 61.42 GiB exceeds budget 60.00 GiB by 1.42 GiB (+2.4 %) at ...`
  std::string subject;                ///< `peak`, `host memory`, `peak of backward`, `category activations`
  std::optional<std::size_t> rank;    ///< row of JobResult::holdings; nothing: no rank could be looked at
  Bytes bytes = 0;                    ///< what that rank holds
  Bytes most_bytes = 0;               ///< the limit; of growth the baseline with the growth that is allowed
  Bytes band_bytes = 0;               ///< of an estimate: how far it is expected to be off
  std::optional<Bytes> before_bytes;  ///< of growth: the baseline's
  WaiverEffect effect = WaiverEffect::none;
  std::optional<std::size_t> waiver;  ///< of the job's, where effect is not `none`
  budget::Control where;              ///< what the verdict points at: the line that controls most, else the limit's
  /// Of growth: the line whose text was another before; nothing: none was, or the rank did not grow.
  std::optional<ChangedControl> changed;
};

/// One job with what was found about it.
struct JobResult {
  BudgetJob job;
  budget::Control where;      ///< of a job that could not be read: its entry in the budget file, else its own file
  std::string error;          ///< one line; not empty: the job could not be read, and all below is empty
  budget::Holdings holdings;  ///< as judged (judged_holdings): without the reserve that the job's own stands for
  std::vector<JobFinding> findings;      ///< device, host, limits in their order, growth; or one `program` or `nothing`
  std::vector<std::string> notices;      ///< `the budget can be lowered to 56.10 GiB`; a line each
  std::optional<budget::Growth> growth;  ///< against the baseline
  std::optional<budget::Remedy> remedy;  ///< put here by the caller, who knows how to plan anew
  std::optional<budget::Holdings> predicted;     ///< beside a measured job, judged as that is
  std::optional<budget::Comparison> comparison;  ///< of it with the run
};
[[nodiscard]] GateVerdict verdict_of(const JobResult& job);
/// The worst finding, the first of them; nullptr: the job could not be read.
[[nodiscard]] const JobFinding* worst_finding(const JobResult& job);
/// The rank that the worst finding is about, else the highest. REQUIRES: the job's holdings have a rank.
[[nodiscard]] const budget::RankHoldings& explained_rank(const JobResult& job);

struct GateResult {
  std::string tool_version;
  std::string budget_file;  ///< as in BudgetFile::name; empty: a job named on the command line
  bool is_strict = false;   ///< NEAR counts as FAIL
  std::vector<JobResult> jobs;
};

struct GateCounts {
  std::size_t pass = 0, near = 0, fail = 0, error = 0;  ///< of jobs
  std::size_t waived = 0;                               ///< of findings
};
[[nodiscard]] GateCounts counts_of(const GateResult& result);
[[nodiscard]] GateVerdict verdict_of(const GateResult& result);

/// 0: all PASS or NEAR. 1: any FAIL, or NEAR where strict. 2: a job could not be read, whatever the others are.
/// `is_exit_zero` makes 1 a 0.
[[nodiscard]] int exit_status(const GateResult& result, bool is_exit_zero);

}  // namespace tidemark::ci
