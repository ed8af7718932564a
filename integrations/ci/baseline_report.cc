#include "integrations/ci/baseline_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "integrations/ci/judgement.h"
#include "integrations/ci/plain_words.h"
#include "integrations/ci/safe_text.h"
#include "integrations/ci/verdict_line.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::ci {
namespace {

const BaselineRank& highest_of(const BaselineJob& job) {
  return *std::ranges::max_element(job.ranks, {}, &BaselineRank::peak_bytes);
}

std::string runs_text(const BaselineJob& job, std::int64_t rank) {
  const std::optional<Spread> spread = spread_of(job, rank);
  if (!spread) return "";
  return fmt::format("; {}, spread {}", formats::counted_text(std::ssize(job.runs), "run"),
                     format_bytes(spread->width_bytes()));
}

std::string peak_text(const BaselineJob& job) {
  const BaselineRank& highest = highest_of(job);
  return fmt::format("{}, {}, highest {} on rank {}{}", formats::counted_text(std::ssize(job.ranks), "rank"),
                     budget::word_of(job.basis), format_bytes(highest.peak_bytes), highest.rank,
                     runs_text(job, highest.rank));
}

BaselineJob judged(const BaselineJob& written, const std::vector<BudgetJob>& jobs) {
  const auto job =
      std::ranges::find(jobs, written.name, [](const BudgetJob& one) { return with_replacements(one.name); });
  return job == jobs.end() ? written : judged_baseline(*job, written);
}

std::string change_of(const BaselineJob* before, const BaselineJob& after, const std::vector<BudgetJob>& jobs) {
  const std::string name = formats::printable(after.name);
  const BaselineJob now = judged(after, jobs);
  if (before == nullptr) return fmt::format("added {}: {}\n", name, peak_text(now));
  if (*before == after) return fmt::format("unchanged {}: {}\n", name, peak_text(now));
  const Bytes was = highest_of(judged(*before, jobs)).peak_bytes, is = highest_of(now).peak_bytes;
  return fmt::format("updated {}: {} ({}, from {})\n", name, peak_text(now), change_text(was, is), format_bytes(was));
}

}  // namespace

std::string baseline_summary(const Baseline& baseline, const std::vector<BudgetJob>& jobs) {
  std::string text = fmt::format("written by tidemark {}\n", baseline.tool_version);
  for (const BaselineJob& job : baseline.jobs)
    text += fmt::format("{}: {}\n", formats::printable(job.name), peak_text(judged(job, jobs)));
  return without_commands(text);
}

std::string baseline_changes(const std::optional<Baseline>& before, const Baseline& after,
                             const std::vector<BudgetJob>& jobs) {
  std::string text;
  for (const BaselineJob& job : after.jobs)
    text += change_of(before ? find_job(*before, job.name) : nullptr, job, jobs);
  if (before)
    for (const BaselineJob& job : before->jobs)
      if (find_job(after, job.name) == nullptr) text += fmt::format("removed {}\n", formats::printable(job.name));
  return text;
}

}  // namespace tidemark::ci
