#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <vector>

#include "integrations/cli/calibration_sources.h"
#include "integrations/cli/console.h"
#include "integrations/cli/job_request.h"
#include "integrations/cli/output_set.h"
#include "integrations/cli/verb.h"
#include "integrations/formats/calibration_file.h"
#include "integrations/formats/file.h"
#include "integrations/formats/import_op_times.h"
#include "integrations/formats/memory_series.h"
#include "integrations/formats/utf8.h"
#include "planner/estimate/calibration.h"

namespace tidemark::cli {
namespace {

using estimate::Calibration;

/// A job that takes a hundred times as long as modelled is not the job that was modelled.
constexpr double kMostTimesOff = 100;

/// Modelled time on the compute lane of a rank's step.
double compute_ns(const plan::RankPlan& rank) {
  double total = 0;
  for (const TaskId task : formats::compute_tasks_of(rank.program.schedule))
    total += static_cast<double>(rank.task_ns[static_cast<std::size_t>(task)]);
  return total;
}

class CalibrateCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    job_.policy = "keep-all";
    add_job_options(app, job_);
    app.get_option("MODEL")->required(false);
    app.remove_option(app.get_option("--calibration"));
    add_file(app, "--out", out_, "where the corrections are written");
    app.get_option("--out")->required();
    add_memory_sources(app, memory_);
    app.add_option("--kernel-details", kernel_details_,
                   "kernel_details.csv of the torch_npu profiler: compute times of a step of the job MODEL")
        ->type_name("FILE");
    app.add_option("--step-trace-time", step_trace_time_, "step_trace_time.csv: the same, overlaps counted once")
        ->type_name("FILE");
    app.get_option("--kernel-details")->excludes(app.get_option("--step-trace-time"));
    add_rate(app, "--d2h", d2h_, "measured rate of copies to the host, such as 23.4GB/s");
    add_rate(app, "--h2d", h2d_, "measured rate of copies from the host");
  }

  Result<ExitStatus> run(Console& console) override {
    Calibration calibration;
    for (const Status& status : {add_memory(calibration), add_times(calibration, console), add_links(calibration)})
      if (!status) return status.error();
    if (calibration.sources.empty())
      return bad_input("--measured: nothing to calibrate with; name a measurement (see tidemark calibrate --help)");
    OutputSet outputs(job_.format);
    const Status added = outputs.add(out_, inputs(), [&](std::ostream& stream) -> Status {
      stream << formats::write_calibration(calibration);
      return {};
    });
    if (!added) return added.error();
    const Status status = outputs.write(
        console, job_.format == Format::json ? formats::write_calibration(calibration) : text(calibration));
    if (!status) return status.error();
    return ExitStatus::done;
  }

 private:
  Status add_memory(Calibration& calibration) {
    const Result<std::optional<MeasuredMemory>> measured = read_measured(memory_, job_);
    if (!measured) return measured.error();
    if (!measured.value()) return {};
    const auto& [run, ranks, source] = *measured.value();
    const std::string file = inputs_of(memory_).front().string();
    const Result<estimate::MemoryCorrection> correction = estimate::fit_memory(run, ranks);
    if (!correction) return bad_input(fmt::format("{}: {}", file, correction.error().message));
    for (const estimate::MeasuredRank& rank : ranks) {
      const Result<estimate::Remainder> remainder = estimate::remainder_of(run, rank, correction.value());
      if (!remainder) return remainder.error();
      remainders_.push_back(remainder.value());
    }
    calibration.memory = correction.value();
    calibration.sources.push_back(formats::utf8_text(source));
    return {};
  }

  /// What is left of a measured rank; a peak far off is that of another run, or of something that is not modelled.
  static std::string remainder_text(const estimate::Remainder& remainder) {
    constexpr double kFar = 0.1;
    std::string text = fmt::format("rank {}: {:+.2f} % between steps", remainder.rank, 100 * remainder.steady);
    if (remainder.peak) text += fmt::format(", {:+.2f} % at the peak", 100 * *remainder.peak);
    const double most = std::max(std::abs(remainder.steady), std::abs(remainder.peak.value_or(0)));
    return text + (most > kFar ? "; no correction explains that: is it the run of these arguments?" : "");
  }

  Status add_times(Calibration& calibration, const Console& console) const {
    const bool by_kernel = !kernel_details_.empty();
    const std::filesystem::path& file = by_kernel ? kernel_details_ : step_trace_time_;
    if (file.empty()) return {};
    if (job_.model.empty() && job_.megatron_args.empty())
      return bad_input(fmt::format("{}: compute times need the MODEL they were measured with",
                                   by_kernel ? "--kernel-details" : "--step-trace-time"));
    const Result<std::string> text = formats::read_file(file);
    if (!text) return text.error();
    const Result<formats::ComputeTime> measured = by_kernel
                                                      ? formats::read_kernel_details(text.value(), file.string())
                                                      : formats::read_step_trace_time(text.value(), file.string());
    if (!measured) return measured.error();
    const Result<double> modelled = modelled_ns(console);
    if (!modelled) return modelled.error();
    const double scale = measured.value().step_ns / modelled.value();
    if (scale < 1 / kMostTimesOff || scale > kMostTimesOff) {
      return bad_input(
          fmt::format("{}: a step of {:.3f} ms where {:.3f} ms are modelled is that of another job, device or "
                      "rank; name the MODEL, --device and --ranks it was measured with",
                      file.string(), measured.value().step_ns / 1e6, modelled.value() / 1e6));
    }
    calibration.op_time_scale = scale;
    calibration.sources.push_back(
        fmt::format("compute time of a step of {}: {:.3f} ms measured over {} steps, {:.3f} "
                    "ms modelled",
                    formats::utf8_text(file.native()), measured.value().step_ns / 1e6, measured.value().steps,
                    modelled.value() / 1e6));
    return {};
  }

  /// Of the one rank asked for with --ranks, or the first.
  Result<double> modelled_ns(const Console& console) const {
    Result<plan::PlanRequest> request = read_request(job_);
    if (!request) return request.error();
    if (request.value().ranks.size() > 1) return bad_input("--ranks: a profile is of one pipeline rank; name that one");
    if (request.value().ranks.empty()) request.value().ranks = {0};
    const Result<Planned> planned = plan_with_progress(request.value(), job_.model, console);
    if (!planned) return planned.error();
    const double ns = compute_ns(planned.value().outcome.ranks.front());
    if (ns <= 0) return bad_input("MODEL: the rank's step has no modelled compute time to compare with");
    return ns;
  }

  Status add_links(Calibration& calibration) const {
    calibration.d2h_bytes_per_s = d2h_;
    calibration.h2d_bytes_per_s = h2d_;
    if (d2h_) calibration.sources.push_back(fmt::format("D2H rate given: {:.2f} GB/s", *d2h_ / 1e9));
    if (h2d_) calibration.sources.push_back(fmt::format("H2D rate given: {:.2f} GB/s", *h2d_ / 1e9));
    return {};
  }

  [[nodiscard]] std::vector<std::filesystem::path> inputs() const {
    std::vector<std::filesystem::path> inputs = inputs_of(memory_);
    for (const std::filesystem::path& file : inputs_of(job_)) inputs.push_back(file);
    for (const std::filesystem::path& file : {kernel_details_, step_trace_time_})
      if (!file.empty()) inputs.push_back(file);
    return inputs;
  }

  [[nodiscard]] std::string text(const Calibration& calibration) const {
    std::string text = fmt::format("{}: corrections from measurements; use with --calibration\n", out_.string());
    for (const std::string& source : calibration.sources) text += "measured: " + source + "\n";
    for (const std::string& line : estimate::describe(calibration)) text += "corrects: " + line + "\n";
    for (const estimate::Remainder& remainder : remainders_) text += "leaves: " + remainder_text(remainder) + "\n";
    return text;
  }

  JobOptions job_;
  MemorySources memory_;
  std::filesystem::path out_, kernel_details_, step_trace_time_;
  std::optional<double> d2h_, h2d_;
  std::vector<estimate::Remainder> remainders_;
};

}  // namespace

extern const Verb kCmdCalibrate;
const Verb kCmdCalibrate = {
    .name = "calibrate",
    .summary = "Turn one measured run of your own into corrections for later plans",
    .examples =
        "  tidemark calibrate --megatron-args train.sh --measured memory.csv --out mine.json\n"
        "  tidemark calibrate --megatron-args train.sh --operator-memory operator_memory.csv --rank 0 --out mine.json\n"
        "  tidemark calibrate models/small-mla-moe.yaml --step-trace-time step_trace_time.csv --out mine.json\n"
        "  tidemark calibrate --d2h 23.4GB/s --h2d 24.1GB/s --out links.json\n",
    .statuses =
        "  0  the corrections were written\n"
        "  2  bad usage or input; one line on stderr, nothing written\n"
        "  3  a fault in Tidemark\n",
    .make = make_command<CalibrateCommand>};

}  // namespace tidemark::cli
