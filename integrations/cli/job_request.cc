#include "integrations/cli/job_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <numeric>
#include <optional>

#include "integrations/ci/budget_job.h"
#include "integrations/cli/calibration_option.h"
#include "integrations/cli/console.h"
#include "integrations/cli/interrupt.h"
#include "integrations/cli/locations.h"
#include "integrations/cli/progress.h"
#include "integrations/cli/time_devices.h"
#include "integrations/formats/field_ranges.h"
#include "integrations/formats/file.h"
#include "integrations/formats/file_kind.h"
#include "integrations/formats/import_expert_counts.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/formats/key_places.h"
#include "integrations/formats/plan_ranges.h"
#include "planner/cost/op_prices.h"
#include "planner/graph_build/device_rules.h"
#include "planner/graph_build/layer_time.h"
#include "planner/graph_build/load_shape.h"
#include "planner/search/auto_placement.h"
#include "policies/policies.h"

namespace tidemark::cli {
namespace {

constexpr double kLeastScale = 0.001, kLargestScale = 1000;

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const plan::Policy& policy : policies::policies()) names.emplace_back(policy.name);
  return names;
}

/// A budget file names its words itself, past the options of the command line.
Result<const plan::Policy*> policy_of(const JobOptions& options) {
  if (const Status status = expect_word("policy", options.policy, policy_names()); !status)
    return bad_input("--policy: " + status.error().message);
  return policies::find_policy(options.policy);
}

/// `file:line: ` of the key `device` at the top level, for a device that does not exist.
std::string device_place(const std::string& text, const std::filesystem::path& file) {
  int line = 1;
  for (std::size_t at = 0; at != std::string::npos; ++line) {
    if (text.compare(at, 7, "device:") == 0) return fmt::format("{}:{}: ", file.string(), line);
    at = text.find('\n', at);
    if (at != std::string::npos) ++at;
  }
  return file.string() + ": ";
}

/// A job, and where it names its device.
struct NamedJob {
  graph_build::JobSpec job;
  std::string device_place;
  std::string text;  ///< empty: no YAML
};

Result<NamedJob> read_model(const JobOptions& options) {
  if (options.model.empty()) return bad_input("MODEL is required, a FILE; or give --megatron-args FILE");
  const auto explained = [&](const Error& error) {
    return formats::explain_kind(error, options.model, formats::FileKind::job);
  };
  Result<std::string> text = formats::read_file(options.model, formats::kMostDescriptionBytes);
  if (!text) return explained(text.error());
  Result<graph_build::JobSpec> job = formats::read_job(text.value(), options.model.string());
  if (!job) return explained(job.error());
  return NamedJob{.job = std::move(job).value(),
                  .device_place = device_place(text.value(), options.model),
                  .text = std::move(text).value()};
}

Result<NamedJob> read_argument_job(const JobOptions& options, const Console* console) {
  const Result<TrainingJob> read = read_training_job(options);
  if (!read) return read.error();
  const estimate::ImportedRun& imported = read.value().imported;
  std::vector<std::string> remarks = import_remarks(imported);
  Result<graph_build::JobSpec> job = job_of(imported, options, remarks);
  if (!job) return job.error();
  for (const std::string& remark : remarks)
    if (console != nullptr) console->note(remark);
  return NamedJob{.job = std::move(job).value()};
}

/// At the line of the file that has the key.
Error wrong_key(const NamedJob& read, const std::filesystem::path& file, const graph_build::SpecProblem& problem) {
  const auto places = formats::key_places(read.text, file.string());
  if (places)
    if (const auto place = places.value().find(problem.key); place != places.value().end())
      return bad_input(fmt::format("{}:{}: {}", file.string(), place->second.line, problem.message));
  return bad_input(fmt::format("{}: {}: {}", file.string(), problem.key, problem.message));
}

/// What the job asks of its device, at the line of the file that asks for it.
Status check_device(const NamedJob& read, const plan::PlanRequest& request, const std::filesystem::path& file) {
  const std::vector<graph_build::SpecProblem> problems =
      graph_build::find_device_problems(request.job, request.machine);
  if (problems.empty()) return {};
  return wrong_key(read, file, problems.front());
}

/// No distribution has a mean above its largest value. A capacity is no limit: rows beyond it are routed, and dropped.
Status check_mean_load(const NamedJob& read, const plan::PlanRequest& request, const std::filesystem::path& file) {
  const Result<graph_build::LoadShape> shape = graph_build::load_shape(request.job, request.machine);
  const double mean = request.job.expert_load.mean;
  if (!shape || mean <= shape.value().most_routed_load()) return {};
  return wrong_key(
      read, file,
      {"expert_load.mean",
       fmt::format("mean is {}, and routing sends a device of this job {:.4g} times the mean of its expert "
                   "group at most; a mean up to that (1: balanced) would be right",
                   mean, shape.value().most_routed_load())});
}

/// Memory for more is never used, and the fullest device of a group has the mean at least.
Status check_planned_load(const plan::PlanRequest& request) {
  const Result<graph_build::LoadShape> shape = graph_build::load_shape(request.job, request.machine);
  if (!shape) return bad_input("--imbalance: " + shape.error().message);
  const double most = shape.value().most_load();
  if (shape.value().pads)
    return bad_input(
        fmt::format("--imbalance: rows are padded to the capacity, so every device of this job has {:.4g} "
                    "times the mean; drop it",
                    most));
  if (*request.load >= std::min(1.0, most) && *request.load <= most) return {};
  return bad_input(
      fmt::format("--imbalance: load {} cannot be; the fullest device of this job has 1 to {:.4g} times the "
                  "mean",
                  *request.load, most));
}

Status read_loads(const JobOptions& options, plan::PlanRequest& request, const Console* console) {
  request.load = options.imbalance.load;
  if (request.load && !options.any_layout)
    if (Status s = check_planned_load(request); !s) return s;
  if (!options.imbalance_from.empty()) {
    if (request.load) return bad_input("--imbalance-from: measured counts and one load exclude each other; drop one");
    const Result<std::string> text = formats::read_file(options.imbalance_from, formats::kMostMeasurementBytes);
    if (!text) return text.error();
    const std::int64_t devices = request.job.model.has_experts() ? request.job.parallel.expert_ranks() : 0;
    const Result<formats::MeasuredLoads> loads =
        formats::read_expert_counts(text.value(), options.imbalance_from.string(), request.job.expert_load, devices);
    if (!loads) return loads.error();
    request.job.expert_load = loads.value().spec;
    if (console != nullptr)
      console->note(fmt::format("{}: {}", options.imbalance_from.string(), formats::loads_text(loads.value().fit)));
  }
  if (!options.imbalance.quantile) return {};
  const bool varies = request.job.expert_load.coefficient_of_variation > 0;
  if (!varies && options.imbalance.where_it_varies) return {};
  if (!varies)
    return bad_input(
        "--imbalance: a quantile is of the job's expert_load, whose coefficient_of_variation is 0; give a number such "
        "as "
        "1.2, or --imbalance-from");
  request.job.expert_load.quantile = *options.imbalance.quantile;
  return {};
}

Status read_time_scale(const JobOptions& options, plan::PlanRequest& request) {
  if (options.op_time_scale) request.time_scale = *options.op_time_scale;
  if (!options.layer_ms) return {};
  const Result<double> scale = graph_build::layer_time_scale(
      request.job, request.machine, request.load.value_or(request.job.expert_load.mean), *options.layer_ms * 1e6);
  if (!scale) return scale.error();
  if (!formats::real_range_of("time_scale").holds(scale.value()))
    return bad_input(
        fmt::format("--layer-ms: compute times would be multiplied by {:.3g}; it must be from {:.0e} to "
                    "{:.0e}",
                    scale.value(), formats::kLeastTimeScale, formats::kMostTimeScale));
  request.time_scale = scale.value();
  return {};
}

/// Of `placement: auto`. The placement found is noted on `console`.
Status place_layers(plan::PlanRequest& request, const Console* console) {
  if (!request.job.parallel.auto_placement) return {};
  const Result<search::AutoPlacement> placed = search::place_automatically(request);
  if (!placed) return placed.error();
  if (console != nullptr) console->note("placement: auto: " + search::describe(placed.value()));
  return {};
}

/// `place`: what an error of the search for the file begins with.
Result<Machine> machine_at(const Result<std::filesystem::path>& device, std::string_view place) {
  if (!device) return bad_input(std::string(place) + device.error().message);
  const Result<std::string> text = formats::read_file(device.value(), formats::kMostDescriptionBytes);
  if (!text) return text.error();
  return formats::read_machine(text.value(), device.value().string(), chips_for(device.value()));
}

}  // namespace

Result<Machine> read_device(const std::string& device, const std::filesystem::path& subject) {
  return machine_at(find_device(device, subject), "--device: ");
}

Status refuse_given(const CLI::App& app, const std::vector<std::string>& options, std::string_view why) {
  for (const std::string& option : options)
    if (app.count(option) > 0) return bad_input(fmt::format("{}: {}; drop it", option, why));
  return {};
}

void add_what_if_options(CLI::App& app, JobOptions& options) {
  add_device(app, options.device, "device to plan for instead of the model file's: a name or a file");
  add_word(app, "--policy", options.policy, "policy", policy_names(),
           fmt::format("who decides ({}; default {})", join_words(policy_names()), options.policy));
  add_imbalance(app, "--imbalance", options.imbalance,
                "expert load f that every layer and micro-batch has memory for (rows on a device over the mean), or a "
                "quantile of the job's distribution such as p99; default: the job's own quantile, or where the "
                "expected step is shortest");
  app.add_option(
         "--imbalance-from", options.imbalance_from,
         "measured counts as CSV with the columns step,layer,micro_batch,device,rows; expert in place of device "
         "where experts are counted")
      ->type_name("FILE");
  add_size(app, "--budget", options.budget_bytes,
           "device memory per rank, reserves included; default: what is visible");
  add_size(app, "--host-budget", options.host_budget_bytes,
           "pinned host memory per device; default: the device file's");
  add_ranks(app, "--ranks", options.ranks, "pipeline ranks, such as 0-3,15; default: all");
  add_number(app, "--op-time-scale", options.op_time_scale, kLeastScale, kLargestScale,
             "multiply compute times by this");
  add_number(app, "--layer-ms", options.layer_ms, formats::kLeastLayerMs, formats::kMostLayerMs,
             "scale compute times so that forward and backward of one layer and micro-batch take this many "
             "milliseconds on average");
  add_calibration(app, options);
  app.get_option("--op-time-scale")->excludes(app.get_option("--layer-ms"));
  add_threads(app, options.threads);
  add_format(app, options.format);
}

void add_argument_options(CLI::App& app, JobOptions& options) {
  app.add_option("--megatron-args", options.megatron_args,
                 "instead of the model file: the arguments of a Megatron-LM or MindSpeed-LLM job as its launch script, "
                 "YAML or JSON (docs/formats.md)")
      ->type_name("FILE");
  add_script_options(app, options);
  app.add_flag("--strict", options.strict,
               "with --megatron-args: an argument that is not understood, or lines that are left out, are an error");
  for (const char* name : {"--world-size", "--accelerator", "--strict"}) app.get_option(name)->needs("--megatron-args");
}

const std::vector<std::string>& accelerator_names() {
  static const std::vector<std::string> names = {"a100", "h100", "gb200", "ascend"};
  return names;
}

void add_script_options(CLI::App& app, JobOptions& options) {
  add_count(app, "--world-size", options.world_size, 1, ci::kMostWorldSize,
            "of a framework's job: its devices, where the file does not say");
  add_word(app, "--accelerator", options.accelerator, "accelerator", accelerator_names(),
           "of a framework's job: the generation whose kernels and workspaces count (default: --device's, else what "
           "the file speaks of)");
}

void add_job_options(CLI::App& app, JobOptions& options) {
  app.add_option("MODEL", options.model, "model and layout, YAML (docs/formats.md)")->type_name("FILE");
  add_argument_options(app, options);
  app.get_option("--megatron-args")->excludes(app.get_option("MODEL"));
  add_what_if_options(app, options);
}

const std::filesystem::path& subject_of(const JobOptions& options) {
  return options.megatron_args.empty() ? options.model : options.megatron_args;
}

Result<plan::PlanRequest> read_request(const JobOptions& options, const Console* console) {
  const Result<const plan::Policy*> policy = policy_of(options);
  if (!policy) return policy.error();
  Result<NamedJob> read = options.megatron_args.empty() ? read_model(options) : read_argument_job(options, console);
  if (!read) return read.error();
  plan::PlanRequest request{.job = std::move(read.value().job)};

  const std::filesystem::path& subject = subject_of(options);
  Result<Machine> machine =
      !options.device.empty()
          ? read_device(options.device, subject)
          : machine_at(find_device(request.job.device, subject, subject.parent_path()), read.value().device_place);
  if (!machine) return machine.error();
  request.machine = std::move(machine).value();
  if (Status status = check_device(read.value(), request, subject); !status) return status.error();
  if (!options.any_layout)
    if (Status status = check_mean_load(read.value(), request, subject); !status) return status.error();
  request.policy = policy.value();
  request.budget_bytes = options.budget_bytes;
  request.host_budget_bytes = options.host_budget_bytes;
  request.ranks = options.ranks;
  request.threads = options.threads;
  const std::int32_t ranks = request.job.parallel.pipeline;
  if (!options.ranks.empty() && options.ranks.back() >= ranks)
    return bad_input(fmt::format("--ranks: rank {} does not exist; {} has pipeline ranks 0 to {}", options.ranks.back(),
                                 subject_of(options).string(), ranks - 1));
  if (Status status = read_loads(options, request, console); !status) return status.error();
  if (Status status = read_time_scale(options, request); !status) return status.error();
  if (Status status = apply_calibration(options, request, console); !status) return status.error();
  if (options.places_layers)
    if (Status status = place_layers(request, console); !status) return status.error();
  return request;
}

std::vector<std::filesystem::path> inputs_of(const JobOptions& options) {
  std::vector<std::filesystem::path> inputs = {subject_of(options)};
  if (!options.megatron_args.empty())
    for (std::filesystem::path& file : sourced_by(options.megatron_args)) inputs.push_back(std::move(file));
  if (!options.imbalance_from.empty()) inputs.push_back(options.imbalance_from);
  if (!options.calibration.empty()) inputs.push_back(options.calibration);
  if (!options.device.empty()) inputs.emplace_back(options.device);
  return inputs;
}

namespace {

constexpr double kQuickSeconds = 1;  // of a search: until then its answers are not worth a line each

std::string better_line(const plan::PlanRequest& request, std::int64_t added_ns, std::int64_t bound_ns,
                        double seconds) {
  const std::vector<std::int64_t> costs = cost::op_durations(*request.step->graph, request.machine);
  const double all =
      static_cast<double>(std::max<std::int64_t>(1, std::accumulate(costs.begin(), costs.end(), std::int64_t{0})));
  return fmt::format("better: {:+.3f} %, at least {:+.3f} %, after {:.1f} s", 100 * static_cast<double>(added_ns) / all,
                     100 * static_cast<double>(bound_ns) / all, seconds);
}

}  // namespace

Result<Planned> plan_with_progress(const plan::PlanRequest& request, const std::filesystem::path& input,
                                   const Console& console) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  Progress progress("planning", console.draws_progress());
  const std::size_t ranks =
      request.ranks.empty() ? static_cast<std::size_t>(request.job.parallel.pipeline) : request.ranks.size();
  progress.watch(request.step ? 100 : static_cast<int>(ranks));
  plan::PlanRequest watched = request;
  watched.progress = [&progress](int done, int total) { progress.update(done, total); };
  std::optional<InterruptListener> interrupts;
  if (watched.step) {
    interrupts.emplace();
    watched.step->on_progress = [&progress](double share) { progress.update_share(share); };
    watched.step->should_stop = [asked = request.step->should_stop] {
      return InterruptListener::heard() || (asked && asked());
    };
    watched.step->on_better = [&](std::int64_t added_ns, std::int64_t bound_ns) {
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      if (seconds < kQuickSeconds) return;
      progress.wipe();
      console.note(better_line(request, added_ns, bound_ns, seconds));
    };
  }
  Result<plan::PlanOutcome> outcome = plan::plan_step(watched);
  interrupts.reset();
  if (!outcome) return outcome.error();
  if (const std::string wrong = formats::number_out_of_range(request, outcome.value()); !wrong.empty())
    return bad_input(fmt::format("{}: {}; is a number in it or in the device file far off?", input.string(), wrong));
  return Planned{.outcome = std::move(outcome).value(),
                 .seconds = std::chrono::duration<double>(Clock::now() - begin).count()};
}

}  // namespace tidemark::cli
