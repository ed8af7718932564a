#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "integrations/cli/argument_job.h"
#include "integrations/cli/console.h"
#include "integrations/cli/job_request.h"
#include "integrations/cli/plan_input.h"
#include "integrations/cli/verb.h"
#include "integrations/formats/check_report.h"
#include "integrations/formats/file.h"
#include "integrations/formats/job_text.h"
#include "integrations/formats/plan_restore.h"
#include "integrations/formats/rank_memory_report.h"
#include "planner/schedule/peak.h"
#include "policies/policies.h"

namespace tidemark::cli {
namespace {

constexpr int kMostTop = 10'000;

bool is_understood(const estimate::ImportedRun& imported) {
  return std::ranges::none_of(imported.judged, [](const estimate::JudgedArgument& argument) {
    return argument.standing == estimate::Standing::not_understood;
  });
}

class CheckCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    job_.policy = "keep-all";
    app.add_option("PLAN_OR_CONFIG", job_.model, "a plan.json, or a model file that is planned with --policy first")
        ->type_name("FILE");
    add_argument_options(app, job_);
    app.get_option("--megatron-args")->excludes(app.get_option("PLAN_OR_CONFIG"));
    add_margin(app, "--margin", margin_, "a peak this close below the budget is NEAR: 512MiB or 3% (default 3%)");
    add_count(app, "--top", top_, 0, kMostTop, "contributors listed (default 8)");
    add_what_if_options(app, job_);
    app_ = &app;
  }

  Result<ExitStatus> run(Console& console) override {
    if (!job_.megatron_args.empty()) return check_arguments(console);
    if (job_.model.empty()) return bad_input("PLAN_OR_CONFIG is required, a FILE; or give --megatron-args FILE");
    Result<Checked> checked = is_plan_file() ? from_plan(console) : from_config(console);
    if (!checked) return checked.error();
    const auto& [request, outcome, what] = checked.value();
    if (const std::optional<BrokenRule> broken = broken_rule(request, outcome)) {
      const Status status = console.print(job_.format == Format::json ? broken_json(*broken) : broken->line + "\n");
      if (!status) return status.error();
      return ExitStatus::answer_is_no;
    }
    formats::CheckReport report{.what = what, .margin = margin_.text, .step = outcome.step};
    for (const plan::RankPlan& rank : outcome.ranks) report.ranks.push_back(rank.figures);
    const Bytes budget = job_.budget_bytes.value_or(formats::device_budget_of(request));
    const Bytes host = job_.host_budget_bytes.value_or(formats::host_budget_of(request));
    report.check = plan::check_budget(report.ranks, {.budget_bytes = budget, .margin_bytes = margin_.of(budget)},
                                      plan::BudgetLimit{.budget_bytes = host, .margin_bytes = margin_.of(host)});
    const plan::RankPlan& worst = outcome.ranks[report.check.worst];
    report.contributors =
        plan::contributors_at(worst.graph, worst.program.schedule, schedule::peak_clock(worst.program.schedule));
    const bool failed = report.check.verdict == plan::BudgetVerdict::fail;
    if (failed) {
      Result<formats::Remedy> remedy = find_remedy(request, budget, console);
      if (!remedy) return remedy.error();
      report.remedy = std::move(remedy).value();
    }
    const auto most = static_cast<std::size_t>(top_);
    const Status status = console.print(job_.format == Format::json ? formats::check_json(report, most)
                                                                    : formats::check_text(report, most));
    if (!status) return status.error();
    return failed ? ExitStatus::answer_is_no : ExitStatus::done;
  }

 private:
  /// A run of a framework: its own figures, with the error band that measurements give them.
  Result<ExitStatus> check_arguments(const Console& console) const {
    const Status given = refuse_given(*app_,
                                      {"--policy", "--margin", "--host-budget", "--ranks", "--imbalance",
                                       "--imbalance-from", "--op-time-scale", "--layer-ms"},
                                      "says nothing about --megatron-args, whose framework decides");
    if (!given) return given.error();
    const Result<Bytes> budget = allocator_budget(job_);
    if (!budget) return budget.error();
    const Result<ArgumentJob> job = read_argument_job(job_);
    if (!job) return job.error();
    const auto& [imported, knobs, notes] = job.value();
    for (const std::string& remark : import_remarks(imported)) console.note(remark);
    Result<std::vector<estimate::RankMemory>> stages =
        estimate::estimate_stages(estimate::cautious(imported.run), estimate::cautious(knobs));
    if (!stages) return bad_input(job_.megatron_args.string() + ": " + stages.error().message);
    const formats::RankMemoryReport report{.what = job_.megatron_args.string(),
                                           .imported = &imported,
                                           .stages = std::move(stages).value(),
                                           .notes = notes};
    const formats::BandCheck check =
        formats::check_band(report.stages, estimate::band_of(imported.run), budget.value(), is_understood(imported));
    const Status status = console.print(job_.format == Format::json
                                            ? formats::band_check_json(report, check)
                                            : formats::band_check_text(report, check, static_cast<std::size_t>(top_)));
    if (!status) return status.error();
    return check.verdict == formats::BandVerdict::fail ? ExitStatus::answer_is_no : ExitStatus::done;
  }

  struct Checked {
    plan::PlanRequest request;
    plan::PlanOutcome outcome;
    std::string what;
  };

  struct BrokenRule {
    std::int32_t rank = 0;
    std::string line;
  };

  /// JSON starts with a brace; a YAML job could too, but then it is no plan and the reader says so.
  [[nodiscard]] bool is_plan_file() const { return job_.model.extension() == ".json"; }

  Result<Checked> from_plan(const Console& console) const {
    for (const char* option :
         {"--policy", "--device", "--imbalance", "--imbalance-from", "--op-time-scale", "--layer-ms", "--calibration"})
      if (app_->count(option) > 0)
        return bad_input(
            fmt::format("{}: a plan file is checked as it was planned; give a model file instead", option));
    const Result<formats::PlanFile> file = read_plan(job_.model);
    if (!file) return file.error();
    Result<plan::PlanOutcome> outcome = formats::restore_outcome(file.value(), job_.ranks, job_.model.string());
    if (!outcome) return outcome.error();
    Checked checked{.request = formats::request_of(file.value()),
                    .outcome = std::move(outcome).value(),
                    .what = fmt::format("{}, policy {}", job_.model.string(), file.value().policy)};
    if (checked.outcome.ranks.empty()) return bad_input(fmt::format("{}: the plan holds no rank", job_.model.string()));
    if (!job_.ranks.empty()) checked.request.ranks = job_.ranks;
    for (const plan::RankPlan& rank : checked.outcome.ranks) {
      if (rank.figures.fits) continue;
      console.note(fmt::format("rank {} was planned over its budget: its figures are checked, its program is not",
                               rank.figures.rank));
    }
    return checked;
  }

  Result<Checked> from_config(const Console& console) const {
    const Result<plan::PlanRequest> request = read_request(job_);
    if (!request) return request.error();
    Result<Planned> planned = plan_with_progress(request.value(), job_.model, console);
    if (!planned) return planned.error();
    return Checked{.request = request.value(),
                   .outcome = std::move(planned).value().outcome,
                   .what = fmt::format("{}, policy {}", job_.model.string(), job_.policy)};
  }

  /// A program that fits must also be sound: a file can have been edited.
  static std::optional<BrokenRule> broken_rule(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
    for (const plan::RankPlan& rank : outcome.ranks) {
      if (!rank.figures.fits) continue;
      if (const std::optional<std::string> fault = formats::find_fault(request, rank))
        return BrokenRule{
            .rank = rank.figures.rank,
            .line = fmt::format("FAIL rank {}: the program breaks a rule: {}", rank.figures.rank, *fault)};
    }
    return std::nullopt;
  }

  /// The members of every answer; what a program that is not sound cannot tell is null.
  static std::string broken_json(const BrokenRule& broken) {
    nlohmann::ordered_json json{{"verdict", "FAIL"}, {"line", broken.line}, {"rank", broken.rank}};
    for (const char* name : {"budget_bytes", "margin_bytes", "memory", "ranks", "contributors", "remedy"})
      json[name] = nullptr;
    return json.dump(2) + "\n";
  }

  Result<formats::Remedy> find_remedy(plan::PlanRequest request, Bytes budget, const Console& console) const {
    request.policy = policies::find_policy("optimal");
    request.budget_bytes = budget;
    if (job_.host_budget_bytes) request.host_budget_bytes = job_.host_budget_bytes;
    request.threads = job_.threads;
    Result<Planned> planned = plan_with_progress(request, job_.model, console);
    if (!planned) return planned.error();
    return formats::Remedy{.request = std::move(request), .outcome = std::move(planned).value().outcome};
  }

  JobOptions job_;
  Margin margin_;
  int top_ = 8;
  const CLI::App* app_ = nullptr;
};

}  // namespace

extern const Verb kCmdCheck;
const Verb kCmdCheck = {
    .name = "check",
    .summary = "Check a plan or a job against a budget: PASS, NEAR or FAIL, and what would clear it",
    .examples =
        "  tidemark check plan.json --budget 60GiB\n"
        "  tidemark check models/pangu-ultra-moe-718b.yaml --budget 60.97GiB --policy full-recompute\n"
        "  tidemark check models/small-mla-moe.yaml --budget 8GiB --margin 512MiB --format json\n"
        "  tidemark check --megatron-args pretrain.sh --budget 76GiB\n",
    .statuses =
        "  0  PASS, or NEAR: within the margin, or the error band, below the budget\n"
        "  1  FAIL: one line with rank, peak, budget, excess and op, then contributors and the cheapest change\n"
        "  2  bad usage or input; one line on stderr\n"
        "  3  a fault in Tidemark\n",
    .make = make_command<CheckCommand>};

}  // namespace tidemark::cli
