#pragma once
// What a report says, in the order it says it: the one value that text, Markdown, HTML, JUnit, SARIF and annotations
// are written from. What programs read is JSON, written from the results themselves. Private to ci.

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "integrations/ci/diff_result.h"
#include "integrations/ci/gate_result.h"
#include "integrations/ci/report_format.h"
#include "planner/budget/control.h"

namespace tidemark::ci {

/// Kinds of finding as rules: stable names, by which a team filters.
struct ReportRule {
  std::string_view id;
  std::string_view text;
};
inline constexpr std::array<ReportRule, 10> kReportRules = {
    {{"device-budget", "A rank holds no more device memory than its budget"},
     {"host-budget", "A rank holds no more host memory than its budget"},
     {"limit", "A phase or a category holds no more than its limit"},
     {"growth", "A rank holds no more than the baseline and the growth that is allowed"},
     {"missing-rank", "Every rank of a job is measured, or in its plan"},
     {"expired-waiver", "What exceeds a limit has a waiver that has not expired"},
     {"unsound-plan", "The program of a plan file keeps every rule of the checker"},
     {"no-limit", "A job has something to be held against"},
     {"unreadable-job", "A job can be read and planned or estimated"},
     {"notice", "A budget or a waiver that can be lowered or removed"}}};

/// One thing that was checked.
struct ReportCase {
  std::string_view rule;  ///< id of kReportRules
  std::string name;       ///< for JUnit: `peak`, `limit 2: peak of backward`
  GateVerdict verdict = GateVerdict::pass;
  bool is_waived = false;
  bool is_of_limit = false;  ///< and so what a remedy mends: growth is mended by what made it grow
  std::string line;
  budget::Control where;  ///< file empty: nowhere
};

struct ReportTable {
  std::string title;
  std::vector<std::string> head;
  std::vector<std::size_t> left;  ///< columns that are aligned to the left
  std::vector<std::vector<std::string>> rows;
};

/// What to change at a line.
struct ReportEdit {
  std::string text;
  budget::Control where;  ///< with a file
};

/// A job, or the whole of a comparison.
struct ReportSection {
  std::string name;
  GateVerdict verdict = GateVerdict::pass;
  std::string about;  ///< `planned: models/x.yaml, policy optimal`
  std::vector<ReportCase> cases;
  std::vector<std::string> notices;
  std::vector<std::string> notes;  ///< of how the figures were made
  std::vector<ReportTable> tables;
  std::vector<std::string> remedy;  ///< what to do, a line each
  std::vector<ReportEdit> edits;    ///< of it what has a place
};

struct Report {
  std::string tool_version;
  std::string title;    ///< `Memory budget`
  std::string summary;  ///< `3 jobs: 1 FAIL, 1 NEAR, 1 PASS`
  GateVerdict verdict = GateVerdict::pass;
  bool is_strict = false;  ///< NEAR counts as FAIL
  std::vector<ReportSection> sections;
};

[[nodiscard]] Report report_of(const GateResult& result, const ReportOptions& options);
[[nodiscard]] Report report_of(const DiffResult& result, const ReportOptions& options);

/// A limit is exceeded: what a remedy is for.
[[nodiscard]] bool is_mended(const ReportCase& found);

/// Whether a verdict makes the status that of a failure.
[[nodiscard]] bool is_failure(const Report& report, GateVerdict verdict);

}  // namespace tidemark::ci
