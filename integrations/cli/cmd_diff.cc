#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "integrations/ci/diff_result.h"
#include "integrations/ci/report_format.h"
#include "integrations/cli/budget_location.h"
#include "integrations/cli/console.h"
#include "integrations/cli/diff_side.h"
#include "integrations/cli/gate_options.h"
#include "integrations/cli/input_files.h"
#include "integrations/cli/job_kind.h"
#include "integrations/cli/job_request.h"
#include "integrations/cli/options.h"
#include "integrations/cli/report_outputs.h"
#include "integrations/cli/verb.h"
#include "integrations/cli/version.h"

namespace tidemark::cli {
namespace {

constexpr int kMostTop = 1'000'000;

class DiffCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    job_.policy = "keep-all";
    app.add_option("BEFORE", before_, "a plan.json, any other job (as of check), or a baseline")
        ->required()
        ->type_name("FILE");
    app.add_option("AFTER", after_, "the same, of what it became")->required()->type_name("FILE");
    add_job_name(app, only_, "of a baseline: this job");
    add_fail_on(app, fail_on_, "exit 1 where the peak of a rank grew by more");
    app.add_flag("--exit-zero", exit_zero_, "exit 0 where the answer is FAIL; bad input is still 2");
    add_report_outputs(app, reports_);
    add_count(app, "--top", top_, 0, kMostTop, "storages and decisions listed (default 30; JSON lists all)");
    add_script_options(app, job_);
    add_what_if_options(app, job_);
  }

  Result<ExitStatus> run(Console& console) override {
    OutputSet outputs(job_.format);
    ci::DiffResult result;
    const ci::ReportOptions shown{
        .is_explained = true, .most_contributors = static_cast<std::size_t>(top_), .paths = report_paths()};
    if (Status status = add_reports(reports_, result, shown, files_read(), outputs); !status) return status.error();
    const Result<ComparedSide> before = read_side(before_, only_, job_, console);
    if (!before) return before.error();
    const Result<ComparedSide> after = read_side(after_, only_, job_, console);
    if (!after) return after.error();
    if (Status status = refuse_other_basis(before.value(), after.value()); !status) return status.error();
    result = compare(before.value(), after.value());
    const ci::ReportFormat format = job_.format == Format::json ? ci::ReportFormat::json : ci::ReportFormat::text;
    if (Status status = outputs.write(console, ci::write_report(format, result, shown)); !status) return status.error();
    return static_cast<ExitStatus>(ci::exit_status(result, exit_zero_));
  }

 private:
  [[nodiscard]] ci::DiffResult compare(const ComparedSide& before, const ComparedSide& after) const {
    ci::DiffResult result =
        ci::diff_of({.label = before.label, .file = before_.string(), .basis = before.holdings.basis}, before.holdings,
                    {.label = after.label, .file = after_.string(), .basis = after.holdings.basis}, after.holdings,
                    fail_on_, version_number(), before.baseline ? &*before.baseline : nullptr);
    if (before.plan && after.plan) result.plans = formats::diff_plans(*before.plan, *after.plan);
    return result;
  }

  [[nodiscard]] std::vector<std::filesystem::path> files_read() const {
    std::vector<std::filesystem::path> files;
    for (const std::filesystem::path& side : {before_, after_}) add_input(side, job_, files);
    return files;
  }

  /// A peak that was planned and one that was estimated or measured differ by more than what changed.
  static Status refuse_other_basis(const ComparedSide& before, const ComparedSide& after) {
    if (before.holdings.basis == after.holdings.basis) return {};
    return bad_input(fmt::format("{} is {}, {} is {}: they are not compared; `check` shows predicted beside measured",
                                 before.label, budget::word_of(before.holdings.basis), after.label,
                                 budget::word_of(after.holdings.basis)));
  }

  JobOptions job_;
  std::filesystem::path before_, after_;
  std::string only_;
  std::vector<ReportOutput> reports_;
  std::optional<budget::Tolerance> fail_on_;
  int top_ = 30;
  bool exit_zero_ = false;
};

}  // namespace

extern const Verb kCmdDiff;
const Verb kCmdDiff = {
    .name = "diff",
    .summary = "Say what grew between two plans, jobs or baselines: by storage and rank, with totals",
    .examples =
        "  tidemark diff before.json after.json\n"
        "  tidemark diff base/pretrain.sh pretrain.sh --fail-on growth=2% --output markdown=diff.md\n"
        "  tidemark diff tidemark-baseline.json models/x.yaml --job pangu --format json\n",
    .statuses =
        "  0  compared, whether or not they differ\n"
        "  1  with --fail-on: a rank grew by more\n"
        "  2  bad usage or input; one line on stderr\n"
        "  3  a fault in Tidemark\n",
    .make = make_command<DiffCommand>};

}  // namespace tidemark::cli
