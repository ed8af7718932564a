// Settings of frameworks as policies: the same plans as rules that say the same otherwise, and a search that is never
// worse than what it starts from.

#include "planner/search/setting_search.h"

#include <gtest/gtest.h>

#include "policies/policies.h"
#include "tests/support/random_job.h"
#include "tests/support/sanitized.h"

namespace tidemark::search {
namespace {

plan::PlanRequest request_for(const graph_build::JobSpec& job, const plan::Policy* policy) {
  return {.job = job, .machine = testing::ascend_910b(), .policy = policy, .load = 1.0};
}

Bytes largest_peak(const plan::PlanOutcome& outcome) {
  Bytes peak = 0;
  for (const plan::RankPlan& rank : outcome.ranks) peak = std::max(peak, rank.figures.peak_bytes);
  return peak;
}

plan::PlanOutcome planned(const plan::PlanRequest& request) {
  auto outcome = plan::plan_step(request);
  EXPECT_TRUE(outcome.ok()) << (outcome.ok() ? "" : outcome.error().message);
  return std::move(outcome).value();
}

TEST(PlacedAction, WholeLayersEverywhereAreFullRecompute) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  testing::JobGenerator random(21);
  const std::vector<PlacedAction> rules = {{.action = Action::recompute}};
  const plan::Policy settings = policy_of("settings", rules);
  for (int i = 0; i < 10; ++i) {
    const graph_build::JobSpec job = random.next();
    const plan::PlanOutcome one = planned(request_for(job, &settings));
    const plan::PlanOutcome other = planned(request_for(job, policies::find_policy("full-recompute")));
    ASSERT_EQ(one.ranks.size(), other.ranks.size());
    for (std::size_t r = 0; r < one.ranks.size(); ++r)
      EXPECT_EQ(one.ranks[r].decisions, other.ranks[r].decisions) << "job " << i << ", rank " << r;
    EXPECT_EQ(one.step, other.step);
  }
}

TEST(PlacedAction, TheFirstRuleOfALayerDecides) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  testing::JobGenerator random(22);
  for (int i = 0; i < 10; ++i) {
    const graph_build::JobSpec job = random.next();
    const std::vector<PlacedAction> rules = {
        {.storage = "layer.x1", .action = Action::recompute, .layers = {0}},
        {.storage = "layer.x1", .action = Action::swap},
        {.storage = "layer.nothing", .action = Action::swap},
    };
    const plan::Policy settings = policy_of("settings", rules);
    for (const plan::RankPlan& rank : planned(request_for(job, &settings)).ranks)
      for (const Decision& decision : rank.decisions.rows) {
        EXPECT_EQ(rank.graph.storage_templates[row(decision.key.storage_template)].name, "x1");
        EXPECT_EQ(decision.action, decision.key.layer == 0 ? Action::recompute : Action::swap);
        EXPECT_TRUE(decision.exceptions.empty());
      }
  }
}

/// Whole layers or single storages, which exclude each other; one needs another.
std::vector<Setting> some_settings() {
  const auto on = [](std::vector<PlacedAction> rules) { return Setting{.rules = {{}, std::move(rules)}}; };
  std::vector<Setting> settings = {on({{.action = Action::recompute}}),
                                   on({{.storage = "input_norm.y1", .action = Action::recompute},
                                       {.storage = "mlp_norm.y2", .action = Action::recompute}}),
                                   on({{.storage = "mlp.act_out", .action = Action::recompute},
                                       {.storage = "mlp.experts.act_out", .action = Action::recompute}}),
                                   on({{.storage = "layer.x", .action = Action::swap}}),
                                   on({{.storage = "layer.x1", .action = Action::swap}})};
  settings[4].needs = {3};
  for (std::int32_t s = 1; s < 5; ++s) {
    settings[0].excludes.push_back(s);
    settings[static_cast<std::size_t>(s)].excludes.push_back(0);
  }
  return settings;
}

TEST(SettingSearch, FitsWhereAnythingDoesAndKeepsWithinItsRules) {
  testing::JobGenerator random(23);
  const std::vector<Setting> settings = some_settings();
  int decided = 0, refused = 0;
  for (int i = 0; i < (testing::kThreadsOnly ? 2 : 15); ++i) {
    const graph_build::JobSpec job = random.next();
    plan::PlanRequest request = request_for(job, policies::find_policy("keep-all"));
    const Bytes most = largest_peak(planned(request));
    request.policy = policies::find_policy("full-recompute");
    const Bytes least = largest_peak(planned(request));
    // Between the two something has to be done, which single storages do for little; below both nothing helps.
    request.budget_bytes = i % 5 == 3 ? least / 2 : i % 5 == 4 ? most - (most - least) / 8 : (most + least) / 2;
    const plan::PlanOutcome full = planned(request);
    for (std::int32_t rank = 0; rank < job.parallel.pipeline; ++rank) request.ranks.push_back(rank);
    const std::vector<double> loads(static_cast<std::size_t>(job.parallel.pipeline), 1.0);
    const auto found = search_settings({.request = request,
                                        .loads = loads,
                                        .settings = settings,
                                        .starts = {{0, 0, 0, 0, 0}, {1, 0, 0, 0, 0}, {0, 1, 1, 1, 1}}});
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_TRUE(are_consistent(settings, found.value().values));
    const std::vector<PlacedAction> rules = rules_of(settings, found.value().values);
    const plan::Policy policy = policy_of("settings", rules);
    request.policy = &policy;
    EXPECT_EQ(planned(request).step, found.value().outcome.step) << "not the planner's own figures";
    EXPECT_TRUE(found.value().outcome.fits() || !full.fits()) << "job " << i;
    if (full.fits() && found.value().values[0] == 0) ++decided;
    if (!found.value().outcome.fits()) ++refused;
  }
  if (testing::kThreadsOnly) return;  // too few to meet every case
  EXPECT_GT(decided, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace tidemark::search
