#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "integrations/ci/baseline_report.h"
#include "integrations/ci/baseline_text.h"
#include "integrations/cli/budget_location.h"
#include "integrations/cli/console.h"
#include "integrations/cli/folder_lock.h"
#include "integrations/cli/gate_options.h"
#include "integrations/cli/gate_request.h"
#include "integrations/cli/gate_run.h"
#include "integrations/cli/verb.h"
#include "integrations/cli/version.h"

namespace tidemark::cli {
namespace {

class BaselineCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    asked_.job.policy = "keep-all";
    add_word(app, "ACTION", action_, "action", {"update", "show"},
             "update: write what the jobs of the budget file hold now; show: print what is written");
    app.get_option("ACTION")->required();
    app.add_option("FILE", asked_.file, "the budget file; default: tidemark-budget.yaml here or in a folder above")
        ->type_name("FILE");
    add_job_name(app, asked_.only, "this job alone; the others keep what is written");
    app.add_option("--baseline", baseline_, "the baseline (default: the budget file's)")->type_name("FILE");
    app.add_flag("--add-run", add_run_,
                 "update: a measured run beside those written, so that the baseline has their spread");
    app.add_flag("--anew", anew_, "update, with --job: a measured run in place of all those written");
    app.get_option("--anew")->excludes(app.get_option("--add-run"));
    add_threads(app, asked_.job.threads);
    add_format(app, asked_.job.format);
  }

  Result<ExitStatus> run(Console& console) override {
    Result<GateRequest> request = read_baseline_request(asked_, baseline_);
    if (!request) return request.error();
    if (action_ == "show") return show(request.value(), console);
    return update(request.value(), console);
  }

 private:
  [[nodiscard]] Result<ExitStatus> show(const GateRequest& request, const Console& console) const {
    for (const auto& [name, is_given] : {std::pair("--add-run", add_run_), std::pair("--anew", anew_)})
      if (is_given) return bad_input(fmt::format("{}: belongs to update; drop it", name));
    if (!request.baseline)
      return bad_input(
          fmt::format("{}: no such baseline; `tidemark baseline update` makes it", request.baseline_file.string()));
    const Status status = console.print(asked_.job.format == Format::json
                                            ? ci::write_baseline(*request.baseline)
                                            : ci::baseline_summary(*request.baseline, budget_jobs_of(request)));
    if (!status) return status.error();
    return ExitStatus::done;
  }

  [[nodiscard]] Result<ExitStatus> update(const GateRequest& request, const Console& console) const {
    if (anew_ && asked_.only.empty()) return bad_input("--anew: drops the runs of a job; --job says of which");
    const Result<std::vector<GateAnswer>> answers = answer_all(request, console);
    if (!answers) return answers.error();
    // Others may have written while the jobs were looked at, and would write between reading and replacing.
    const Result<FolderLock> lock =
        FolderLock::take(request.baseline_file, [&console](const std::string& line) { console.note(line); });
    if (!lock) return lock.error();
    const Result<std::optional<ci::Baseline>> before = read_baseline(request.baseline_file);
    if (!before) return before.error();
    ci::Baseline baseline = before.value().value_or(ci::Baseline());
    baseline.tool_version = version_number();
    if (asked_.only.empty()) ci::keep_jobs(baseline, names_of(request));
    for (std::size_t i = 0; i < request.jobs.size(); ++i) {
      if (!answers.value()[i].answer) return answers.value()[i].error;
      if (Status status = put(request.jobs[i].job.name, *answers.value()[i].answer, baseline); !status)
        return status.error();
    }
    const std::string text = ci::write_baseline(baseline);
    if (Status status = refuse_unreadable(text, request.baseline_file.string()); !status) return status.error();
    OutputSet outputs(asked_.job.format);
    Status status = outputs.add(request.baseline_file, inputs_without_baseline(request), [&](std::ostream& stream) {
      stream << text;
      return Status();
    });
    if (!status) return status.error();
    const bool is_json = asked_.job.format == Format::json;
    status = outputs.write(console,
                           is_json ? text : ci::baseline_changes(before.value(), baseline, budget_jobs_of(request)));
    if (!status) return status.error();
    return ExitStatus::done;
  }

  /// What later checks would refuse must not take the place of what they read.
  static Status refuse_unreadable(const std::string& text, const std::string& name) {
    const Result<ci::Baseline> again = ci::read_baseline(text, name);
    if (again) return {};
    return bad_input(fmt::format("{}; nothing was written", again.error().message));
  }

  [[nodiscard]] Status put(const std::string& name, const AnsweredJob& answer, ci::Baseline& baseline) const {
    if (!answer.broken_rule.empty()) return bad_input(fmt::format("{}: {}", name, answer.broken_rule));
    const ci::BaselineJob* written = ci::find_job(baseline, name);
    if (add_run_ && written != nullptr) return add_run(*written, answer, baseline);
    if (!anew_ && written != nullptr && has_runs_to_lose(*written, answer)) {
      if (ci::has_run(*written, answer.inputs)) return {};  // as it was: one of the runs that are written
      return bad_input(
          fmt::format("{0}: its {1} runs are not replaced by this one: give --add-run, or --job {0} --anew", name,
                      written->runs.size()));
    }
    ci::put_job(baseline, ci::baseline_of(name, answer.inputs, answer.holdings));
    return {};
  }

  static Status add_run(ci::BaselineJob job, const AnsweredJob& answer, ci::Baseline& baseline) {
    if (Status status = ci::add_run(job, answer.inputs, answer.holdings); !status)
      return bad_input(fmt::format("--add-run: {}: {}", job.name, status.error().message));
    ci::put_job(baseline, std::move(job));
    return {};
  }

  static std::vector<ci::BudgetJob> budget_jobs_of(const GateRequest& request) {
    std::vector<ci::BudgetJob> jobs;
    for (const GateJob& job : request.jobs) jobs.push_back(job.job);
    return jobs;
  }

  /// Runs take time on a cluster, and are not in the files that a job names.
  static bool has_runs_to_lose(const ci::BaselineJob& written, const AnsweredJob& answer) {
    return written.runs.size() > 1 && answer.holdings.basis == budget::Basis::measured;
  }

  static std::vector<std::string> names_of(const GateRequest& request) {
    std::vector<std::string> names;
    for (const GateJob& job : request.jobs) names.push_back(job.job.name);
    return names;
  }

  static std::vector<std::filesystem::path> inputs_without_baseline(GateRequest request) {
    request.baseline_file.clear();
    return inputs_of(request);
  }

  CheckOptions asked_;
  std::filesystem::path baseline_;
  std::string action_;
  bool add_run_ = false, anew_ = false;
};

}  // namespace

extern const Verb kCmdBaseline;
const Verb kCmdBaseline = {
    .name = "baseline",
    .summary = "Write down what the jobs of a budget file hold, for later checks to compare with",
    .examples =
        "  tidemark baseline update\n"
        "  tidemark baseline update --job pangu\n"
        "  tidemark baseline update --job nightly --add-run   # one more measured run: their spread is no growth\n"
        "  tidemark baseline update --job nightly --anew      # this run alone\n"
        "  tidemark baseline show --format json\n",
    .statuses =
        "  0  written, or shown\n"
        "  2  bad usage or input, a job that cannot be read among them; one line on stderr, and no file is touched\n"
        "  3  a fault in Tidemark\n",
    .make = make_command<BaselineCommand>};

}  // namespace tidemark::cli
