#include "integrations/cli/gate_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "integrations/cli/budget_job_file.h"
#include "integrations/cli/budget_location.h"
#include "integrations/cli/console.h"
#include "integrations/cli/gate_options.h"
#include "integrations/cli/input_files.h"
#include "integrations/cli/job_kind.h"

namespace tidemark::cli {
namespace {

namespace fs = std::filesystem;
using ci::JobKind;

const std::vector<std::string>& options_of_plans() {
  static const std::vector<std::string> options = {"--policy", "--imbalance", "--imbalance-from", "--op-time-scale",
                                                   "--layer-ms"};
  return options;
}

/// What an estimate or a measured run is held against has to be said: nothing that is read tells.
Status refuse_without_budget(const CheckOptions& options, std::string_view what) {
  if (options.job.budget_bytes || !options.job.device.empty() || !options.baseline.empty()) return {};
  return bad_input(fmt::format("--budget: needed, {}; or name a --device", what));
}

Status refuse_of_estimates(const CheckOptions& options, const CLI::App& app) {
  std::vector<std::string> useless = options_of_plans();
  for (const char* option : {"--host-budget", "--ranks"}) useless.emplace_back(option);
  if (Status status = refuse_given(app, useless, "says nothing about a job that its framework decides"); !status)
    return status;
  return refuse_without_budget(options, "the memory the framework may fill");
}

Status refuse_of_measured(const CheckOptions& options, const CLI::App& app) {
  std::vector<std::string> useless = options_of_plans();
  for (const char* option : {"--world-size", "--accelerator", "--calibration", "--ranks"}) useless.emplace_back(option);
  if (Status status = refuse_given(app, useless, "says nothing about a run that was measured"); !status) return status;
  return refuse_without_budget(options, "what the run is held against");
}

Status refuse_of_plans(const CLI::App& app) {
  std::vector<std::string> useless = options_of_plans();
  for (const char* option : {"--device", "--calibration", "--world-size", "--accelerator"})
    useless.emplace_back(option);
  return refuse_given(app, useless, "a plan file is checked as it was planned; give a model file instead");
}

/// Options that a kind of job has no use for.
Status refuse_useless(JobKind kind, const CheckOptions& options, const CLI::App& app) {
  switch (kind) {
    case JobKind::model:
      return refuse_given(app, {"--world-size", "--accelerator"}, "says nothing about a model file");
    case JobKind::plan:
      return refuse_of_plans(app);
    case JobKind::script:
    case JobKind::bridge:
    case JobKind::torchtitan:
    case JobKind::mindformers:
      return refuse_of_estimates(options, app);
    case JobKind::measured:
      break;
  }
  return refuse_of_measured(options, app);
}

Result<GateRequest> single_request(const CheckOptions& options, const CLI::App& app) {
  if (!options.only.empty() && options.baseline.empty())
    return bad_input("--job: names a job of a budget file or a baseline; FILE is one job, drop it");
  const Result<JobKind> kind = options.kind.empty() ? job_kind_of(options.file) : job_kind_from(options.kind);
  if (!kind) return kind.error();
  if (Status status = refuse_useless(kind.value(), options, app); !status) return status.error();
  GateJob job{.job = {}, .file = job_file_of(kind.value(), options.file, options.job)};
  job.job = entry_of(job.file, options.margin);
  GateRequest request;
  request.jobs.push_back(std::move(job));
  return request;
}

Error unknown_job(const ci::BudgetFile& file, const std::string& name) {
  std::vector<std::string> names;
  for (const ci::BudgetJob& job : file.jobs) names.push_back(job.name);
  return bad_input(fmt::format("--job: {} has no job '{}'{}", file.name, name, hint_for(name, names)));
}

Status refuse_of_budget_files(const fs::path& path, const CLI::App& app) {
  std::vector<std::string> useless = options_of_plans();
  for (const char* option : {"--kind", "--world-size", "--accelerator", "--margin", "--device", "--budget",
                             "--host-budget", "--ranks", "--calibration"})
    useless.emplace_back(option);
  return refuse_given(app, useless, fmt::format("the jobs of {} say it", path.string()));
}

Result<GateRequest> budget_request(const fs::path& path, const CheckOptions& options) {
  const Result<ci::BudgetFile> file = read_budget(path);
  if (!file) return file.error();
  GateRequest request;
  request.budget_file = file.value().name;
  for (const ci::BudgetJob& job : file.value().jobs) request.names.push_back(job.name);
  for (const ci::BudgetJob& job : file.value().jobs) {
    JobFile of_job = job_file_of(job, path, options.job);
    if (options.only.empty() || options.only == job.name)
      request.jobs.push_back({.job = job, .file = std::move(of_job)});
    else
      request.not_asked.push_back(std::move(of_job));
  }
  if (request.jobs.empty()) return unknown_job(file.value(), options.only);
  request.baseline_file = beside(path, file.value().baseline);
  request.is_baseline_expected = file.value().is_baseline_named;
  return request;
}

/// One job of the base branch, answered now as the job itself will be.
Status add_base_job(const CheckOptions& options, GateRequest& request) {
  const Result<JobKind> kind = job_kind_of(request.baseline_file);
  if (!kind) return kind.error();
  Console silent;
  silent.set_quiet(true);
  Result<AnsweredJob> base = answer(job_file_of(kind.value(), request.baseline_file, options.job), silent);
  if (!base) return base.error();
  if (!base.value().broken_rule.empty())
    return bad_input(fmt::format("{}: {}", request.baseline_file.string(), base.value().broken_rule));
  request.baseline.emplace();
  ci::put_job(*request.baseline, ci::baseline_of("", base.value().inputs, base.value().holdings));
  return {};
}

/// Which job of a baseline a file on the command line is: the one of --job, or the only one.
Status name_single(const std::string& only, GateRequest& request) {
  std::vector<std::string> names;
  for (const ci::BaselineJob& job : request.baseline->jobs) names.push_back(job.name);
  std::string& name = request.jobs.front().job.name;
  name = only.empty() && names.size() == 1 ? names.front() : only;
  if (std::ranges::find(names, name) != names.end()) return {};
  return bad_input(
      fmt::format("--job: {} holds {}; say which one this is", request.baseline_file.string(), join_words(names)));
}

Status add_baseline(const CheckOptions& options, GateRequest& request) {
  if (!options.baseline.empty()) {
    request.baseline_file = options.baseline;
    request.is_baseline_expected = true;
  }
  if (request.baseline_file.empty()) return {};
  const bool is_single = request.budget_file.empty();
  if (is_single && !is_baseline_file(request.baseline_file)) return add_base_job(options, request);
  Result<std::optional<ci::Baseline>> baseline = read_baseline(request.baseline_file);
  if (!baseline) return baseline.error();
  if (!baseline.value() && request.is_baseline_expected)
    return bad_input(
        fmt::format("{}: no such baseline; `tidemark baseline update` makes it", request.baseline_file.string()));
  request.baseline = std::move(baseline).value();
  request.is_baseline_expected = request.baseline.has_value();
  return request.baseline && is_single ? name_single(options.only, request) : Status();
}

/// The budget file that is asked for; empty: FILE is one job.
Result<fs::path> budget_file_of(const CheckOptions& options) {
  if (!options.file.empty()) return options.kind.empty() && is_budget_file(options.file) ? options.file : fs::path();
  const std::optional<fs::path> found = find_budget_file(".");
  if (found) return *found;
  return bad_input(
      fmt::format("{}: not found here or in a folder above; write one (docs/ci.md), or name a job: "
                  "tidemark check FILE",
                  ci::kBudgetFileName));
}

}  // namespace

Result<GateRequest> read_gate_request(const CheckOptions& options, const CLI::App& app) {
  const Result<ci::Date> today = today_of(options.today);
  if (!today) return today.error();
  const Result<fs::path> budget_file = budget_file_of(options);
  if (!budget_file) return budget_file.error();
  const bool is_single = budget_file.value().empty();
  if (!is_single)
    if (Status status = refuse_of_budget_files(budget_file.value(), app); !status) return status.error();
  Result<GateRequest> request = is_single ? single_request(options, app) : budget_request(budget_file.value(), options);
  if (!request) return request.error();
  request.value().today = today.value();
  request.value().is_growth_asked = options.fail_on.has_value();
  if (options.fail_on)
    for (GateJob& job : request.value().jobs) job.job.growth = *options.fail_on;
  if (Status status = add_baseline(options, request.value()); !status) return status.error();
  if (options.fail_on && !request.value().baseline)
    return bad_input(
        "--fail-on: there is no baseline to grow from; name one with --baseline, or write the budget "
        "file's with `tidemark baseline update`");
  return request;
}

Result<GateRequest> read_baseline_request(const CheckOptions& options, const fs::path& baseline) {
  const Result<fs::path> budget_file = budget_file_of(options);
  if (!budget_file) return budget_file.error();
  if (budget_file.value().empty())
    return bad_input(
        fmt::format("{}: is no budget file; `schema: {}` begins one", options.file.string(), ci::kBudgetSchema));
  Result<GateRequest> request = budget_request(budget_file.value(), options);
  if (!request) return request.error();
  if (!baseline.empty()) request.value().baseline_file = baseline;
  Result<std::optional<ci::Baseline>> written = read_baseline(request.value().baseline_file);
  if (!written) return written.error();
  request.value().baseline = std::move(written).value();
  return request;
}

std::vector<fs::path> inputs_of(const GateRequest& request) {
  std::vector<fs::path> inputs;
  if (!request.budget_file.empty()) inputs.emplace_back(request.budget_file);
  if (!request.baseline_file.empty()) add_input(request.baseline_file, {}, inputs);
  for (const GateJob& job : request.jobs) add_inputs(job.file, inputs);
  for (const JobFile& file : request.not_asked) add_inputs(file, inputs);
  return inputs;
}

}  // namespace tidemark::cli
