// Question: what does deciding recompute and swap together gain over recompute alone and swap alone?
// Workload: the 718B job as shipped, all 16 ranks, at budgets from what is visible downward. Rules: `optimal`; the same
// search without host memory; the same search without recipes. Times are modelled; the bound is that the joint choice
// is nowhere dearer than either alone where that fits. Deterministic: one run says all.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "bench/job_request.h"
#include "planner/decide/gaps/search.h"
#include "planner/decide/sites/evaluator.h"
#include "planner/decide/sites/gaps.h"
#include "planner/planner.h"
#include "policies/policies.h"

namespace tidemark {
namespace {

using bench::must;

plan::PolicyAnswer recompute_alone(const plan::PolicyRequest& request) {
  const decide::gaps::SearchResult result =
      decide::gaps::search_optimal(request.problem.gaps(), request.problem.evaluator(), request.device_budget_bytes, 0);
  return plan::answer_of(request, result.choice);
}

// Every storage for itself, none with a recipe.
decide::sites::DecisionProblem without_recipes(decide::sites::DecisionProblem problem) {
  for (decide::sites::SiteClass& site_class : problem.classes) {
    site_class.units.assign(site_class.slots.size(), {});
    site_class.unit_order.clear();
    for (std::size_t slot = 0; slot < site_class.slots.size(); ++slot) {
      site_class.units[slot].slots = {static_cast<std::int32_t>(slot)};
      site_class.slots[slot].unit = static_cast<std::int32_t>(slot);
    }
  }
  return problem;
}

plan::PolicyAnswer swap_alone(const plan::PolicyRequest& request) {
  const decide::sites::DecisionProblem problem = without_recipes(request.problem.sites());
  decide::sites::Evaluator evaluator(problem);
  const decide::gaps::SearchResult result = decide::gaps::search_optimal(
      decide::sites::gap_problem_of(problem), evaluator, request.device_budget_bytes, request.host_budget_bytes);
  return plan::answer_of(request, result.choice);
}

plan::PlanOutcome planned(const graph_build::JobSpec& job, const Machine& machine, const plan::Policy& policy,
                          Bytes budget) {
  return must(plan::plan_step({.job = job, .machine = machine, .policy = &policy, .budget_bytes = budget}));
}

// Ranks that fit, the added time of those and of the dearest, the modelled step where all do.
void print_row(Bytes budget, const char* rule, const plan::PlanOutcome& outcome) {
  int fit = 0;
  double sum = 0;
  double most = 0;
  for (const plan::RankPlan& rank : outcome.ranks) {
    if (!rank.figures.fits) continue;
    const double added = 1e-6 * static_cast<double>(rank.figures.added_ns);
    ++fit;
    sum += added;
    most = std::max(most, added);
  }
  const std::string step =
      outcome.fits() ? fmt::format("{:.2f}", 1e-9 * static_cast<double>(outcome.step.step_ns)) : "-";
  fmt::print("{:>10}  {:<16} {:>3} of {:>2} {:>12.1f} {:>12.1f} {:>8}\n", format_bytes(budget), rule, fit,
             outcome.ranks.size(), sum, most, step);
  std::fflush(stdout);
}

// On how many ranks the rule is cheaper than the joint choice, and by how much at most.
std::string dearer(const plan::PlanOutcome& joint, const plan::PlanOutcome& alone) {
  int ranks = 0;
  double most = 0;
  for (std::size_t r = 0; r < joint.ranks.size(); ++r) {
    const plan::RankFigures& ours = joint.ranks[r].figures;
    const plan::RankFigures& other = alone.ranks[r].figures;
    if (!ours.fits || !other.fits || ours.added_ns <= other.added_ns) continue;
    ++ranks;
    most = std::max(most, 1e-6 * static_cast<double>(ours.added_ns - other.added_ns));
  }
  return ranks == 0 ? "nowhere dearer" : fmt::format("dearer on {} ranks, by {:.1f} ms at most", ranks, most);
}

int run() {
  const plan::PlanRequest request =
      bench::job_request(std::string(TIDEMARK_SOURCE_DIR) + "/models/pangu-ultra-moe-718b.yaml");
  const graph_build::JobSpec& job = request.job;
  const Machine& machine = request.machine;
  const plan::Policy recompute{.name = "recompute alone", .help = "", .decide = recompute_alone};
  const plan::Policy swap{.name = "swap alone", .help = "", .decide = swap_alone};
  fmt::print("{:>10}  {:<16} {:>9} {:>12} {:>12} {:>8}\n", "budget", "rule", "fit", "added ms", "dearest ms", "step s");
  for (const Bytes budget : {machine.visible_bytes, 56 * kGiB, 52 * kGiB, 48 * kGiB}) {
    const plan::PlanOutcome joint = planned(job, machine, *policies::find_policy("optimal"), budget);
    const plan::PlanOutcome recomputed = planned(job, machine, recompute, budget);
    const plan::PlanOutcome swapped = planned(job, machine, swap, budget);
    print_row(budget, "recompute alone", recomputed);
    print_row(budget, "swap alone", swapped);
    print_row(budget, "both", joint);
    fmt::print("{:>10}  both against recompute alone: {}; against swap alone: {}\n", "", dearer(joint, recomputed),
               dearer(joint, swapped));
  }
  fmt::print("modelled; added: sum over the ranks that fit, ms a step; step: only where all ranks fit\n");
  return 0;
}

}  // namespace
}  // namespace tidemark

int main() {
  return tidemark::run();
}
