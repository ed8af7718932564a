#include "integrations/cli/graph_job.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <set>
#include <utility>
#include <vector>

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
  Result<std::string> text = read_file(job.graph, kMostPlanFileBytes);
  if (!text) return text.error();
  const StepObjective objective = job.objective == "time"     ? StepObjective::time
                                  : job.objective == "energy" ? StepObjective::energy
                                                              : StepObjective::cost;
  return read_op_list(text.value(), job.graph.string(), objective);
}

Status check_options(const GraphJob& job, const std::string& policy, bool has_budget) {
  if (policy != "optimal" && policy != "greedy")
    return bad_input(fmt::format("--policy {}: with --graph it is one of optimal, greedy", policy));
  if (!has_budget && !job.frontier) return bad_input("--graph needs --budget SIZE or --frontier");
  if (!has_budget && !job.schedule_out.empty()) return bad_input("--schedule-out needs --budget SIZE");
  if (!has_budget && job.addresses) return bad_input("--addresses needs --budget SIZE");
  return {};
}

/// What was asked for and no more. A bar is drawn meanwhile, and wiped.
struct GraphAnswer {
  std::optional<remat::StepPlan> plan;
  std::vector<remat::FrontierPoint> frontier;
  double seconds = 0;

  [[nodiscard]] bool fits() const { return !plan || plan->fits(); }
};

GraphAnswer answer(const OpList& list, const GraphJob& job, remat::StepRule rule, std::optional<Bytes> budget_bytes,
                   const Console& console) {
  const auto begin = std::chrono::steady_clock::now();
  Progress progress("planning", console.draws_progress());
  remat::StepPlanner planner(
      list, {.collective = job.group_recompute},
      {.rule = rule, .effort = job.effort.value_or(1), .addresses = job.addresses, .on_progress = [&](double share) {
         progress.update_share(share);
       }});
  GraphAnswer answer;
  // First the frontier: of a budget that is proven too low the answer then names the lowest peak of the frontier, and
  // one search, with one bar, is behind both. Asked the other way round a short look would come before the search.
  if (job.frontier) answer.frontier = planner.frontier();
  if (budget_bytes) answer.plan = planner.within(*budget_bytes);
  answer.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return answer;
}

Status write_outputs(OutputSet& outputs, const GraphJob& job, bool fits, const Console& console) {
  if (!fits) {
    if (!job.schedule_out.empty())
      console.note(fmt::format("{} is not written, since no schedule fits", job.schedule_out.string()));
    return {};
  }
  if (Status status = outputs.write(); !status) return status;
  for (const auto& path : outputs.paths()) console.note(fmt::format("wrote {}", path.string()));
  return {};
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
  if (Status status = check_options(job, policy, budget_bytes.has_value()); !status) return status.error();
  GraphAnswer found;
  OutputSet outputs;
  Status status = outputs.add(job.schedule_out, {job.graph}, [&](std::ostream& stream) -> Status {
    stream << schedule_text(found.plan->schedule);
    return {};
  });
  if (!status) return status.error();
  const Result<OpList> list = read_list(job);
  if (!list) return list.error();

  const remat::StepRule rule = policy == "greedy" ? remat::StepRule::greedy : remat::StepRule::optimal;
  found = answer(list.value(), job, rule, budget_bytes, console);
  if (found.plan && !found.plan->replay.fault.empty())
    return internal_fault(fmt::format("{}: {}", job.graph.string(), found.plan->replay.fault));

  if (status = write_outputs(outputs, job, found.fits(), console); !status) return status.error();
  const StepPlanReport report{.file = job.graph.string(),
                              .list = &list.value(),
                              .plan = found.plan ? &*found.plan : nullptr,
                              .frontier = std::move(found.frontier),
                              .seconds = found.seconds};
  status = console.print(format == Format::json ? step_plan_json(report) : step_plan_text(report));
  if (!status) return status.error();
  return found.fits() ? ExitStatus::done : ExitStatus::answer_is_no;
}

}  // namespace tidemark::cli
