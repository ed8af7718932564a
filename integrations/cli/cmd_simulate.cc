#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "integrations/cli/console.h"
#include "integrations/cli/job_request.h"
#include "integrations/cli/options.h"
#include "integrations/cli/plan_input.h"
#include "integrations/cli/progress.h"
#include "integrations/cli/verb.h"
#include "integrations/formats/capacity_table.h"
#include "integrations/formats/file.h"
#include "integrations/formats/plan_restore.h"
#include "integrations/formats/price_report.h"
#include "integrations/formats/timing_report.h"
#include "integrations/run/load_forecast.h"
#include "integrations/run/rung_forecast.h"
#include "integrations/run/sim_run.h"
#include "integrations/run/worst_step.h"

namespace tidemark::cli {
namespace {

constexpr int kMostFitSteps = 1'000'000, kMostPlayedSteps = 1000;

class SimulateCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    add_job_options(app, job_);
    app.get_option("MODEL")->description("model and layout, YAML, or a plan.json (docs/formats.md)");
    add_word(app, "--against", against_, "reference", {"published"},
             "show the step beside the published one and split the gap by cause; the policy is then published-recipe "
             "unless --policy says otherwise, and every rank is planned");
    add_word(
        app, "--capacity-table", capacity_, "kind of capacity", {"drop-and-pad", "drop"},
        "in place of the step: a table of the job dropless and under capacity factors 1.0 to 1.5, of experts and of "
        "devices, with rows padded to the capacity (drop-and-pad) or dropped alone (drop); the share dropped is "
        "that of the load model, or with --imbalance-from of those counts");
    app.add_flag("--prices", prices_,
                 "a table of switches (fused kernels, host, exchange, schedules) instead: each off and on in step time "
                 "and memory, one at a time, with the source of its constant");
    app.add_option("--loads", loads_,
                   "a plan.json: hold its slots against the loads of this trace, a CSV file with the columns "
                   "step,layer,micro_batch,device,rows")
        ->type_name("FILE");
    add_count(app, "--fit-steps", fit_steps_, 1, kMostFitSteps,
              fmt::format("with --loads: fit the load model to so many of its first steps (default {})", fit_steps_));
    app.add_option("--group-device", group_device_, "with --loads: one device of the expert group, or all (default)")
        ->type_name("N|all");
    add_count(
        app, "--play", play_, 0, kMostPlayedSteps,
        "with --loads: play at least N steps drawn from the fitted model, the first N seen and the last N fitted, on "
        "simulated devices; "
        "answers how often each rung of the runtime is taken (default 0: none)");
    app_ = &app;
  }

  Result<ExitStatus> run(Console& console) override {
    if (job_.model.extension() == ".json") return simulate_file(console);
    if (Status s = refuse_given(*app_, {"--loads", "--fit-steps", "--group-device", "--play"},
                                "loads are held against the slots of a plan.json");
        !s)
      return s.error();
    if (!capacity_.empty() && prices_)
      return bad_input("--prices: is a table by itself, as --capacity-table is; drop one");
    if (!capacity_.empty()) return capacity_table(console);
    if (prices_) return price(console);
    const bool compares = !against_.empty();
    if (compares && !job_.ranks.empty()) return bad_input("--against: needs every rank; drop --ranks");
    if (compares && app_->count("--policy") == 0) job_.policy = "published-recipe";
    const Result<plan::PlanRequest> request = read_request(job_, &console);
    if (!request) return request.error();
    const plan::PublishedStep* published = plan::find_published_step(request.value().job.model.name);
    if (compares && published == nullptr) {
      const auto known = plan::published_models();
      return bad_input(fmt::format("--against: nothing is published for {}; known: {}", request.value().job.model.name,
                                   join_words({known.begin(), known.end()})));
    }
    const Result<Planned> planned = plan_with_progress(request.value(), subject_of(job_), console);
    if (!planned) return planned.error();
    const auto& [outcome, seconds] = planned.value();
    std::optional<formats::Against> against;
    if (compares) against = {.published = *published, .gap = plan::gap_to(*published, request.value().job, outcome)};
    const Status status =
        console.print(job_.format == Format::json ? formats::timing_json(request.value(), outcome, seconds, against)
                                                  : formats::timing_summary(request.value(), outcome, against));
    if (!status) return status.error();
    return ExitStatus::done;
  }

 private:
  Result<ExitStatus> capacity_table(Console& console) const {
    if (!against_.empty()) return bad_input("--against: a published step is no line of --capacity-table; drop one");
    if (!job_.ranks.empty()) return bad_input("--capacity-table: a step needs every rank; drop --ranks");
    const Result<plan::PlanRequest> request = read_request(job_, &console);
    if (!request) return request.error();
    const graph_build::JobSpec& job = request.value().job;
    if (!job.model.has_experts())
      return bad_input(fmt::format("--capacity-table: {} has no layer with experts", subject_of(job_).string()));
    const std::vector<plan::CapacityChoice> choices = plan::capacity_choices(capacity_ == "drop-and-pad");
    const Result<formats::CapacityDrops> drops = drops_of(job, choices);
    if (!drops) return drops.error();
    Progress progress("planning", console.draws_progress());
    progress.watch(static_cast<int>(choices.size()));
    const Result<std::vector<plan::CapacityLine>> lines = plan::capacity_lines(
        request.value(), choices, [&](int done) { progress.update(done, static_cast<int>(choices.size())); });
    if (!lines) return lines.error();
    const Status status = console.print(job_.format == Format::json
                                            ? formats::capacity_json(request.value(), lines.value(), drops.value())
                                            : formats::capacity_text(request.value(), lines.value(), drops.value()));
    if (!status) return status.error();
    return ExitStatus::done;
  }

  /// Nothing is planned: every line is the step with everything kept.
  Result<ExitStatus> price(Console& console) const {
    if (Status s = refuse_given(*app_, {"--against", "--policy", "--budget", "--host-budget", "--ranks"},
                                "--prices keeps everything on every rank");
        !s)
      return s.error();
    if (app_->count("--imbalance") > 0 && job_.imbalance.quantile)
      return bad_input("--imbalance: --prices holds memory for one load; give a number such as 1.2");
    const Result<plan::PlanRequest> request = read_request(job_, &console);
    if (!request) return request.error();
    const plan::PlanRequest& plan = request.value();
    const prices::PriceRequest question{.job = plan.job,
                                        .machine = plan.machine,
                                        .load = plan.load.value_or(plan.job.expert_load.mean),
                                        .time_scale = plan.time_scale,
                                        .threads = plan.threads};
    const Result<prices::PriceTable> table = prices::price_switches(question);
    if (!table) return table.error();
    const Status status =
        console.print(job_.format == Format::json ? formats::price_table_json(question, table.value())
                                                  : formats::price_table_text(question, table.value()));
    if (!status) return status.error();
    return ExitStatus::done;
  }

  [[nodiscard]] Result<formats::CapacityDrops> drops_of(const graph_build::JobSpec& job,
                                                        const std::vector<plan::CapacityChoice>& choices) const {
    if (job_.imbalance_from.empty()) return formats::modelled_drops(job, choices);
    const Result<std::string> text = formats::read_file(job_.imbalance_from, formats::kMostMeasurementBytes);
    if (!text) return text.error();
    return formats::counted_drops(text.value(), job_.imbalance_from.string(), job, choices);
  }

  /// A plan is played as it was planned.
  Result<ExitStatus> simulate_file(Console& console) const {
    const Status refused = refuse_given(
        *app_,
        {"--against", "--capacity-table", "--prices", "--policy", "--device", "--imbalance", "--imbalance-from",
         "--budget", "--host-budget", "--ranks", "--op-time-scale", "--layer-ms", "--calibration"},
        "a plan file is simulated as it was planned");
    if (!refused) return refused.error();
    const Result<formats::PlanFile> file = read_plan(job_.model);
    if (!file) return file.error();
    if (loads_.empty())
      if (Status s = refuse_given(*app_, {"--fit-steps", "--group-device", "--play"}, "only --loads reads a trace"); !s)
        return s.error();
    Result<plan::PlanOutcome> outcome = formats::restore_outcome(file.value(), {}, job_.model.string());
    if (!outcome) return outcome.error();
    if (!loads_.empty()) return forecast(file.value(), std::move(outcome).value(), console);
    const plan::PlanRequest request = formats::request_of(file.value());
    if (const Status status = plan::simulate_plan(request, outcome.value()); !status)
      return Error{.code = status.error().code,
                   .message = fmt::format("{}: {}", job_.model.string(), status.error().message)};
    std::string text = job_.format == Format::json ? formats::timing_json(request, outcome.value(), 0, std::nullopt)
                                                   : formats::timing_summary(request, outcome.value(), std::nullopt);
    const Result<std::optional<run::WorstStep>> worst = worst_of(file.value(), std::move(outcome).value());
    if (!worst) return worst.error();
    if (worst.value())
      text = job_.format == Format::json ? run::with_worst_step(text, *worst.value())
                                         : text + run::worst_step_text(*worst.value());
    if (const Status status = console.print(text); !status) return status.error();
    return ExitStatus::done;
  }

  [[nodiscard]] static Result<std::optional<run::WorstStep>> worst_of(const formats::PlanFile& file,
                                                                      plan::PlanOutcome plan) {
    if (file.graph != nullptr) return std::optional<run::WorstStep>();
    const Result<graph_build::LoadShape> shape = graph_build::load_shape(file.job, file.machine);
    if (!shape) return std::optional<run::WorstStep>();  // no experts
    run::charge_copies(plan, file.machine);
    return run::worst_step(plan, file.machine, shape.value());
  }

  /// What a trace of loads asks of the plan's slots.
  Result<ExitStatus> forecast(const formats::PlanFile& file, plan::PlanOutcome plan, Console& console) const {
    if (file.graph != nullptr) return bad_input("--loads: the plan is of a captured step, which has no expert group");
    const Result<graph_build::LoadShape> shape = graph_build::load_shape(file.job, file.machine);
    if (!shape) return bad_input("--loads: " + shape.error().message);
    if (shape.value().devices < 2) return bad_input("--loads: an expert group of one device has one load, 1");
    run::ForecastQuestion question{.fit_steps = fit_steps_, .kept_steps = play_};
    const Result<std::optional<std::int64_t>> device = parse_group_device(group_device_, shape.value().devices);
    if (!device) return device.error();
    question.device = device.value();
    const Result<run::LoadForecast> forecast = run::forecast_loads(plan, shape.value(), question, loads_);
    if (!forecast) return forecast.error();
    const bool is_json = job_.format == Format::json;
    bool is_refused = false;
    std::string text = is_json ? run::forecast_json(forecast.value()) : run::forecast_text(forecast.value());
    if (play_ > 0) {
      if (const std::optional<Error> error = not_runnable(formats::request_of(file), plan)) return *error;
      run::charge_copies(plan, file.machine);
      const Result<run::RungForecast> rungs =
          run::forecast_rungs(plan, file.machine, shape.value(), {.device = question.device}, forecast.value(), play_);
      if (!rungs) return rungs.error();
      text = is_json ? run::with_rungs(text, rungs.value()) : text + run::rung_forecast_text(rungs.value());
      is_refused = rungs.value().refused() > 0;
    }
    if (const Status status = console.print(text); !status) return status.error();
    return is_refused ? ExitStatus::answer_is_no : ExitStatus::done;
  }

  JobOptions job_;
  std::string against_, capacity_, group_device_ = "all";
  std::filesystem::path loads_;
  int fit_steps_ = 16, play_ = 0;
  bool prices_ = false;
  const CLI::App* app_ = nullptr;
};

}  // namespace

extern const Verb kCmdSimulate;
const Verb kCmdSimulate = {
    .name = "simulate",
    .summary = "Model the time of a planned step: bubble, exposed communication and copies, MFU",
    .examples =
        "  tidemark simulate models/pangu-ultra-moe-718b.yaml\n"
        "  tidemark simulate models/pangu-ultra-moe-718b.yaml --against published\n"
        "  tidemark simulate models/pangu-ultra-moe-718b.yaml --capacity-table drop-and-pad\n"
        "  tidemark simulate models/mixtral-8x7b.yaml --prices\n"
        "  tidemark simulate plan.json\n"
        "  tidemark simulate plan.json --loads loads.csv\n"
        "  tidemark simulate models/pangu-ultra-moe-718b.yaml --layer-ms 120.5 --policy full-recompute\n",
    .statuses =
        "  0  the step was modelled, whether or not the job fits\n"
        "  1  --play: the plan cannot run, or a step was refused\n"
        "  2  bad usage or input; one line on stderr\n"
        "  3  a fault in Tidemark\n",
    .make = make_command<SimulateCommand>};

}  // namespace tidemark::cli
