#include <vector>

#include "integrations/cli/argument_job.h"
#include "integrations/cli/calibration_option.h"
#include "integrations/cli/console.h"
#include "integrations/cli/job_request.h"
#include "integrations/cli/locations.h"
#include "integrations/cli/timed_rows.h"
#include "integrations/cli/verb.h"
#include "integrations/formats/accuracy_report.h"
#include "integrations/formats/file.h"
#include "integrations/formats/outcome_json.h"
#include "integrations/formats/predicted_times_file.h"
#include "integrations/formats/rank_memory_report.h"
#include "integrations/formats/rate_candidates.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/summary_text.h"
#include "integrations/formats/time_report.h"
#include "integrations/formats/time_truth_file.h"
#include "integrations/formats/truth_file.h"
#include "integrations/formats/utf8.h"

namespace tidemark::cli {
namespace {

constexpr int kMostTop = 10'000;

class EstimateCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    job_.policy = "keep-all";
    add_job_options(app, job_);
    add_count(app, "--top", top_, 0, kMostTop, "contributors listed per rank (default 8; JSON lists all)");
    app.add_option("--truth", truth_, "measured runs with their arguments: predict each and print the errors")
        ->type_name("FILE")
        ->excludes(app.get_option("MODEL"))
        ->excludes(app.get_option("--megatron-args"));
    app.add_flag("--rival", rival_, "with --truth: errors of Megatron-LM's own formula beside")->needs("--truth");
    app.add_flag("--calibrate-per-model", per_model_,
                 "with --truth: the first rank of every model corrects the predictions of its others")
        ->needs("--truth")
        ->excludes(app.get_option("--calibration"));
    app.add_option("--time-truth", time_truth_, "measured step times with their arguments: predict each and score them")
        ->type_name("FILE")
        ->excludes(app.get_option("MODEL"))
        ->excludes(app.get_option("--megatron-args"))
        ->excludes(app.get_option("--truth"));
    app.add_option("--rates", rates_,
                   "with --time-truth: constants to try, for scripts/fit_device; prints seconds only")
        ->type_name("FILE")
        ->needs("--time-truth");
    app.add_option("--predicted", predicted_, "with --time-truth: seconds predicted elsewhere, to be scored alike")
        ->type_name("FILE")
        ->needs("--time-truth")
        ->excludes(app.get_option("--rates"));
    app_ = &app;
  }

  Result<ExitStatus> run(Console& console) override {
    const Result<std::string> text = !time_truth_.empty()          ? score_times()
                                     : !truth_.empty()             ? score()
                                     : !job_.megatron_args.empty() ? arguments(console)
                                                                   : model(console);
    if (!text) return text.error();
    const Status status = console.print(text.value());
    if (!status) return status.error();
    return ExitStatus::done;
  }

 private:
  [[nodiscard]] bool is_json() const { return job_.format == Format::json; }

  /// What only a step that is planned can be asked.
  static std::vector<std::string> of_a_plan() {
    return {"--policy",    "--budget",         "--host-budget",   "--ranks",
            "--imbalance", "--imbalance-from", "--op-time-scale", "--layer-ms"};
  }

  /// What rows of measured runs say themselves.
  static std::vector<std::string> of_a_job() {
    std::vector<std::string> options = of_a_plan();
    options.insert(options.end(), {"--device", "--world-size", "--accelerator", "--strict"});
    return options;
  }

  Result<std::string> score_times() const {
    std::vector<std::string> others = of_a_job();
    others.push_back("--calibration");
    const Status given = refuse_given(*app_, others, "says nothing about --time-truth, whose rows say it");
    if (!given) return given.error();
    const Result<std::string> text = formats::read_file(time_truth_, formats::kMostMeasurementBytes);
    if (!text) return text.error();
    const Result<std::vector<step_time::TimeRow>> rows = formats::read_time_truth(text.value(), time_truth_.string());
    if (!rows) return rows.error();
    if (!rates_.empty()) return tried_rates(rows.value());
    const Result<PredictedTimes> times =
        predicted_.empty() ? predict_times(rows.value(), share_directories()) : given_times(rows.value());
    if (!times) return times.error();
    const formats::TimeReport report{.what = formats::utf8_text(time_truth_.native()),
                                     .rows = rows.value(),
                                     .predictions = times.value().predictions,
                                     .factors = times.value().factors,
                                     .notes = time_notes()};
    return is_json() ? formats::time_json(report) : formats::time_text(report);
  }

  Result<PredictedTimes> given_times(const std::vector<step_time::TimeRow>& rows) const {
    const Result<std::string> text = formats::read_file(predicted_, formats::kMostMeasurementBytes);
    if (!text) return text.error();
    const Result<formats::PredictedTimesById> times = formats::read_predicted_times(text.value(), predicted_.string());
    if (!times) return times.error();
    Result<std::vector<formats::TimePrediction>> predictions = take_times(rows, times.value());
    if (!predictions) return bad_input(predicted_.string() + ": " + predictions.error().message);
    return PredictedTimes{.predictions = std::move(predictions).value(), .factors = {}};
  }

  [[nodiscard]] std::vector<std::string> time_notes() const {
    if (predicted_.empty()) return {};
    return {formats::printable(formats::utf8_text(predicted_.native())) +
            " holds the predicted seconds: they are not this program's own"};
  }

  Result<std::string> tried_rates(const std::vector<step_time::TimeRow>& rows) const {
    const Result<std::string> text = formats::read_file(rates_, formats::kMostDescriptionBytes);
    if (!text) return text.error();
    const Result<formats::RateCandidates> candidates = formats::read_rate_candidates(text.value(), rates_.string());
    if (!candidates) return candidates.error();
    const Result<TriedRates> tried = try_rates(rows, candidates.value(), share_directories());
    if (!tried) return tried.error();
    return formats::candidates_json(rows, tried.value().constants, tried.value().seconds);
  }

  Result<std::string> score() const {
    const Status given = refuse_given(*app_, of_a_job(), "says nothing about --truth, whose rows say it");
    if (!given) return given.error();
    const Result<std::string> text = formats::read_file(truth_, formats::kMostMeasurementBytes);
    if (!text) return text.error();
    const Result<std::vector<estimate::MeasuredRun>> runs = formats::read_truth(text.value(), truth_.string());
    if (!runs) return runs.error();
    const Result<std::optional<estimate::Calibration>> calibration = read_calibration_option(job_);
    if (!calibration) return calibration.error();
    estimate::ScoreOptions options{.calibrate_per_model = per_model_, .rival = rival_};
    formats::AccuracyReport report{.what = formats::utf8_text(truth_.native()), .runs = runs.value()};
    if (calibration.value()) {
      options.correction = calibration.value()->memory;
      report.notes = estimate::describe(*calibration.value());
    }
    const std::vector<estimate::ScoredRank> ranks = estimate::score_runs(runs.value(), options);
    report.ranks = ranks;
    return is_json() ? formats::accuracy_json(report) : formats::accuracy_text(report);
  }

  Result<std::string> arguments(const Console& console) const {
    const Status given =
        refuse_given(*app_, of_a_plan(), "says nothing about --megatron-args, whose framework decides");
    if (!given) return given.error();
    const Result<ArgumentJob> job = read_argument_job(job_);
    if (!job) return job.error();
    const auto& [training, knobs, notes] = job.value();
    const estimate::ImportedRun& imported = training.imported;
    for (const std::string& remark : import_remarks(imported)) console.note(remark);
    Result<std::vector<estimate::RankMemory>> stages = estimate::estimate_stages(imported.run, knobs);
    if (!stages) return bad_input(job_.megatron_args.string() + ": " + stages.error().message);
    const formats::RankMemoryReport report{.what = formats::utf8_text(job_.megatron_args.native()),
                                           .imported = &imported,
                                           .stages = std::move(stages).value(),
                                           .notes = notes};
    return is_json() ? formats::rank_memory_json(report)
                     : formats::rank_memory_text(report, static_cast<std::size_t>(top_));
  }

  Result<std::string> model(const Console& console) const {
    const Result<plan::PlanRequest> request = read_request(job_, &console);
    if (!request) return request.error();
    const Result<Planned> planned = plan_with_progress(request.value(), job_.model, console);
    if (!planned) return planned.error();
    const auto& [outcome, seconds] = planned.value();
    return is_json() ? formats::estimate_json(request.value(), outcome, seconds)
                     : formats::estimate_summary(request.value(), outcome, static_cast<std::size_t>(top_));
  }

  JobOptions job_;
  std::filesystem::path truth_;
  std::filesystem::path time_truth_;
  std::filesystem::path rates_;
  std::filesystem::path predicted_;
  bool rival_ = false;
  bool per_model_ = false;
  int top_ = 8;
  const CLI::App* app_ = nullptr;
};

}  // namespace

extern const Verb kCmdEstimate;
const Verb kCmdEstimate = {
    .name = "estimate",
    .summary = "Report what each rank holds at its peak and who holds it; a report, not a verdict",
    .examples =
        "  tidemark estimate models/pangu-ultra-moe-718b.yaml --ranks 0,15 --top 20\n"
        "  tidemark estimate models/llama-3-70b.yaml --device h100-80g --format json\n"
        "  tidemark estimate --megatron-args pretrain.sh --top 20\n"
        "  tidemark estimate --truth measured.json --rival\n"
        "  tidemark estimate --time-truth times.json --format json\n",
    .statuses =
        "  0  the report was made, whether or not the job fits (see check for a verdict)\n"
        "  2  bad usage or input; one line on stderr\n"
        "  3  a fault in Tidemark\n",
    .make = make_command<EstimateCommand>};

}  // namespace tidemark::cli
