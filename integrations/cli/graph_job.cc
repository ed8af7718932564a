#include "integrations/cli/graph_job.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <set>

#include "integrations/cli/console.h"
#include "integrations/cli/job_request.h"
#include "integrations/cli/output_set.h"
#include "integrations/cli/progress.h"
#include "integrations/formats/file.h"
#include "integrations/formats/import_op_list.h"
#include "integrations/formats/step_plan_report.h"
#include "planner/remat/plan.h"

namespace tidemark::cli {
namespace {

constexpr double kMostEffort = 10'000;
/// Options of `plan` that --graph goes with, besides its own.
const std::set<std::string> kWithGraph = {
    "--help",         "--quiet",    "--graph",           "--budget",    "--threads", "--format", "--objective",
    "--schedule-out", "--frontier", "--group-recompute", "--addresses", "--effort",  "--policy"};

Result<OpList> read_list(const GraphJob& job) {
  Result<std::string> text = read_file(job.graph);
  if (!text) return text.error();
  const StepObjective objective = job.objective == "time"     ? StepObjective::time
                                  : job.objective == "energy" ? StepObjective::energy
                                                              : StepObjective::cost;
  return read_op_list(text.value(), job.graph.string(), objective);
}

}  // namespace

void add_graph_options(CLI::App& app, GraphJob& job) {
  add_file(app, "--graph", job.graph, "a step from elsewhere in place of MODEL: .graph, .swapgraph or JSON");
  add_word(app, "--objective", job.objective, "objective", {"cost", "time", "energy"},
           "with --graph: what is to be least (cost, time, energy; default: what the file's costs are)");
  add_file(app, "--schedule-out", job.schedule_out, "with --graph: write the execution order, one op a line");
  app.add_flag("--frontier", job.frontier, "what other budgets would cost");
  app.add_flag("--group-recompute", job.group_recompute,
               "with --graph: collectives may run again, since every device of a group follows the same schedule");
  app.add_flag("--addresses", job.addresses, "with --graph: addresses fit the budget, not only the bytes resident");
  add_positive(app, "--effort", job.effort, kMostEffort,
               "with --graph: work for searching, counted, not timed (default 1)");
  for (const char* name : {"--objective", "--schedule-out", "--group-recompute", "--addresses", "--effort"})
    app.get_option(name)->needs("--graph");
  // What describes a job of our own says nothing about a step from elsewhere.
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (!kWithGraph.contains(name)) app.get_option("--graph")->excludes(app.get_option(name));
  }
}

Result<ExitStatus> run_graph_job(const GraphJob& job, const std::string& policy, std::optional<Bytes> budget_bytes,
                                 Format format, Console& console) {
  if (policy != "optimal" && policy != "greedy")
    return bad_input(fmt::format("--policy {}: with --graph it is one of optimal, greedy", policy));
  if (!budget_bytes && !job.frontier) return bad_input("--graph needs --budget SIZE or --frontier");
  if (!budget_bytes && !job.schedule_out.empty()) return bad_input("--schedule-out needs --budget SIZE");
  if (!budget_bytes && job.addresses) return bad_input("--addresses needs --budget SIZE");
  remat::StepPlan plan;
  OutputSet outputs;
  Status status = outputs.add(job.schedule_out, {job.graph}, [&](std::ostream& stream) -> Status {
    stream << schedule_text(plan.schedule);
    return {};
  });
  if (!status) return status.error();
  const Result<OpList> list = read_list(job);
  if (!list) return list.error();

  const auto begin = std::chrono::steady_clock::now();
  const RecomputeRules rules{.collective = job.group_recompute};
  std::optional<Progress> progress(std::in_place, "planning", console.draws_progress());
  const remat::PlanLimits limits{.rule = policy == "greedy" ? remat::StepRule::greedy : remat::StepRule::optimal,
                                 .effort = job.effort.value_or(1),
                                 .addresses = job.addresses,
                                 .on_progress = [&](double share) { progress->update_share(share); }};
  StepPlanReport report{.file = job.graph.string(), .list = &list.value()};
  remat::StepPlanner planner(list.value(), rules, limits);
  if (budget_bytes) {
    plan = planner.within(*budget_bytes);
    if (!plan.replay.fault.empty()) return internal_fault(fmt::format("{}: {}", report.file, plan.replay.fault));
    report.plan = &plan;
  }
  if (job.frontier) report.frontier = planner.frontier();
  progress.reset();  // wiped before anything is printed
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  const bool fits = !budget_bytes || plan.fits();
  if (fits) {
    if (status = outputs.write(); !status) return status.error();
    for (const auto& path : outputs.paths()) console.note(fmt::format("wrote {}", path.string()));
  } else if (!job.schedule_out.empty()) {
    console.note(fmt::format("{} is not written, since no schedule fits", job.schedule_out.string()));
  }
  status = console.print(format == Format::json ? step_plan_json(report) : step_plan_text(report));
  if (!status) return status.error();
  return fits ? ExitStatus::done : ExitStatus::answer_is_no;
}

}  // namespace tidemark::cli
