#include "integrations/cli/graph_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <utility>

#include "integrations/formats/field_ranges.h"
#include "integrations/formats/file.h"
#include "integrations/formats/file_kind.h"
#include "integrations/formats/import_captured_step.h"
#include "integrations/formats/utf8.h"
#include "planner/graph_build/given_machine.h"
#include "policies/policies.h"

namespace tidemark::cli {
namespace {

constexpr double kMostEffort = 10'000;
constexpr double kMostSeconds = 1e9;
/// Options of `plan` that say something of a captured step.
const std::set<std::string> kWithGraph = {
    "--help",   "--quiet",  "--graph",        "--budget",   "--host-budget",     "--device", "--threads",
    "--format", "--policy", "--schedule-out", "--frontier", "--group-recompute", "--effort", "--objective",
    "--out",    "--report", "--trace",        "--compare",  "--time-limit"};

Result<formats::CapturedStep> read_step(const GraphJob& job) {
  Result<std::string> text = formats::read_file(job.graph, formats::kMostPlanFileBytes);
  if (!text) return text.error();
  const formats::StepObjective objective = job.objective == "time"     ? formats::StepObjective::time
                                           : job.objective == "energy" ? formats::StepObjective::energy
                                                                       : formats::StepObjective::cost;
  Result<formats::CapturedStep> step = formats::read_captured_step(text.value(), job.graph.string(), objective);
  if (!step) return formats::explain_kind(step.error(), job.graph, formats::FileKind::captured_step);
  return step;
}

Status check_options(const GraphJob& job, const JobOptions& options) {
  const bool has_budget = options.budget_bytes || !options.device.empty();
  if (!has_budget && !job.frontier) return bad_input("--graph needs --budget SIZE, --device or --frontier");
  if (!has_budget && !job.schedule_out.empty()) return bad_input("--schedule-out needs --budget SIZE");
  return {};
}

}  // namespace

void add_graph_options(CLI::App& app, GraphJob& job) {
  add_file(app, "--graph", job.graph, "a captured step in place of MODEL: .graph, .swapgraph or JSON");
  add_word(app, "--objective", job.objective, "objective", {"cost", "time", "energy"},
           "with --graph: what is to be least (cost, time, energy; default: what the file's costs are)");
  add_file(app, "--schedule-out", job.schedule_out, "with --graph: write the execution order, one op a line");
  app.add_flag("--frontier", job.frontier, "what other budgets would cost");
  app.add_flag("--group-recompute", job.group_recompute,
               "with --graph: collectives may be recomputed, since every device of a group follows the same plan");
  add_positive(app, "--effort", job.effort, kMostEffort,
               "with --graph: work for searching, counted, not timed (default 1)");
  add_positive(app, "--time-limit", job.time_limit, kMostSeconds,
               "with --graph: seconds of searching, then the best plan found by then; what that is depends on the "
               "machine's speed");
  for (const char* name : {"--objective", "--schedule-out", "--group-recompute", "--effort", "--time-limit"})
    app.get_option(name)->needs("--graph");
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (!kWithGraph.contains(name)) app.get_option("--graph")->excludes(app.get_option(name));
  }
}

Result<plan::PlanRequest> read_graph_request(const GraphJob& job, const JobOptions& options) {
  if (Status status = check_options(job, options); !status) return status.error();
  Result<formats::CapturedStep> step = read_step(job);
  if (!step) return step.error();
  plan::PlanRequest request;
  request.machine =
      graph_build::given_machine(std::min(step.value().host_bytes, formats::kMostPlanBytes), formats::kMostPlanBytes);
  if (!options.device.empty()) {
    Result<Machine> machine = read_device(options.device, job.graph);
    if (!machine) return machine.error();
    request.machine = std::move(machine).value();
  }
  const std::string name =
      step.value().name.empty() ? formats::utf8_text(job.graph.stem().native()) : step.value().name;
  request.step = plan::GivenStep{.name = name,
                                 .framework = std::move(step.value().framework),
                                 .graph = std::make_shared<const Graph>(std::move(step.value().graph)),
                                 .rules = {.collective = job.group_recompute},
                                 .effort = job.effort.value_or(1),
                                 .frontier = job.frontier};
  if (job.time_limit) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(*job.time_limit);
    request.step->should_stop = [end] { return std::chrono::steady_clock::now() >= end; };
  }
  request.policy = policies::find_policy(options.policy);
  request.budget_bytes = options.budget_bytes;
  request.host_budget_bytes = options.host_budget_bytes;
  request.threads = options.threads;
  return request;
}

}  // namespace tidemark::cli
