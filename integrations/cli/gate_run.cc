#include "integrations/cli/gate_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/bytes.h"
#include "integrations/ci/judgement.h"
#include "integrations/ci/rank_presence.h"
#include "integrations/cli/console.h"

namespace tidemark::cli {
namespace {

/// Where the job names no host memory, a plan is held against what it was made for.
void take_host_of_plan(const AnsweredJob& answer, ci::BudgetJob& job) {
  if (!job.host_bytes) job.host_bytes = answer.host_capacity_bytes;
}

std::optional<budget::Holdings> predicted_for(const ci::BudgetJob& job, const GateRequest& request,
                                              const std::vector<GateAnswer>& answers) {
  if (job.predicted_by.empty()) return std::nullopt;
  for (std::size_t i = 0; i < request.jobs.size(); ++i)
    if (request.jobs[i].job.name == job.predicted_by && answers[i].answer) return answers[i].answer->holdings;
  return std::nullopt;
}

ci::JobInput input_of(const GateRequest& request, const GateJob& job, const AnsweredJob& answer) {
  ci::JobInput input;
  input.job = job.job;
  take_host_of_plan(answer, input.job);
  input.budget_file = request.budget_file;
  input.holdings = answer.holdings;
  input.device_capacity_bytes = answer.device_capacity_bytes;
  input.device_reserve_bytes = answer.device_reserve_bytes;
  input.inputs = answer.inputs;
  input.today = request.today;
  if (request.baseline)
    if (const ci::BaselineJob* baseline = ci::find_job(*request.baseline, job.job.name)) input.baseline = *baseline;
  input.is_baseline_expected = request.is_baseline_expected;
  input.is_growth_asked = request.is_growth_asked;
  return input;
}

/// A limit is exceeded: growth alone is mended by what made it grow.
bool needs_remedy(const ci::JobResult& result) {
  return std::ranges::any_of(result.findings, [](const ci::JobFinding& finding) {
    return finding.verdict == budget::Verdict::fail && finding.kind != ci::FindingKind::growth;
  });
}

/// What a program that is not sound would hold says nothing.
ci::JobResult broken(const GateJob& job, const AnsweredJob& answer) {
  ci::JobResult result;
  result.job = job.job;
  ci::JobFinding finding;
  finding.kind = ci::FindingKind::program;
  finding.verdict = budget::Verdict::fail;
  finding.subject = "program";
  finding.line = fmt::format("FAIL {}{}", job.job.name.empty() ? "" : job.job.name + " ", answer.broken_rule);
  finding.where.file = subject_of(job.file).string();
  result.findings.push_back(std::move(finding));
  return result;
}

budget::Remedy not_sought(std::string reason) {
  budget::Remedy remedy;
  remedy.is_sought = false;
  remedy.reason = std::move(reason);
  return remedy;
}

/// `ranks:` of a line of the budget file; nothing: the job has them.
std::optional<ci::JobResult> refuse_absent(const GateRequest& request, const ci::JobInput& input,
                                           const budget::RankChoice& ranks, int line) {
  const std::optional<std::string> why = ci::absent_ranks(input.holdings, ranks);
  if (!why) return std::nullopt;
  ci::JobResult result = ci::unreadable(input.job, fmt::format("{}:{}: ranks: {}", request.budget_file, line, *why));
  result.where = {.file = request.budget_file, .line = line, .text = {}};
  return result;
}

/// A limit on ranks that the job does not have would never be held, and a waiver for them never be used.
std::optional<ci::JobResult> refuse_absent_ranks(const GateRequest& request, const ci::JobInput& input) {
  for (const budget::Limit& limit : input.job.limits)
    if (auto refused = refuse_absent(request, input, limit.ranks, limit.line)) return refused;
  for (const ci::Waiver& waiver : input.job.waivers)
    if (auto refused = refuse_absent(request, input, waiver.ranks, waiver.line)) return refused;
  return std::nullopt;
}

/// What a device file keeps from a framework may be all of a small capacity: no budget is left to hold a job against.
std::optional<ci::JobResult> refuse_all_kept(const GateRequest& request, const ci::JobInput& input) {
  const Bytes kept = ci::kept_of_capacity(input);
  if (request.budget_file.empty() || !input.job.capacity_bytes || kept == 0 || *input.job.capacity_bytes > kept)
    return std::nullopt;
  const int line = input.job.line_of("capacity");
  ci::JobResult result = ci::unreadable(
      input.job, fmt::format("{}:{}: capacity {} leaves nothing beside the reserve of {}", request.budget_file, line,
                             format_bytes(*input.job.capacity_bytes), format_bytes(kept)));
  result.where = {.file = request.budget_file, .line = line, .text = {}};
  return result;
}

/// Growth that must be judged, and is of figures made in two ways.
std::optional<std::string> other_basis(const GateRequest& request, const ci::JobInput& input) {
  if (!request.is_growth_asked || !input.baseline || input.baseline->basis == input.holdings.basis) return std::nullopt;
  return fmt::format(
      "--fail-on: {} is {}, {} is {}: they are not compared; `tidemark baseline update` makes the baseline anew",
      request.baseline_file.string(), budget::word_of(input.baseline->basis), input.job.file,
      budget::word_of(input.holdings.basis));
}

/// An estimate counts what a framework allocates. Where neither a device nor the job says what else is held of the
/// capacity, all of it counts as the framework's.
std::optional<std::string> unkept_notice(const ci::JobInput& input) {
  const bool is_told = input.job.reserve_bytes || input.device_capacity_bytes;
  if (input.budget_file.empty() || input.holdings.basis != budget::Basis::estimated || is_told ||
      !input.job.capacity_bytes)
    return std::nullopt;
  return "nothing of the capacity is kept for driver, libraries and collectives, which the estimate is without: name "
         "the `device:`, or a `reserve:` (0B where the capacity is the framework's own)";
}

Result<ci::JobResult> judge_one(const GateRequest& request, const GateJob& job, const AnsweredJob& answer,
                                std::optional<budget::Holdings> predicted) {
  if (!answer.broken_rule.empty()) return broken(job, answer);
  ci::JobInput input = input_of(request, job, answer);
  input.predicted = std::move(predicted);
  if (std::optional<ci::JobResult> refused = refuse_absent_ranks(request, input)) return std::move(*refused);
  if (std::optional<ci::JobResult> refused = refuse_all_kept(request, input)) return std::move(*refused);
  if (const std::optional<std::string> why = other_basis(request, input)) {
    if (request.budget_file.empty()) return bad_input(*why);
    ci::JobResult refused = ci::unreadable(input.job, *why);
    refused.where = {.file = request.budget_file, .line = input.job.line, .text = {}};
    return refused;
  }
  ci::JobResult result = ci::judge(input);
  if (const std::optional<std::string> notice = unkept_notice(input)) result.notices.push_back(*notice);
  if (!needs_remedy(result) && ci::verdict_of(result) == ci::GateVerdict::fail)
    result.remedy = not_sought("growth above the baseline is mended by what made it grow, which is listed above");
  if (!needs_remedy(result)) return result;
  if (!answer.find_remedy) {
    result.remedy = not_sought(answer.why_no_remedy);
    return result;
  }
  Result<budget::Remedy> remedy = answer.find_remedy(ci::limits_of(input));
  if (!remedy) return remedy.error();
  result.remedy = std::move(remedy).value();
  return result;
}

/// What is wrong with the baseline as a whole, and would turn the growth gate off in silence.
std::vector<std::string> baseline_notices(const GateRequest& request) {
  std::vector<std::string> notices;
  if (request.budget_file.empty()) return notices;
  if (!request.baseline) {
    notices.push_back(
        fmt::format("there is no {} beside the budget file: no job is held against what it held before; "
                    "`tidemark baseline update` writes it",
                    request.baseline_file.filename().string()));
    return notices;
  }
  for (const std::string& name : ci::names_beyond(*request.baseline, request.names))
    notices.push_back(fmt::format(
        "the baseline has job {}, which the budget file does not; `tidemark baseline update` takes it out", name));
  return notices;
}

/// Notices of a gate stand with the first job that was judged: once, and not once a job.
void put_notices(std::vector<std::string> notices, std::vector<ci::JobResult>& results) {
  const auto judged = std::ranges::find_if(results, [](const ci::JobResult& job) { return job.error.empty(); });
  if (judged == results.end()) return;
  for (std::string& notice : notices) judged->notices.push_back(std::move(notice));
}

/// The key of a budget file for an option of the command line.
struct OptionKey {
  std::string_view option, key;
};
constexpr std::array<OptionKey, 6> kOptionKeys = {{{"--accelerator: ", "accelerator"},
                                                   {"--device: ", "device"},
                                                   {"--imbalance: ", "load"},
                                                   {"--imbalance-from: ", "load"},
                                                   {"--policy: ", "policy"},
                                                   {"--world-size: ", "world_size"}}};

/// An error about a job of a budget file that names no file begins with the job's place there, and with the key that
/// the file has for the option.
Error placed(const GateRequest& request, const GateJob& job, Error error) {
  if (request.budget_file.empty() || !error.message.starts_with("--")) return error;
  int line = job.job.line;
  const auto found = std::ranges::find_if(
      kOptionKeys, [&](const OptionKey& known) { return error.message.starts_with(known.option); });
  if (found != kOptionKeys.end()) {
    error.message = fmt::format("{}: {}", found->key, error.message.substr(found->option.size()));
    line = job.job.line_of(found->key);
  }
  error.message = fmt::format("{}:{}: {}", request.budget_file, line, error.message);
  return error;
}

}  // namespace

Result<std::vector<GateAnswer>> answer_all(const GateRequest& request, const Console& console) {
  std::vector<GateAnswer> answers;
  for (const GateJob& job : request.jobs) {
    Result<AnsweredJob> answered = answer(job.file, console);
    if (answered) {
      answers.push_back({.answer = std::move(answered).value(), .error = {}});
      continue;
    }
    if (answered.error().code == Error::Code::internal) return answered.error();
    answers.push_back({.answer = {}, .error = placed(request, job, answered.error())});
  }
  return answers;
}

Result<std::vector<ci::JobResult>> judge_all(const GateRequest& request, const std::vector<GateAnswer>& answers) {
  std::vector<ci::JobResult> results;
  for (std::size_t i = 0; i < request.jobs.size(); ++i) {
    const GateJob& job = request.jobs[i];
    if (!answers[i].answer) {
      results.push_back(ci::unreadable(job.job, answers[i].error.message));
      if (!request.budget_file.empty())
        results.back().where = {.file = request.budget_file, .line = job.job.line, .text = {}};
      continue;
    }
    Result<ci::JobResult> result =
        judge_one(request, job, *answers[i].answer, predicted_for(job.job, request, answers));
    if (!result) return result.error();
    results.push_back(std::move(result).value());
  }
  put_notices(baseline_notices(request), results);
  return results;
}

}  // namespace tidemark::cli
