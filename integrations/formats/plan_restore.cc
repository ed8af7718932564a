#include "integrations/formats/plan_restore.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/fingerprint.h"
#include "core/verify.h"
#include "integrations/formats/rank_words.h"
#include "integrations/formats/shown.h"
#include "planner/any_load.h"
#include "planner/graph_build/liveness.h"
#include "planner/graph_build/step_graph.h"
#include "policies/policies.h"

namespace tidemark::formats {
namespace {

/// The first task that runs an op which the graph does not have, or none: what derives decisions takes ops as given.
const Task* find_strange_op(const Graph& graph, const Schedule& schedule) {
  const auto strange = std::ranges::find_if(schedule.tasks, [&](const Task& task) {
    const auto op = static_cast<std::int64_t>(task.op);
    return task.kind == TaskKind::op && (op < 0 || op >= std::ssize(graph.ops));
  });
  return strange == schedule.tasks.end() ? nullptr : &*strange;
}

Result<plan::RankPlan> restore_rank(const PlanFile& file, const PlanFile::Rank& rank, std::string_view file_name) {
  Result<Graph> graph = file.graph != nullptr ? Result<Graph>(*file.graph)
                                              : graph_build::build_step_graph(file.job, file.machine, rank.figures.rank,
                                                                              rank.figures.load);
  if (!graph) return graph.error();
  if (fingerprint(graph.value()) != rank.program.graph_fingerprint)
    return bad_input(
        fmt::format("{}: rank {} was planned for another step than this version of Tidemark builds; plan again",
                    file_name, rank.figures.rank));
  if (outline_of(graph.value()) != rank.outline)
    return bad_input(
        fmt::format("{}: names, sites or loads of rank {} are not those of its job; was the file edited? plan again",
                    file_name, rank.figures.rank));
  if (const Task* task = find_strange_op(graph.value(), rank.program.schedule); task != nullptr)
    return bad_input(
        fmt::format("{}: task {} of rank {} runs op {}, and its step has {} ops; was the file edited? plan again",
                    file_name, task - rank.program.schedule.tasks.data(), rank.figures.rank,
                    static_cast<std::int64_t>(task->op), graph.value().ops.size()));
  plan::RankPlan plan{.graph = std::move(graph).value()};
  plan.decisions = decisions_of(plan.graph, rank.program.schedule);
  if (plan.decisions != rank.decisions)
    return bad_input(
        fmt::format("{}: the decisions of rank {} are not what its program does; was the file edited? plan again",
                    file_name, rank.figures.rank));
  plan.liveness = graph_build::analyse_liveness(plan.graph);
  plan.program = rank.program;
  plan.task_ns = rank.program.estimate_ns;
  plan.figures = rank.figures;
  plan.attempts = rank.attempts;
  return plan;
}

std::string held_ranks_text(const PlanFile& file) {
  std::vector<std::int32_t> ranks;
  for (const PlanFile::Rank& rank : file.ranks) ranks.push_back(rank.figures.rank);
  return ranks_text(ranks);
}

std::string known_policies_text() {
  std::vector<std::string_view> names;
  for (const plan::Policy& policy : policies::policies()) names.push_back(policy.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

plan::PlanRequest request_of(const PlanFile& file) {
  plan::PlanRequest request{.job = file.job,
                            .machine = file.machine,
                            .policy = policies::find_policy(file.policy),
                            .budget_bytes = file.budget_bytes,
                            .host_budget_bytes = file.host_budget_bytes,
                            .load = file.load,
                            .time_scale = file.time_scale};
  if (file.graph != nullptr)
    request.step = plan::GivenStep{.name = file.step_name, .framework = file.framework, .graph = file.graph};
  for (const PlanFile::Rank& rank : file.ranks) request.ranks.push_back(rank.figures.rank);
  return request;
}

Result<plan::PlanOutcome> restore_outcome(const PlanFile& file, const std::vector<std::int32_t>& ranks,
                                          std::string_view file_name) {
  if (policies::find_policy(file.policy) == nullptr)
    return bad_input(fmt::format("{}: policy {} is not known; it is one of {}", file_name, shown(file.policy),
                                 known_policies_text()));
  plan::PlanOutcome outcome{.step = file.step, .parameters = file.parameters};
  const auto wanted = [&](std::int32_t rank) { return ranks.empty() || std::ranges::find(ranks, rank) != ranks.end(); };
  for (const std::int32_t rank : ranks)
    if (std::ranges::find(file.ranks, rank, [](const PlanFile::Rank& r) { return r.figures.rank; }) == file.ranks.end())
      return bad_input(
          fmt::format("{}: rank {} is not in this plan; it holds {}", file_name, rank, held_ranks_text(file)));
  for (const PlanFile::Rank& rank : file.ranks) {
    if (!wanted(rank.figures.rank)) continue;
    Result<plan::RankPlan> plan = restore_rank(file, rank, file_name);
    if (!plan) return plan.error();
    outcome.ranks.push_back(std::move(plan).value());
  }
  return outcome;
}

std::optional<std::string> find_fault(const plan::PlanRequest& request, const plan::RankPlan& rank) {
  if (std::optional<Violation> violation = verify_program(rank.graph, rank.program))
    return std::move(violation->detail);
  const double said = rank.figures.worst_load_f, is = plan::any_load(request, rank).worst_load_f;
  if (said == is) return std::nullopt;
  return fmt::format("worst_load_f is {} where its program has {}", said, is);
}

}  // namespace tidemark::formats
