// What decisions_of (core/decision.h) says of flat schedules, against the absences of the order itself.

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "core/decision.h"
#include "planner/decide/flat/state.h"
#include "tests/planner/decide/flat/flat_step.h"
#include "tests/planner/decide/flat/random_steps.h"

namespace tidemark::decide::flat {
namespace {

using testing::draw;
using testing::FlatStep;
using testing::ReferenceAbsence;
using testing::ReferenceStep;

bool touches(const ReferenceStep::Op& op, std::int32_t storage) {
  return std::ranges::binary_search(op.reads, storage) || std::ranges::binary_search(op.writes, storage);
}

/// Whether something touches what a recompute made; otherwise it is no way back.
bool is_used(const ReferenceStep& step, const RunOrder& order, const ReferenceAbsence& one) {
  for (auto p = static_cast<std::size_t>(one.before) + 1; p < order.order.size(); ++p) {
    const std::int32_t v = order.order[p];
    if (v == order.order[static_cast<std::size_t>(one.before)]) return false;  // made once more
    if (touches(step.ops[static_cast<std::size_t>(v)], one.storage)) return true;
  }
  return step.storages[static_cast<std::size_t>(one.storage)].lasting;
}

/// How a storage is back last within the gap behind so many ops (less one) that touch it; first runs alone count.
std::map<std::pair<std::int32_t, std::int32_t>, Action> expected_of(const ReferenceStep& step, const RunOrder& order) {
  std::map<std::pair<std::int32_t, std::int32_t>, Action> expected;
  for (const ReferenceAbsence& one : absences_of(step, order)) {  // ascending, so the last way back stands
    if (!one.swapped && !is_used(step, order, one)) continue;
    std::int32_t gap = -1, next = 0;
    for (std::int32_t p = 0; p < one.before; ++p) {
      if (order.order[static_cast<std::size_t>(p)] != next) continue;
      gap += touches(step.ops[static_cast<std::size_t>(next++)], one.storage) ? 1 : 0;
    }
    expected[{one.storage, gap}] = one.swapped ? Action::swap : Action::recompute;
  }
  return expected;
}

/// Recomputes and swaps wherever they are allowed.
Solution any_solution(const Problem& problem, std::mt19937_64& random) {
  State state(problem, 0);
  for (int i = 0; i < 12; ++i) {
    const std::int32_t v = draw(random, problem.op_count), stage = draw(random, problem.op_count);
    if (stage > v && problem.may_recompute(v, stage) && !state.runs_at(key_of(stage, v)))
      state.insert_rerun(key_of(stage, v));
    const std::int32_t s = draw(random, problem.storage_count);
    for (const Key use : state.uses(s))
      if (state.may_swap({.storage = s, .use = use}) && draw(random, 3) == 0) {
        state.insert_swap({.storage = s, .use = use});
        break;
      }
  }
  return state.solution();
}

TEST(RematDecisions, AreTheAbsencesOfTheOrder) {
  std::size_t recomputed = 0, swapped = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const FlatStep flat(testing::random_step(seed, {.ops = 14, .swaps = seed % 2 == 0}));
    std::mt19937_64 random(seed);
    const RunOrder order = schedule_of(flat.problem, any_solution(flat.problem, random));
    expect_carried_out(flat, order);
    const Decisions decisions = decisions_of(flat.graph, scheduled(flat, order));
    const auto expected = expected_of(flat.step, order);
    EXPECT_EQ(decisions.rows.size(), expected.size()) << seed;
    for (const auto& [gap, action] : expected) {
      const GapKey key{.storage_template = static_cast<StorageTemplateId>(gap.first), .gap = gap.second};
      const Decision* const decision = decisions.find(key);
      ASSERT_NE(decision, nullptr) << seed << ": storage " << gap.first << " gap " << gap.second;
      EXPECT_EQ(decision->action, action) << seed << ": storage " << gap.first << " gap " << gap.second;
      EXPECT_TRUE(decision->exceptions.empty());
      ++(action == Action::swap ? swapped : recomputed);
      if (action != Action::recompute) continue;
      const Recipe& recipe = flat.graph.recipes[row(decision->recipe)];
      EXPECT_TRUE(std::ranges::binary_search(recipe.outputs, gap.first)) << seed;
    }
  }
  EXPECT_GT(recomputed, 300U);
  EXPECT_GT(swapped, 100U);
}

}  // namespace
}  // namespace tidemark::decide::flat
