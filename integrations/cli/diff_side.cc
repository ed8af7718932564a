#include "integrations/cli/diff_side.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "integrations/ci/baseline.h"
#include "integrations/cli/answered_job.h"
#include "integrations/cli/budget_job_file.h"
#include "integrations/cli/budget_location.h"
#include "integrations/cli/job_kind.h"
#include "integrations/cli/plan_input.h"

namespace tidemark::cli {
namespace {

Result<ComparedSide> side_of_baseline(const std::filesystem::path& path, const std::string& only) {
  const Result<std::optional<ci::Baseline>> baseline = read_baseline(path);
  if (!baseline) return baseline.error();
  if (!baseline.value()) return bad_input(fmt::format("{}: no such file", path.string()));
  const std::vector<ci::BaselineJob>& jobs = baseline.value()->jobs;
  std::vector<std::string> names;
  for (const ci::BaselineJob& job : jobs) names.push_back(job.name);
  const std::string name = only.empty() && names.size() == 1 ? names.front() : only;
  if (const ci::BaselineJob* job = ci::find_job(*baseline.value(), name))
    return ComparedSide{.label = fmt::format("{}, {}", path.string(), name),
                        .holdings = ci::holdings_of(*job),
                        .plan = {},
                        .baseline = *job};
  return bad_input(fmt::format("--job: {} holds {}; say which one", path.string(), join_words(names)));
}

}  // namespace

Result<ComparedSide> read_side(const std::filesystem::path& path, const std::string& only, const JobOptions& options,
                               const Console& console) {
  if (is_baseline_file(path)) return side_of_baseline(path, only);
  const Result<ci::JobKind> kind = job_kind_of(path);
  if (!kind) return kind.error();
  Result<AnsweredJob> answered = answer(job_file_of(kind.value(), path, options), console);
  if (!answered) return answered.error();
  if (!answered.value().broken_rule.empty())
    return bad_input(fmt::format("{}: {}", path.string(), answered.value().broken_rule));
  ComparedSide side{
      .label = path.string(), .holdings = std::move(answered.value().holdings), .plan = {}, .baseline = {}};
  if (kind.value() != ci::JobKind::plan) return side;
  Result<formats::PlanFile> plan = read_plan(path);
  if (!plan) return plan.error();
  side.plan = std::move(plan).value();
  return side;
}

}  // namespace tidemark::cli
