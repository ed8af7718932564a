#include "planner/decide/gaps/search.h"

#include <gtest/gtest.h>

#include <functional>

#include "planner/decide/gaps/prices.h"
#include "planner/decide/sites/evaluator.h"
#include "planner/decide/sites/gaps.h"
#include "planner/schedule/scheduler.h"
#include "tests/support/rank_fixture.h"
#include "tests/support/tiny_graph.h"

namespace tidemark::decide::gaps {
namespace {

using testing::ChainShape;
using testing::RankFixture;

/// Every choice there is, with no pruning: the oracle.
void for_each_choice(const sites::DecisionProblem& p, const std::function<void(const Choice&)>& visit) {
  Choice choice(p.gaps.size(), Action::keep);
  std::vector<std::pair<const sites::SiteClass::Unit*, std::int32_t>> units;
  for (const sites::SiteClass& c : p.classes)
    for (const std::int32_t first : c.first_gap)
      for (const sites::SiteClass::Unit& unit : c.units) units.push_back({&unit, first});
  const std::function<void(std::size_t)> descend = [&](std::size_t u) {
    if (u == units.size()) return visit(choice);
    const auto& [unit, first] = units[u];
    for (std::uint32_t mask = 0; mask < (1U << unit->slots.size()); ++mask) {
      bool allowed = true;
      for (std::size_t i = 0; i < unit->slots.size(); ++i) {
        const auto g = static_cast<std::size_t>(first + unit->slots[i]);
        choice[g] = (mask >> i & 1U) != 0 ? Action::swap : Action::keep;
        if (choice[g] == Action::swap && !p.graph->template_of(p.gaps[g].gap.storage).swappable) allowed = false;
      }
      if (allowed) descend(u + 1);
    }
    if (unit->recipe != kNone<RecipeId>) {
      for (const std::int32_t slot : unit->slots) choice[static_cast<std::size_t>(first + slot)] = Action::recompute;
      descend(u + 1);
    }
    for (const std::int32_t slot : unit->slots) choice[static_cast<std::size_t>(first + slot)] = Action::keep;
  };
  descend(0);
}

struct Best {
  bool fits = false;
  std::int64_t added_ns = 0;
};

Best brute_force(const sites::DecisionProblem& p, Bytes device, Bytes host) {
  Best best;
  sites::Evaluator evaluator(p);
  for_each_choice(p, [&](const Choice& choice) {
    const sites::Evaluation e = evaluator.evaluate(choice);
    if (e.peak_bytes > device || e.host_peak_bytes > host) return;
    if (!best.fits || e.added_ns() < best.added_ns) best = {true, e.added_ns()};
  });
  return best;
}

SearchResult optimal_of(const sites::DecisionProblem& p, Bytes device, Bytes host) {
  sites::Evaluator evaluator(p);
  return search_optimal(sites::gap_problem_of(p), evaluator, device, host);
}

struct Case {
  ChainShape shape;
  const char* what;
};

std::vector<Case> small_layers() {
  return {{{.layers = 2, .micro_batches = 1}, "two layers"},
          {{.layers = 1, .micro_batches = 2, .warm_up = 1}, "two micro-batches"},
          {{.layers = 2, .micro_batches = 1, .op_ns = 300, .communication = true}, "collective recipe, tight links"},
          {{.layers = 3, .micro_batches = 1, .key_bytes = 4096, .op_ns = 5000, .swappable = false}, "recompute only"}};
}

TEST(SearchOptimal, AgreesWithBruteForceOnSmallLayers) {
  for (const Case& c : small_layers()) {
    const auto f = RankFixture::of(testing::chain_graph(c.shape));
    ASSERT_NE(f, nullptr);
    const sites::DecisionProblem& p = f->problem;
    const GapProblem gaps = sites::gap_problem_of(p);
    sites::Evaluator evaluator(p);
    const Bytes keep_all = sites::Evaluator(p).evaluate(Choice(p.gaps.size(), Action::keep)).peak_bytes;
    int feasible = 0;
    for (const Bytes host : {Bytes{0}, Bytes{5000}, kGiB})
      for (Bytes budget = keep_all; budget > keep_all * 7 / 10; budget -= keep_all / 60) {
        const Best best = brute_force(p, budget, host);
        const SearchResult found = search_optimal(gaps, evaluator, budget, host);
        EXPECT_EQ(found.fits, best.fits) << c.what << " at " << budget;
        if (!best.fits) continue;
        ++feasible;
        EXPECT_EQ(found.pricing.added_cost, best.added_ns) << c.what << " at " << budget << ", host " << host;
        EXPECT_LE(found.pricing.peak_bytes, budget);
        EXPECT_LE(found.lower_bound, static_cast<double>(best.added_ns) + 0.5);
      }
    EXPECT_GT(feasible, 5) << c.what;
  }
}

TEST(FindPrices, BoundIsBelowEveryChoiceThatFitsAndProvenByItsPrices) {
  for (const Case& c : small_layers()) {
    const auto f = RankFixture::of(testing::chain_graph(c.shape));
    ASSERT_NE(f, nullptr);
    const GapProblem gaps = sites::gap_problem_of(f->problem);
    const Bytes keep_all =
        sites::Evaluator(f->problem).evaluate(Choice(f->problem.gaps.size(), Action::keep)).peak_bytes;
    for (const Bytes budget : {keep_all * 95 / 100, keep_all * 9 / 10, keep_all * 85 / 100}) {
      const Best best = brute_force(f->problem, budget, 6000);
      const Prices prices = find_prices(gaps, critical_positions(gaps, budget), budget, 6000, 200);
      EXPECT_NEAR(prices.bound, bound_of(gaps, budget, 6000, prices), 1e-6 * (1 + prices.bound)) << c.what;
      if (best.fits) {
        EXPECT_LE(prices.bound, static_cast<double>(best.added_ns) + 0.5) << c.what;
      }
    }
  }
}

TEST(SearchOptimal, KeepsEverythingWhereItFits) {
  const auto f = RankFixture::of(testing::chain_graph({.layers = 4, .micro_batches = 6, .warm_up = 3}));
  ASSERT_NE(f, nullptr);
  const SearchResult found = optimal_of(f->problem, kGiB, kGiB);
  EXPECT_TRUE(found.fits);
  EXPECT_EQ(found.pricing.added_cost, 0);
  EXPECT_EQ(found.choice, Choice(f->problem.gaps.size(), Action::keep));
}

TEST(SearchOptimal, OnLargerChainsBeatsOrEqualsTheOtherRulesAndRespectsItsBound) {
  const auto f = RankFixture::of(
      testing::chain_graph({.layers = 6, .micro_batches = 12, .warm_up = 6, .chunks = 2, .op_ns = 4000}));
  ASSERT_NE(f, nullptr);
  const sites::DecisionProblem& p = f->problem;
  const GapProblem gaps = sites::gap_problem_of(p);
  sites::Evaluator evaluator(p);
  const Bytes keep_all = evaluator.evaluate(Choice(p.gaps.size(), Action::keep)).peak_bytes;
  const sites::Evaluation full = evaluator.evaluate(recompute_all(gaps));
  for (const Bytes host : {Bytes{0}, 40 * kKiB, kGiB})
    for (int percent = 98; percent >= 50; percent -= 6) {
      const Bytes budget = keep_all * percent / 100;
      const SearchResult optimal = search_optimal(gaps, evaluator, budget, host);
      const SearchResult greedy = search_greedy(gaps, evaluator, budget, host);
      if (!optimal.fits) {
        EXPECT_FALSE(greedy.fits) << percent;
        EXPECT_GT(full.peak_bytes, budget) << percent;
        continue;
      }
      EXPECT_LE(optimal.lower_bound, static_cast<double>(optimal.pricing.added_cost) + 0.5) << percent;
      EXPECT_LE(optimal.pricing.peak_bytes, budget);
      EXPECT_LE(optimal.pricing.host_peak_bytes, host);
      if (greedy.fits) {
        EXPECT_LE(optimal.pricing.added_cost, greedy.pricing.added_cost) << percent << " host " << host;
      }
      if (full.peak_bytes <= budget) {
        EXPECT_LT(optimal.pricing.added_cost, full.added_ns()) << percent;
      }
    }
}

TEST(Plan, CarriesAChoiceToTheScheduleAndBack) {
  const auto f = RankFixture::of(testing::chain_graph({.layers = 4, .micro_batches = 8, .warm_up = 3, .chunks = 2}));
  ASSERT_NE(f, nullptr);
  const SearchResult found = optimal_of(
      f->problem,
      sites::Evaluator(f->problem).evaluate(Choice(f->problem.gaps.size(), Action::keep)).peak_bytes * 8 / 10, kGiB);
  PlanCost cost;
  const Plan plan = sites::Evaluator(f->problem).plan(found.choice, cost);
  EXPECT_EQ(sites::choice_of(f->problem, plan), found.choice);
  const auto schedule =
      schedule::build_schedule({.graph = f->graph, .liveness = f->liveness, .nominal = f->nominal, .plan = plan});
  ASSERT_TRUE(schedule.ok());
  // The schedule says the same, folded by gap class.
  const Decisions decisions = decisions_of(f->graph, schedule.value());
  EXPECT_LT(decisions.rows.size(), f->problem.gaps.size());
  for (std::size_t g = 0; g < found.choice.size(); ++g) {
    const Gap& gap = f->problem.gaps[g].gap;
    const Site& site = f->graph.site_of(gap.storage);
    const GapKey key{.storage_template = f->graph.storages[row(gap.storage)].storage_template,
                     .chunk = site.chunk,
                     .layer = site.layer,
                     .gap = gap.ordinal};
    EXPECT_EQ(decisions.action_of(key, site.micro_batch), found.choice[g]) << g;
  }
}

}  // namespace
}  // namespace tidemark::decide::gaps
