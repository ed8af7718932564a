// Schedules of simpler rules exchanged between ranks: against all combinations of them, and as the planner uses it.

#include "planner/step_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <utility>

#include "planner/cost/op_prices.h"
#include "planner/graph_build/step_graph.h"
#include "planner/rank_planner.h"
#include "planner/schedule/scheduler.h"
#include "policies/policies.h"
#include "tests/support/pangu.h"
#include "tests/support/random_job.h"
#include "tests/support/sanitized.h"

namespace tidemark::plan {
namespace {

struct OfferedStep {
  simulate::StepTiming nominal;
  std::vector<RankPlan> plans;                                        ///< empty: a rank does not fit
  std::vector<std::vector<std::pair<const Rule*, Schedule>>> offers;  ///< by rank
};

/// All ranks of a job by the default policy, with what simpler rules offer.
OfferedStep planned_with_offers(const PlanRequest& request) {
  std::vector<Graph> graphs;
  std::vector<std::vector<std::int64_t>> op_ns;
  std::vector<simulate::RankWork> work;
  for (std::int32_t rank = 0; rank < request.job.parallel.pipeline; ++rank) {
    graphs.push_back(graph_build::build_step_graph(request.job, request.machine, rank, *request.load).value());
    op_ns.push_back(cost::op_durations(graphs.back(), request.machine, 1));
    work.push_back(simulate::work_of(graphs.back(), op_ns.back()));
  }
  OfferedStep step{.nominal = simulate::simulate_step(work).value(), .plans = {}, .offers = {}};
  for (std::size_t r = 0; r < graphs.size(); ++r) {
    const RankRequest rank{.request = request,
                           .nominal = step.nominal.ranks[r],
                           .op_ns = op_ns[r],
                           .load = *request.load,
                           .wants_offers = true};
    step.plans.push_back(plan_rank(std::move(graphs[r]), rank).value());
    const RankPlan& plan = step.plans.back();
    if (!plan.figures.fits) return {};
    step.offers.emplace_back();
    for (const Offer& offer : plan.offers)
      step.offers.back().emplace_back(
          offer.rule,
          schedule::build_schedule(
              {.graph = plan.graph, .liveness = plan.liveness, .nominal = step.nominal.ranks[r], .plan = offer.plan})
              .value());
  }
  return step;
}

/// A rank's schedule by a rule; its own where there is none.
const Schedule* schedule_by(const OfferedStep& step, std::size_t rank, const Rule* rule) {
  for (const auto& [by, schedule] : step.offers[rank])
    if (by == rule) return &schedule;
  return &step.plans[rank].program.schedule;
}

std::int64_t step_ns(const PlanRequest& request, const std::vector<RankPlan>& plans,
                     const std::vector<const Schedule*>& schedules) {
  std::vector<simulate::RankWork> work;
  for (std::size_t r = 0; r < plans.size(); ++r) {
    const auto estimates = schedule::task_durations(plans[r].graph, *schedules[r], request.machine, 1);
    work.push_back(
        simulate::work_of(plans[r].graph, *schedules[r],
                          schedule::charged_durations(plans[r].graph, *schedules[r], request.machine, estimates)));
  }
  return simulate::simulate_step(work).value().step_ns;
}

/// The shortest step of all combinations.
std::int64_t shortest(const PlanRequest& request, const OfferedStep& step, std::vector<const Schedule*>& chosen) {
  if (chosen.size() == step.plans.size()) return step_ns(request, step.plans, chosen);
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  std::vector<const Schedule*> options = {schedule_by(step, chosen.size(), nullptr)};
  for (const auto& [rule, schedule] : step.offers[chosen.size()]) options.push_back(&schedule);
  for (const Schedule* option : options) {
    chosen.push_back(option);
    best = std::min(best, shortest(request, step, chosen));
    chosen.pop_back();
  }
  return best;
}

/// A small job of several ranks, under a budget that takes `percent` of what everything kept takes above the static
/// storages.
PlanRequest tight_request(testing::JobGenerator& jobs, std::mt19937& random) {
  graph_build::JobSpec job = jobs.next();
  while (job.parallel.pipeline < 2) job = jobs.next();
  PlanRequest request{.job = job,
                      .machine = testing::ascend_910b(),
                      .policy = policies::find_policy("keep-all"),
                      .host_budget_bytes = random() % 2 == 0 ? 0 : 64 * kGiB,
                      .load = 1.0};
  const PlanOutcome kept = plan_step(request).value();
  Bytes peak = 0, least = 0;
  for (const RankPlan& rank : kept.ranks) {
    peak = std::max(peak, rank.figures.peak_bytes);
    least = std::max(least, rank.figures.reserve_bytes + rank.figures.static_bytes);
  }
  request.policy = policies::find_policy("optimal");
  request.budget_bytes = least + (peak - least) * static_cast<Bytes>(50 + random() % 40) / 100;
  return request;
}

TEST(StepChoice, IsAsShortAsAnyRuleByItselfAndNearTheShortestOfAllCombinations) {
  testing::JobGenerator jobs(41);
  std::mt19937 random(41);
  int several = 0;
  double regret = 0;
  for (int round = 0; round < testing::cases(24); ++round) {
    const PlanRequest request = tight_request(jobs, random);
    const OfferedStep step = planned_with_offers(request);
    if (std::ranges::all_of(step.plans, [](const RankPlan& p) { return p.offers.empty(); })) continue;
    const StepChoice choice = choose_schedules(request, step.plans, step.nominal).value();
    const auto by = [&](const std::function<const Rule*(std::size_t)>& rule) {
      std::vector<const Schedule*> schedules;
      for (std::size_t r = 0; r < step.plans.size(); ++r) schedules.push_back(schedule_by(step, r, rule(r)));
      return step_ns(request, step.plans, schedules);
    };
    EXPECT_EQ(choice.own_step_ns, by([](std::size_t) { return nullptr; }));
    EXPECT_EQ(choice.own_step_ns, played_step_ns(request, step.plans).value());
    EXPECT_EQ(choice.step_ns, by([&](std::size_t r) { return choice.rules[r]; }));
    EXPECT_LE(choice.step_ns, choice.own_step_ns);
    for (const Rule& rule : request.policy->fallbacks)
      EXPECT_LE(choice.step_ns, by([&](std::size_t) { return &rule; })) << rule.name;
    std::vector<const Schedule*> tried;
    const std::int64_t best = shortest(request, step, tried);
    EXPECT_GE(choice.step_ns, best);
    regret = std::max(regret, static_cast<double>(choice.step_ns - best) / static_cast<double>(best));
    ++several;
  }
  RecordProperty("regret_ppm", static_cast<int>(1e6 * regret));
  EXPECT_GT(several, testing::kSanitized ? 0 : 4);
  EXPECT_LE(regret, 0.01);
}

TEST(StepChoice, TheDefaultIsNeverSlowerThanASimplerRuleAtOneLoad) {
  testing::JobGenerator jobs(42);
  std::mt19937 random(42);
  int compared = 0;
  for (int round = 0; round < testing::cases(40); ++round) {
    PlanRequest request = tight_request(jobs, random);
    const PlanOutcome optimal = plan_step(request).value();
    for (const RankPlan& rank : optimal.ranks) EXPECT_TRUE(rank.offers.empty());
    // As `search` plans a layout that it does not give up.
    PlanRequest trial = request;
    trial.trial = Trial{.first = {0}};
    if (const PlanOutcome tried = plan_step(trial).value(); tried.is_whole) {
      EXPECT_EQ(tried.step.step_ns, optimal.step.step_ns) << round;
    }
    for (const char* rule : {"greedy", "full-recompute"}) {
      request.policy = policies::find_policy(rule);
      const PlanOutcome simpler = plan_step(request).value();
      if (!simpler.fits()) continue;
      ASSERT_TRUE(optimal.fits()) << rule << ", round " << round;
      EXPECT_LE(optimal.step.step_ns, simpler.step.step_ns) << rule << ", round " << round;
      ++compared;
    }
  }
  EXPECT_GT(compared, testing::kSanitized ? 2 : 20);
}

}  // namespace
}  // namespace tidemark::plan
