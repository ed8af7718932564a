#include <fmt/format.h>

#include <charconv>
#include <csignal>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "integrations/cli/console.h"
#include "integrations/cli/job_request.h"
#include "integrations/cli/options.h"
#include "integrations/cli/output_set.h"
#include "integrations/cli/plan_input.h"
#include "integrations/cli/verb.h"
#include "integrations/formats/field_ranges.h"
#include "integrations/formats/plan_restore.h"
#include "integrations/run/run_plan.h"
#include "integrations/run/run_summary.h"
#include "integrations/run/sim_run.h"
#include "integrations/run/trace_report.h"
#include "integrations/run/trace_summary.h"

namespace tidemark::cli {
namespace {

constexpr int kMostSchedules = 1'000'000;

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// `1/64`, or `1`.
Result<std::int64_t> parse_scale(const std::string& text) {
  const auto divisor = text.starts_with("1/") ? whole(std::string_view(text).substr(2)) : whole(text);
  const bool one = text.starts_with("1/") || divisor == 1;
  if (!divisor || !one || *divisor < 1 || *divisor > 64 || (*divisor & (*divisor - 1)) != 0)
    return bad_input(fmt::format("--scale: {} is not 1 or 1/2, 1/4, ... 1/64", text));
  return *divisor;
}

Result<double> parse_load(std::string_view option, std::string_view text) {
  const Result<double> load = parse_number(text);
  if (!load || load.value() <= 0 || load.value() > graph_build::kMostMeanLoad)
    return bad_input(
        fmt::format("{}: {} is not a load above 0 and at most {}", option, text, graph_build::kMostMeanLoad));
  return load.value();
}

/// A handler runs only once the system call under way is over, and one that fills tens of GiB takes long; the default
/// action ends that, too. This command leaves no file behind that a handler would have to remove.
void end_at_once_on_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    std::signal(number, SIG_DFL);
  }
}

class RunCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PLAN", plan_, "a plan.json of `tidemark plan --out`")->required()->type_name("FILE");
    add_word(app, "--device", device_, "device", {"sim", "host", "cuda", "ascend"},
             "sim: simulated, all ranks in one virtual time (default); host: this machine's memory; cuda, ascend");
    app.add_option("--rank", rank_, "one rank alone, or all (default)")->type_name("N|all");
    app.add_option("--scale", scale_, "divide sizes and addresses by N, a power of two up to 64 (default 1)")
        ->type_name("1/N");
    app.add_flag("--verify", verify_, "fill what is written with patterns, check what is read and copied in");
    add_count(app, "--seed", seed_, 0, std::numeric_limits<int>::max(),
              "sim: durations, stalls and pauses drawn at random from this seed; 0: as estimated (default)");
    add_count(app, "--schedules", schedules_, 1, kMostSchedules,
              "sim: run that many times, with seeds --seed, --seed + 1, ... (default 1)");
    app.add_option("--load", load_, "expert load of every layer and micro-batch instead of the planned")
        ->type_name("F");
    app.add_option("--load-rise", load_rise_,
                   "load F for expert layers that begin at op number OP of their rank or later, the others as planned")
        ->type_name("F@OP");
    app.add_option("--loads", loads_,
                   "sim: play the steps of this trace, a CSV file with the columns step,layer,micro_batch,device,rows")
        ->type_name("FILE");
    app.add_option("--group-device", group_device_,
                   "with --loads: whose programs run, a device of the expert group or all (default)")
        ->type_name("N|all");
    app.add_flag("--races", races_, "with --loads: look for races in every step");
    add_file(app, "--report", report_,
             "with --loads: write a self-contained HTML page of load, time, memory and rungs");
    app_ = &app;
    add_format(app, format_);
  }

  Result<ExitStatus> run(Console& console) override {
    if (loads_.empty())
      if (Status s = refuse_given(*app_, {"--group-device", "--races", "--report"}, "only --loads plays a trace"); !s)
        return s.error();
    const Result<run::RunAsk> ask = read_ask();
    if (!ask) return ask.error();
    const Result<formats::PlanFile> file = read_plan(plan_);
    if (!file) return file.error();
    Result<plan::PlanOutcome> plan = formats::restore_outcome(file.value(), {}, plan_.string());
    if (!plan) return plan.error();
    if (const std::optional<Error> error = not_runnable(formats::request_of(file.value()), plan.value())) return *error;
    end_at_once_on_signals();
    if (!loads_.empty()) return run_trace(std::move(plan).value(), file.value(), ask.value(), console);
    const Result<run::RunAsk> told = with_sent_load(ask.value(), file.value());
    if (!told) return told.error();
    const Result<run::RunOutcome> outcome = run::run_plan(std::move(plan).value(), file.value().machine, told.value());
    if (!outcome) return outcome.error();
    const Status status =
        console.print(format_ == Format::json ? run::run_json(outcome.value()) : run::run_text(outcome.value()));
    if (!status) return status.error();
    return outcome.value().problems.empty() ? ExitStatus::done : ExitStatus::answer_is_no;
  }

 private:
  [[nodiscard]] Result<run::RunAsk> read_ask() const {
    run::RunAsk ask{.verify = verify_, .seed = static_cast<std::uint64_t>(seed_), .schedules = schedules_};
    ask.device = device_ == "host"     ? run::RunDevice::host
                 : device_ == "cuda"   ? run::RunDevice::cuda
                 : device_ == "ascend" ? run::RunDevice::ascend
                                       : run::RunDevice::sim;
    if (rank_ != "all") {
      const std::optional<std::int64_t> rank = whole(rank_);
      if (!rank || *rank > 65535) return bad_input(fmt::format("--rank: {} is neither a rank nor all", rank_));
      ask.rank = static_cast<std::int32_t>(*rank);
    }
    const Result<std::int64_t> scale = parse_scale(scale_);
    if (!scale) return scale.error();
    ask.scale = scale.value();
    const Result<std::optional<run::LoadChange>> load = read_load();
    if (!load) return load.error();
    ask.load = load.value();
    return ask;
  }

  [[nodiscard]] Result<std::optional<run::LoadChange>> read_load() const {
    if (load_.empty() && load_rise_.empty()) return std::optional<run::LoadChange>();
    if (!load_.empty() && !load_rise_.empty()) return bad_input("--load and --load-rise exclude each other");
    if (!load_.empty()) {
      const Result<double> load = parse_load("--load", load_);
      if (!load) return load.error();
      return std::optional(run::LoadChange{.load = load.value()});
    }
    const std::size_t at = load_rise_.find('@');
    const std::optional<std::int64_t> op =
        at == std::string::npos ? std::nullopt : whole(std::string_view(load_rise_).substr(at + 1));
    if (!op) return bad_input(fmt::format("--load-rise: {} is not a load and an op, such as 1.4@1000", load_rise_));
    const Result<double> load = parse_load("--load-rise", std::string_view(load_rise_).substr(0, at));
    if (!load) return load.error();
    return std::optional(run::LoadChange{.load = load.value(), .from_op = *op});
  }

  /// One number is told, the load of rows received; rows are sent as a plan for it counts on.
  [[nodiscard]] Result<run::RunAsk> with_sent_load(run::RunAsk ask, const formats::PlanFile& file) const {
    if (!ask.load || file.graph != nullptr) return ask;
    const Result<graph_build::LoadShape> shape = graph_build::load_shape(file.job, file.machine);
    if (!shape) return ask;  // refused where it is asked of ranks that have none
    const double load = ask.load->load.received;
    if (load > shape.value().most_load())
      return bad_input(
          fmt::format("{}: load {} cannot be; {} a device of this job at most {:.4g} times the "
                      "mean",
                      load_.empty() ? "--load-rise" : "--load", load,
                      shape.value().capacity > 0 ? "its capacity gives" : "routing sends", shape.value().most_load()));
    ask.load->load = shape.value().with(load);
    return ask;
  }

  [[nodiscard]] Result<run::TraceAsk> read_trace_ask(const run::RunAsk& ask,
                                                     const graph_build::LoadShape& shape) const {
    if (Status s = refuse_given(*app_, {"--load", "--load-rise", "--scale", "--verify", "--seed", "--schedules"},
                                "--loads says the load of every site, and its steps run as estimated at true sizes");
        !s)
      return s.error();
    if (ask.device != run::RunDevice::sim) return bad_input("--loads: only a simulated device plays a trace");
    run::TraceAsk trace{.rank = ask.rank, .check_races = races_};
    const Result<std::optional<std::int64_t>> device = parse_group_device(group_device_, shape.devices);
    if (!device) return device.error();
    trace.device = device.value();
    return trace;
  }

  [[nodiscard]] Result<ExitStatus> run_trace(plan::PlanOutcome plan, const formats::PlanFile& file,
                                             const run::RunAsk& ask, Console& console) {
    if (file.graph != nullptr) return bad_input("--loads: the plan is of a captured step, which has no expert group");
    const Result<graph_build::LoadShape> shape = graph_build::load_shape(file.job, file.machine);
    if (!shape) return bad_input("--loads: " + shape.error().message);
    const Result<run::TraceAsk> trace = read_trace_ask(ask, shape.value());
    if (!trace) return trace.error();
    const run::TraceOutcome* played = nullptr;
    OutputSet outputs(format_);
    if (Status s = outputs.add(report_, {plan_, loads_},
                               [&](std::ostream& stream) -> Status {
                                 stream << run::trace_html(*played);
                                 return {};
                               });
        !s)
      return s.error();
    run::charge_copies(plan, file.machine);
    const Result<run::TraceOutcome> outcome = run::play_trace(plan, file.machine, shape.value(), trace.value(), loads_);
    if (!outcome) return outcome.error();
    played = &outcome.value();
    const Status status = outputs.write(
        console, format_ == Format::json ? run::trace_json(outcome.value()) : run::trace_text(outcome.value()));
    if (!status) return status.error();
    return outcome.value().ok() ? ExitStatus::done : ExitStatus::answer_is_no;
  }

  std::filesystem::path plan_;
  std::string device_ = "sim", rank_ = "all", scale_ = "1", load_, load_rise_, group_device_ = "all";
  std::filesystem::path loads_, report_;
  CLI::App* app_ = nullptr;
  bool verify_ = false, races_ = false;
  int seed_ = 0, schedules_ = 1;
  Format format_ = Format::text;
};

}  // namespace

extern const Verb kCmdRun;
const Verb kCmdRun = {
    .name = "run",
    .summary = "Carry a plan out, on simulated devices or on real memory: peak, time, races and wrong bytes",
    .examples =
        "  tidemark run plan.json\n"
        "  tidemark run plan.json --verify --seed 1 --schedules 100\n"
        "  tidemark run plan.json --rank 0 --load-rise 1.3@5000\n"
        "  tidemark run plan.json --loads loads.csv --group-device 0 --format json\n"
        "  tidemark run plan.json --device host --rank 0 --scale 1/64 --verify\n",
    .statuses =
        "  0  carried out as planned\n"
        "  1  raced, wrong bytes, a peak above the plan; or refused: more than this machine holds, loads beyond the "
        "plan,\n"
        "     a program that breaks a rule, a device that is not there\n"
        "  2  bad usage or input; one line on stderr\n"
        "  3  a fault in Tidemark\n",
    .make = make_command<RunCommand>};

}  // namespace tidemark::cli
