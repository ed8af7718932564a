// What all ranks do together, before any decides: against the simulated step and what a rank may do.

#include "planner/step_relaxation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "planner/built_plan.h"
#include "planner/cost/op_prices.h"
#include "planner/graph_build/liveness.h"
#include "planner/graph_build/step_graph.h"
#include "policies/policies.h"
#include "tests/support/pangu.h"
#include "tests/support/random_job.h"
#include "tests/support/sanitized.h"

namespace tidemark::plan {
namespace {

/// All ranks of a job with everything kept, and the problem of each.
struct Step {
  PlanRequest request;
  std::vector<Graph> graphs;
  std::vector<std::vector<std::int64_t>> op_ns;
  std::vector<simulate::RankWork> works;
  simulate::StepTiming timing;
  std::vector<PreparedRank> ranks;

  static std::unique_ptr<Step> of(const graph_build::JobSpec& job) {
    auto step = std::make_unique<Step>();
    step->request.job = job;
    step->request.machine = testing::ascend_910b();
    step->request.policy = policies::find_policy("optimal");
    for (std::int32_t rank = 0; rank < job.parallel.pipeline; ++rank) {
      step->graphs.push_back(graph_build::build_step_graph(job, step->request.machine, rank, 1).value());
      step->op_ns.push_back(cost::op_durations(step->graphs.back(), step->request.machine, 1));
      step->works.push_back(simulate::work_of(step->graphs.back(), step->op_ns.back()));
    }
    step->timing = simulate::simulate_step(step->works).value();
    for (std::size_t r = 0; r < step->graphs.size(); ++r) {
      const RankRequest of_rank{
          .request = step->request, .nominal = step->timing.ranks[r], .op_ns = step->op_ns[r], .weights = {}};
      step->ranks.push_back(prepare_rank(step->graphs[r], of_rank).value());
    }
    return step;
  }

  /// At so much of what each rank holds with everything kept beyond what persists.
  [[nodiscard]] StepRelaxation relax(double share) const {
    std::vector<RelaxedRank> relaxed;
    for (const PreparedRank& rank : ranks) {
      decide::RankProblem& problem = *rank.problem;
      const auto held = static_cast<double>(problem.keep_all_peak_bytes() - problem.persistent_bytes());
      relaxed.push_back({.problem = &problem,
                         .device_budget = problem.persistent_bytes() + static_cast<Bytes>(share * held),
                         .host_budget = Bytes{1} << 36});
    }
    return relax_step(works, relaxed, false);
  }
};

TEST(StepRelaxation, WithRoomForAllNothingIsGivenUp) {
  testing::JobGenerator random(41);
  for (int i = 0; i < testing::cases(4); ++i) {
    const std::unique_ptr<Step> step = Step::of(random.next());
    const StepRelaxation relaxed = step->relax(1);
    EXPECT_EQ(relaxed.added_ns, 0);
    for (const decide::gaps::SearchStart& start : relaxed.starts)
      EXPECT_TRUE(std::ranges::all_of(start.choice, [](Action a) { return a == Action::keep; }));
  }
}

/// Units are recomputed whole, what has no recipe is not, and weights are parts of paths.
TEST(StepRelaxation, StartsAreChoices) {
  testing::JobGenerator random(42);
  int given_up = 0;
  for (int i = 0; i < testing::cases(8); ++i) {
    const std::unique_ptr<Step> step = Step::of(random.next());
    const StepRelaxation relaxed = step->relax(0.7);
    EXPECT_GE(relaxed.added_ns, 0);
    ASSERT_EQ(relaxed.starts.size(), step->ranks.size());
    for (std::size_t r = 0; r < step->ranks.size(); ++r) {
      for (const float weight : relaxed.weights[r]) {
        EXPECT_GE(weight, 0);
        EXPECT_LE(weight, 1.0001F);
      }
      const decide::gaps::GapProblem& gaps = step->ranks[r].problem->gaps();
      const decide::gaps::Choice& choice = relaxed.starts[r].choice;
      ASSERT_EQ(choice.size(), gaps.gaps.size());
      given_up += static_cast<int>(std::ranges::count_if(choice, [](Action a) { return a != Action::keep; }));
      for (const decide::gaps::GapProblem::Unit& unit : gaps.units) {
        const auto recomputed = std::ranges::count_if(gaps.gaps_of(unit), [&](std::int32_t g) {
          return choice[static_cast<std::size_t>(g)] == Action::recompute;
        });
        EXPECT_TRUE(recomputed == 0 || (recomputed == unit.count && unit.recompute_cost >= 0));
      }
    }
  }
  EXPECT_GT(given_up, 0);
}

/// Prices for all that is added prove a bound, at any budget: never above what giving up all adds.
TEST(StepRelaxation, PricesProveBounds) {
  testing::JobGenerator random(43);
  for (int i = 0; i < testing::cases(6); ++i) {
    const std::unique_ptr<Step> step = Step::of(random.next());
    const StepRelaxation relaxed = step->relax(0.8);
    for (std::size_t r = 0; r < step->ranks.size(); ++r) {
      decide::RankProblem& problem = *step->ranks[r].problem;
      const decide::gaps::GapProblem full = decide::sites::at_full_cost(problem.gaps());
      const decide::gaps::Choice all = decide::gaps::recompute_all(problem.gaps());
      const decide::sites::Evaluation cost = problem.evaluator().evaluate(all);
      EXPECT_LE(decide::gaps::bound_of(full, cost.peak_bytes, Bytes{1} << 36, relaxed.starts[r].full_prices),
                static_cast<double>(cost.added_ns()) + 1);
    }
  }
}

TEST(StepRelaxation, IsTheSameEveryTime) {
  testing::JobGenerator random(44);
  const std::unique_ptr<Step> step = Step::of(random.next());
  const StepRelaxation once = step->relax(0.7), again = step->relax(0.7);
  EXPECT_EQ(once.added_ns, again.added_ns);
  EXPECT_EQ(once.weights, again.weights);
  for (std::size_t r = 0; r < once.starts.size(); ++r) EXPECT_EQ(once.starts[r].choice, again.starts[r].choice);
}

}  // namespace
}  // namespace tidemark::plan
