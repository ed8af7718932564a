#include "planner/misfit.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "planner/decide/sites/state_offload.h"
#include "planner/schedule/peak.h"

namespace tidemark::plan {
namespace {

/// Budgets that are enough, each with the other as asked for.
void note_enough(const Heights& enough, const Budgets& budgets, RankFigures& f) {
  const auto lower = [](Bytes known, Bytes now) { return known == 0 ? now : std::min(known, now); };
  if (enough.host <= budgets.host)
    f.smallest_budget_bytes = lower(f.smallest_budget_bytes, enough.device + budgets.reserve);
  if (enough.device <= budgets.device) f.smallest_host_budget_bytes = lower(f.smallest_host_budget_bytes, enough.host);
}

/// What the policy comes to as if host memory were ample, with all state offloaded that can be. One that needs so much
/// host memory may be far from the least.
Result<BuiltPlan> build_with_ample_host(const RankRequest& in, const Budgets& budgets, const RankPlan& plan,
                                        std::vector<StorageId> state) {
  Bytes all = 0;
  for (const Storage& storage : plan.graph.storages) all += storage.bytes;
  Budgets ample = budgets;
  ample.host = 2 * all;                                                  // addresses included
  const Bytes target = budgets.device - budgets.device / kPackingShare;  // for the device's
  const auto problem = make_problem(in, ample, plan, {.storages = std::move(state), .device_budget = target});
  if (Status s = problem->check(); !s) return s.error();
  const PolicyAnswer answer =
      in.request.policy->decide({.problem = *problem, .device_budget_bytes = target, .host_budget_bytes = ample.host});
  return build_plan(*problem, answer, ample, in.request);
}

/// What could be offloaded by the policy at all.
std::vector<StorageId> state_of(const RankRequest& in, const decide::RankProblem& problem) {
  if (!in.request.policy->offloads_state || problem.is_flat()) return {};
  return decide::sites::offloadable_state(problem.graph(), problem.liveness(), problem.nominal());
}

/// What binds on the device where a plan peaks.
std::string name_binding(const RankPlan& plan, const Schedule& schedule) {
  const auto top = contributors_at(plan.graph, schedule, schedule::peak_clock(schedule));
  if (top.empty()) return {};
  return "; " + top.front().name + " binds with " + format_bytes(top.front().bytes) + " (" +
         std::to_string(top.front().count) + " in flight)";
}

/// Whether offloading more state could still help.
std::string name_offloaded(const Graph& graph, const std::vector<StorageId>& state, Bytes offloaded) {
  Bytes all = 0;
  for (const StorageId s : state) all += graph.storages[row(s)].bytes;
  if (all == 0) return {};
  if (offloaded == all) return "; all offloadable state is offloaded already (" + format_bytes(all) + ")";
  return "; " + format_bytes(offloaded) + " of " + format_bytes(all) + " of offloadable state is offloaded";
}

std::string name_misfit(const RankPlan& plan, const Budgets& budgets, const BuiltPlan& built,
                        const std::vector<StorageId>& state) {
  const RankFigures& f = plan.figures;
  const std::string host =
      built.host_height() > budgets.host
          ? "pinned host memory: needs " + format_bytes(f.host_bytes) + " of " + format_bytes(budgets.host)
          : std::string();
  if (built.height() <= budgets.device) return host;
  return "device memory: needs " + format_bytes(f.peak_bytes) + " of " + format_bytes(f.budget_bytes) +
         name_binding(plan, built.schedule) + name_offloaded(plan.graph, state, f.offloaded_bytes) +
         (host.empty() ? "" : "; " + host);
}

/// Whether it is known that nothing fits a captured step's budget.
bool is_proven_misfit(const RankRequest& in, decide::RankProblem& problem, const Budgets& budgets, Bytes least_live) {
  if (least_live > budgets.device) return true;
  return in.request.policy
      ->decide({.problem = problem, .device_budget_bytes = budgets.device, .host_budget_bytes = budgets.host})
      .is_infeasible;
}

}  // namespace

Status explain_misfit(const RankRequest& in, decide::RankProblem& problem, const Budgets& budgets,
                      const BuiltPlan& built, const std::vector<Heights>& enough, RankPlan& plan) {
  RankFigures& f = plan.figures;
  Bytes host_used = built.host_height();
  for (const Heights& heights : enough) {
    note_enough(heights, budgets, f);
    host_used = std::max(host_used, heights.host);
  }
  std::vector<StorageId> state = state_of(in, problem);
  f.reason = name_misfit(plan, budgets, built, state);
  if (problem.is_flat()) {
    f.misfit_is_proven = is_proven_misfit(in, problem, budgets, f.least_live_bytes);
    return {};
  }
  if (in.request.policy->is_fixed || in.request.is_brief) return {};
  // A search more, where host memory may be what is short.
  if (f.smallest_host_budget_bytes > 0 || 2 * host_used < budgets.host) return {};
  const Result<BuiltPlan> ample = build_with_ample_host(in, budgets, plan, std::move(state));
  if (!ample) return ample.error();
  if (ample.value().host_height() > budgets.host)
    note_enough({.device = ample.value().height(), .host = ample.value().host_height()}, budgets, f);
  return {};
}

}  // namespace tidemark::plan
