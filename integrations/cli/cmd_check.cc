#include <fmt/format.h>

#include <chrono>
#include <utility>
#include <vector>

#include "integrations/ci/report_format.h"
#include "integrations/cli/budget_location.h"
#include "integrations/cli/console.h"
#include "integrations/cli/gate_options.h"
#include "integrations/cli/gate_request.h"
#include "integrations/cli/gate_run.h"
#include "integrations/cli/job_kind.h"
#include "integrations/cli/job_request.h"
#include "integrations/cli/report_outputs.h"
#include "integrations/cli/verb.h"
#include "integrations/cli/version.h"

namespace tidemark::cli {
namespace {

constexpr int kMostTop = 10'000;

class CheckCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    asked_.job.policy = "keep-all";
    app.add_option("FILE", asked_.file,
                   "a budget file, or one job: model, plan.json, launch script, configuration, snapshot, profiler file "
                   "or folder of ranks; default: tidemark-budget.yaml here or in a folder above")
        ->type_name("FILE");
    app.add_option("--megatron-args", asked_.job.megatron_args, "the same as FILE --kind script")->type_name("FILE");
    app.get_option("--megatron-args")->excludes(app.get_option("FILE"));
    add_word(app, "--kind", asked_.kind, "kind", job_kind_words(), "what FILE is, where its name and text do not tell");
    add_script_options(app, asked_.job);
    add_margin(app, "--margin", asked_.margin, "a peak this close below the budget is NEAR: 512MiB or 3% (default 3%)");
    declare_gate(app);
    add_what_if_options(app, asked_.job);
    app_ = &app;
  }

  Result<ExitStatus> run(Console& console) override {
    const auto begin = std::chrono::steady_clock::now();
    if (!asked_.job.megatron_args.empty()) {
      asked_.file = std::exchange(asked_.job.megatron_args, {});
      asked_.kind = "script";
    }
    const Result<GateRequest> request = read_gate_request(asked_, *app_);
    if (!request) return request.error();
    OutputSet outputs(asked_.job.format);
    ci::GateResult result;
    const ci::ReportOptions shown{
        .is_explained = explain_, .most_contributors = static_cast<std::size_t>(top_), .paths = report_paths()};
    if (Status status = add_reports(reports_, result, shown, inputs_of(request.value()), outputs); !status)
      return status.error();
    if (Status status = judge(request.value(), console, result); !status) return status.error();
    const ci::ReportFormat format = asked_.job.format == Format::json ? ci::ReportFormat::json : ci::ReportFormat::text;
    if (Status status = outputs.write(console, ci::write_report(format, result, shown)); !status) return status.error();
    if (time_) note_time(begin, console);
    return static_cast<ExitStatus>(ci::exit_status(result, exit_zero_));
  }

 private:
  void declare_gate(CLI::App& app) {
    add_job_name(app, asked_.only, "of a budget file: this job alone; of a baseline: the job to compare with");
    app.add_option("--baseline", asked_.baseline,
                   "what peaks are held against: a baseline, or a plan or any other job of the base branch (default: "
                   "the budget file's)")
        ->type_name("FILE");
    add_fail_on(app, asked_.fail_on, "growth above the baseline that is a FAIL (default: the budget file's, else 2%)");
    add_report_outputs(app, reports_);
    add_count(app, "--top", top_, 0, kMostTop, "contributors listed; a remedy is whole (default 8)");
    app.add_flag("--explain", explain_, "why and what to do for every job, not only for those that FAIL");
    app.add_flag("--strict", strict_, "NEAR counts as FAIL");
    app.add_flag("--exit-zero", exit_zero_, "exit 0 where the answer is FAIL; bad input is still 2");
    add_today(app, asked_.today);
    app.add_flag("--time", time_, "how long it took, on stderr");
  }

  /// One job of the command line has no report in which its error would stand beside others: it ends the command.
  Status judge(const GateRequest& request, const Console& console, ci::GateResult& result) const {
    const Result<std::vector<GateAnswer>> answers = answer_all(request, console);
    if (!answers) return answers.error();
    if (request.budget_file.empty() && !answers.value().front().answer) return answers.value().front().error;
    Result<std::vector<ci::JobResult>> judged = judge_all(request, answers.value());
    if (!judged) return judged.error();
    result.tool_version = version_number();
    result.budget_file = request.budget_file;
    result.is_strict = strict_;
    result.jobs = std::move(judged).value();
    return {};
  }

  static void note_time(std::chrono::steady_clock::time_point begin, const Console& console) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    console.note(fmt::format("checked in {:.2f} s", taken.count()));
  }

  CheckOptions asked_;
  std::vector<ReportOutput> reports_;
  int top_ = 8;
  bool explain_ = false, strict_ = false, exit_zero_ = false, time_ = false;
  const CLI::App* app_ = nullptr;
};

}  // namespace

extern const Verb kCmdCheck;
const Verb kCmdCheck = {
    .name = "check",
    .summary = "Check jobs against their budgets: PASS, NEAR or FAIL, why, and what would clear it",
    .examples =
        "  tidemark check                                    # every job of tidemark-budget.yaml\n"
        "  tidemark check --output junit=report.xml --output markdown=summary.md\n"
        "  tidemark check models/pangu-ultra-moe-718b.yaml --budget 60.97GiB --policy full-recompute\n"
        "  tidemark check pretrain.sh --budget 76GiB --fail-on growth=2% --baseline base/pretrain.sh\n"
        "  tidemark check snapshots/ --budget 76GiB          # a folder of ranks that were measured\n",
    .statuses =
        "  0  PASS, or NEAR: within the margin, or the error band, below the budget\n"
        "  1  FAIL: a limit is exceeded; with --strict NEAR as well. 0 with --exit-zero\n"
        "  2  bad usage or input, of any job: one line each\n"
        "  3  a fault in Tidemark\n",
    .make = make_command<CheckCommand>};

}  // namespace tidemark::cli
