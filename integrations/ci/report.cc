#include "integrations/ci/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "integrations/ci/changed_control.h"
#include "integrations/ci/control_texts.h"
#include "integrations/ci/remedy_text.h"
#include "integrations/ci/report_tables.h"
#include "integrations/formats/rank_words.h"
#include "planner/budget/comparison.h"

namespace tidemark::ci {
namespace {

std::string_view rule_of(const JobFinding& finding) {
  if (finding.effect == WaiverEffect::expired) return "expired-waiver";
  switch (finding.kind) {
    case FindingKind::device:
      return "device-budget";
    case FindingKind::host:
      return "host-budget";
    case FindingKind::limit:
      return "limit";
    case FindingKind::growth:
      return "growth";
    case FindingKind::rank:
      return "missing-rank";
    case FindingKind::program:
      return "unsound-plan";
    case FindingKind::nothing:
      break;
  }
  return "no-limit";
}

bool is_of_limit(FindingKind kind) {
  return kind == FindingKind::device || kind == FindingKind::host || kind == FindingKind::limit;
}

/// `device: peak`, `limit 2: category activations`: each once in a job.
std::string case_name(const JobResult& job, std::size_t row) {
  const JobFinding& finding = job.findings[row];
  const auto is_limit = [](const JobFinding& other) { return other.kind == FindingKind::limit; };
  if (!is_limit(finding)) return fmt::format("{}: {}", word_of(finding.kind), finding.subject);
  const auto end = job.findings.begin() + static_cast<std::ptrdiff_t>(row);
  return fmt::format("limit {}: {}", std::count_if(job.findings.begin(), end, is_limit) + 1, finding.subject);
}

std::vector<ReportCase> cases_of(const JobResult& job) {
  if (!job.error.empty())
    return {{.rule = "unreadable-job",
             .name = "read",
             .verdict = GateVerdict::error,
             .line = fmt::format("ERROR {}{}{}", job.job.name, job.job.name.empty() ? "" : ": ", job.error),
             .where = {.file = job.where.file, .line = job.where.line}}};
  std::vector<ReportCase> cases;
  for (std::size_t i = 0; i < job.findings.size(); ++i) {
    const JobFinding& finding = job.findings[i];
    cases.push_back({.rule = rule_of(finding),
                     .name = case_name(job, i),
                     .verdict = gate_verdict_of(finding.verdict),
                     .is_waived = finding.effect == WaiverEffect::waived,
                     .is_of_limit = is_of_limit(finding.kind),
                     .line = finding.line + changed_text(finding.changed),
                     .where = finding.where});
  }
  return cases;
}

std::string about(const budget::Holdings& holdings) {
  std::string text = fmt::format("{}: {}", budget::word_of(holdings.basis), holdings.source);
  if (holdings.band_percent > 0) text += fmt::format(", expected within {:.1f} % of a run", holdings.band_percent);
  return text;
}

void explain(const JobResult& job, std::size_t most, ReportSection& section) {
  const budget::RankHoldings& rank = explained_rank(job);
  section.tables.push_back(contributor_table(rank, most));
  section.tables.push_back(category_table(rank));
  if (job.growth) section.tables.push_back(rank_growth_table(*job.growth, most));
  if (job.growth) section.tables.push_back(storage_growth_table(*job.growth, most));
  if (job.remedy) {
    section.remedy = remedy_lines(*job.remedy);
    section.edits = placed_edits(*job.remedy);
  }
}

/// What predicts a measured job, beside it: ranks by their numbers.
void add_prediction(const JobResult& job, std::size_t most, ReportSection& section) {
  const budget::Basis basis = job.predicted->basis;
  const budget::Comparison& comparison = *job.comparison;
  if (!comparison.only_predicted.empty())
    section.notes.push_back(fmt::format("{} {}, not measured", formats::listed_ranks_text(comparison.only_predicted),
                                        budget::word_of(basis)));
  if (!comparison.only_measured.empty())
    section.notes.push_back(fmt::format("{} measured, not {}", formats::listed_ranks_text(comparison.only_measured),
                                        budget::word_of(basis)));
  if (comparison.ranks.empty()) return;
  section.tables.push_back(rank_prediction_table(comparison, basis, most));
  section.tables.push_back(prediction_table(comparison, basis));
}

ReportSection section_of(const JobResult& job, const ReportOptions& options) {
  ReportSection section{.name = job.job.name.empty() ? job.job.file : job.job.name,
                        .verdict = verdict_of(job),
                        .cases = cases_of(job),
                        .notices = job.notices};
  if (job.holdings.ranks.empty()) return section;
  section.about = about(job.holdings);
  section.notes = job.holdings.notes;
  if (section.verdict == GateVerdict::fail || options.is_explained) explain(job, options.most_contributors, section);
  if (job.predicted && job.comparison) add_prediction(job, options.most_contributors, section);
  return section;
}

/// The first line of a file that controls what grew most.
std::optional<budget::Control> grown_control(const budget::Growth& growth) {
  for (const budget::StorageGrowth& storage : growth.storages) {
    if (storage.delta_bytes() <= 0) continue;
    for (const budget::Control& control : storage.controls)
      if (is_placed(control)) return control;
  }
  return std::nullopt;
}

std::string summary_of(const GateResult& result) {
  const GateCounts counts = counts_of(result);
  std::string text = fmt::format("{} {}: ", result.jobs.size(), result.jobs.size() == 1 ? "job" : "jobs");
  const std::array<std::pair<std::size_t, GateVerdict>, 4> parts = {{{counts.error, GateVerdict::error},
                                                                     {counts.fail, GateVerdict::fail},
                                                                     {counts.near, GateVerdict::near},
                                                                     {counts.pass, GateVerdict::pass}}};
  std::string_view comma;
  for (const auto& [count, verdict] : parts) {
    if (count == 0) continue;
    text += fmt::format("{}{} {}", comma, count, word_of(verdict));
    comma = ", ";
  }
  if (result.jobs.empty()) text += "none";
  if (counts.waived > 0) text += fmt::format(" ({} waived)", counts.waived);
  return text + (result.is_strict && counts.near > 0 ? "; NEAR counts as FAIL" : "");
}

}  // namespace

Report report_of(const GateResult& result, const ReportOptions& options) {
  Report report{.tool_version = result.tool_version,
                .title = "Memory budget",
                .summary = summary_of(result),
                .verdict = verdict_of(result),
                .is_strict = result.is_strict};
  for (const JobResult& job : result.jobs) report.sections.push_back(section_of(job, options));
  return report;
}

Report report_of(const DiffResult& result, const ReportOptions& options) {
  const GateVerdict verdict = gate_verdict_of(result.verdict);
  ReportSection section{
      .name = fmt::format("{} -> {}", result.before.label, result.after.label),
      .verdict = verdict,
      .about = fmt::format("{} ({}) -> {} ({})", result.before.label, budget::word_of(result.before.basis),
                           result.after.label, budget::word_of(result.after.basis)),
      .cases = {{.rule = "growth",
                 .name = "growth: peak",
                 .verdict = verdict,
                 .line = result.line + changed_text(result.changed),
                 .where = {.file = result.after.file}}},
      .notes = result.notes};
  if (const std::optional<budget::Control> grown = grown_control(result.growth)) section.cases.front().where = *grown;
  if (result.changed && is_placed(result.changed->line.now)) section.cases.front().where = result.changed->line.now;
  section.tables.push_back(rank_growth_table(result.growth, options.most_contributors));
  section.tables.push_back(storage_growth_table(result.growth, options.most_contributors));
  return {.tool_version = result.tool_version,
          .title = "Memory difference",
          .summary = result.line,
          .verdict = verdict,
          .sections = {std::move(section)}};
}

bool is_mended(const ReportCase& found) {
  return found.verdict == GateVerdict::fail && found.is_of_limit;
}

bool is_failure(const Report& report, GateVerdict verdict) {
  return verdict >= GateVerdict::fail || (report.is_strict && verdict == GateVerdict::near);
}

}  // namespace tidemark::ci
