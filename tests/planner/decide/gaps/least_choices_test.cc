// What fits and keeps as much as it can, against a look at every choice there is.

#include "planner/decide/gaps/least_choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>

#include "planner/decide/sites/evaluator.h"
#include "planner/decide/sites/gaps.h"
#include "tests/support/rank_fixture.h"
#include "tests/support/tiny_graph.h"

namespace tidemark::decide::gaps {
namespace {

using testing::RankFixture;

/// Every choice there is: each unit recomputed, or any of its gaps swapped.
std::vector<Choice> all_choices(const GapProblem& problem) {
  std::vector<Choice> all = {Choice(problem.gaps.size(), Action::keep)};
  for (const GapProblem::Unit& unit : problem.units) {
    const auto gaps = problem.gaps_of(unit);
    const std::vector<Choice> before = all;
    for (const Choice& choice : before) {
      for (std::uint32_t mask = 1; mask < 1U << gaps.size(); ++mask) {
        Choice swapped = choice;
        for (std::size_t i = 0; i < gaps.size(); ++i)
          if ((mask >> i & 1U) != 0) swapped[static_cast<std::size_t>(gaps[i])] = Action::swap;
        const auto is_possible = [&](std::int32_t gap) {
          const auto g = static_cast<std::size_t>(gap);
          return swapped[g] != Action::swap || problem.gaps[g].swap_cost >= 0;
        };
        if (std::ranges::all_of(gaps, is_possible)) all.push_back(std::move(swapped));
      }
      if (unit.recompute_cost < 0) continue;
      all.push_back(choice);
      for (const std::int32_t gap : gaps) all.back()[static_cast<std::size_t>(gap)] = Action::recompute;
    }
  }
  return all;
}

/// Whether all units of each kind do the same.
bool is_alike(const GapProblem& problem, const Choice& choice) {
  std::vector<std::vector<Action>> of_kind(static_cast<std::size_t>(problem.kinds));
  for (const GapProblem::Unit& unit : problem.units) {
    std::vector<Action> actions;
    for (const std::int32_t gap : problem.gaps_of(unit)) actions.push_back(choice[static_cast<std::size_t>(gap)]);
    std::vector<Action>& known = of_kind[static_cast<std::size_t>(unit.kind)];
    if (known.empty()) known = actions;
    if (known != actions) return false;
  }
  return true;
}

/// `a` keeps more than `b` and is otherwise the same.
bool keeps_more(const Choice& a, const Choice& b) {
  return a != b && std::ranges::equal(a, b, [](Action x, Action y) { return x == Action::keep || x == y; });
}

struct Small {
  std::unique_ptr<RankFixture> rank;
  GapProblem gaps;
  Bytes keep_all = 0;
};

std::vector<Small> small_ranks() {
  std::vector<Small> small;
  for (const testing::ChainShape& shape : {testing::ChainShape{.layers = 3, .micro_batches = 1},
                                           testing::ChainShape{.layers = 1, .micro_batches = 3, .warm_up = 2}}) {
    small.push_back({.rank = RankFixture::of(testing::chain_graph(shape)), .gaps = {}});
    const sites::DecisionProblem& p = small.back().rank->problem;
    small.back().gaps = sites::gap_problem_of(p);
    small.back().keep_all = sites::Evaluator(p).evaluate(Choice(p.gaps.size(), Action::keep)).peak_bytes;
  }
  return small;
}

TEST(LeastChoices, AreAllThatFitAndInWhichNothingMoreCanBeKept) {
  std::size_t listed = 0;
  for (const Small& small : small_ranks())
    for (const Grain grain : {Grain::units, Grain::kinds})
      for (const Bytes host : {Bytes{0}, Bytes{5000}, kGiB})
        for (const int percent : {98, 96, 94, 90, 85}) {
          const Bytes device = small.keep_all * percent / 100;
          sites::Evaluator evaluator(small.rank->problem);
          std::vector<Choice> fitting, expected;
          for (const Choice& choice : all_choices(small.gaps)) {
            if (grain == Grain::kinds && !is_alike(small.gaps, choice)) continue;
            const Pricing pricing = evaluator.price(choice);
            if (pricing.peak_bytes <= device && pricing.host_peak_bytes <= host) fitting.push_back(choice);
          }
          std::ranges::copy_if(fitting, std::back_inserter(expected), [&](const Choice& choice) {
            return std::ranges::none_of(fitting, [&](const Choice& other) { return keeps_more(other, choice); });
          });
          LeastChoices least(small.gaps, evaluator, device, host, grain);
          std::vector<Choice> found = least.list(1'000'000).value();
          std::ranges::sort(found);
          std::ranges::sort(expected);
          EXPECT_EQ(found, expected) << percent << ", host " << host;
          EXPECT_FALSE(least.list(1).has_value());
          listed += found.size();
        }
  EXPECT_GT(listed, 100U);
}

TEST(LeastChoices, NearAndBeyondFitAndChangeLittle) {
  std::size_t near = 0, beyond = 0;
  for (const Small& small : small_ranks()) {
    const Bytes device = small.keep_all * 95 / 100;
    sites::Evaluator evaluator(small.rank->problem);
    LeastChoices least(small.gaps, evaluator, device, kGiB, Grain::units);
    const auto changed = [&](const Choice& a, const Choice& b) {
      std::vector<std::size_t> units;
      for (std::size_t u = 0; u < small.gaps.units.size(); ++u)
        if (std::ranges::any_of(small.gaps.gaps_of(small.gaps.units[u]), [&](std::int32_t gap) {
              return a[static_cast<std::size_t>(gap)] != b[static_cast<std::size_t>(gap)];
            }))
          units.push_back(u);
      return units;
    };
    const std::vector<Choice> listed = least.list(1'000'000).value();
    for (const Choice& choice : listed) {
      std::vector<bool> wanted(choice.size(), false);
      const auto out = std::ranges::find_if(choice, [](Action a) { return a != Action::keep; }) - choice.begin();
      wanted[static_cast<std::size_t>(out)] = true;
      for (const Choice& other : least.near(choice, wanted, 1'000'000)) {
        EXPECT_LE(evaluator.price(other).peak_bytes, device);
        const std::vector<std::size_t> units = changed(choice, other);
        EXPECT_TRUE(units.size() == 1 || units.size() == 2);
        EXPECT_TRUE(std::ranges::any_of(units, [&](std::size_t u) {
          return std::ranges::find(small.gaps.gaps_of(small.gaps.units[u]), static_cast<std::int32_t>(out)) !=
                 small.gaps.gaps_of(small.gaps.units[u]).end();
        }));
        ++near;
      }
      for (const Choice& other : least.beyond(choice)) {
        EXPECT_LE(evaluator.price(other).peak_bytes, device);
        EXPECT_TRUE(keeps_more(choice, other));
        EXPECT_EQ(changed(choice, other).size(), 1U);
        ++beyond;
      }
    }
  }
  EXPECT_GT(near, 20U);
  EXPECT_GT(beyond, 20U);
}

}  // namespace
}  // namespace tidemark::decide::gaps
