// The state under change against the independent check of the whole schedule.

#include "planner/decide/flat/state.h"

#include <gtest/gtest.h>

#include "planner/decide/flat/bound.h"
#include "tests/planner/decide/flat/flat_step.h"
#include "tests/planner/decide/flat/random_steps.h"
#include "tests/planner/decide/flat/windows.h"

namespace tidemark::decide::flat {
namespace {

using testing::draw;
using testing::FlatStep;
using testing::random_step;
using testing::ReferenceReplay;
using testing::ReferenceStep;
using testing::with_windows;

/// Peak, cost and overflow of the state are those of its schedule, but for waits for copies: the state does not know
/// them. So is what the planner makes of the schedule.
void expect_agrees(const FlatStep& flat, const State& state) {
  const Solution solution = state.solution();
  const RunOrder order = schedule_of(state.problem(), solution);
  const ReferenceReplay reference = replay(flat.step, order);
  ASSERT_EQ(reference.fault, "");
  EXPECT_EQ(solution.peak_bytes, reference.peak_bytes);
  EXPECT_EQ(solution.added_cost, reference.added_cost - reference.waited);
  Bytes overflow = 0;
  for (const Bytes bytes : reference.profile) overflow += std::max<Bytes>(0, bytes - state.profile().budget());
  EXPECT_EQ(state.profile().overflow(), overflow);
  expect_carried_out(flat, order);
}

/// One random change, if there is one to make.
void change(State& state, std::mt19937_64& random) {
  const Problem& p = state.problem();
  if (!state.reruns().empty() && draw(random, 3) == 0) {
    state.erase_rerun(
        state.reruns()[static_cast<std::size_t>(draw(random, static_cast<std::int32_t>(state.reruns().size())))]);
    return;
  }
  if (!state.swaps().empty() && draw(random, 4) == 0) {
    const Swap swap =
        state.swaps()[static_cast<std::size_t>(draw(random, static_cast<std::int32_t>(state.swaps().size())))];
    state.erase_swap(swap);
    return;
  }
  const std::int32_t v = draw(random, p.op_count), stage = draw(random, p.op_count);
  const Key key = key_of(stage, v, draw(random, 3));
  if (stage > v && p.may_recompute(v, stage) && !state.runs_at(key)) state.insert_rerun(key);
  const std::int32_t s = draw(random, p.storage_count);
  if (state.uses(s).empty()) return;
  const auto pick = static_cast<std::size_t>(draw(random, static_cast<std::int32_t>(state.uses(s).size())));
  const Swap swap{.storage = s, .use = state.uses(s)[pick]};
  if (state.may_swap(swap)) state.insert_swap(swap);
}

TEST(RematState, AgreesWithTheCheckAfterEveryChange) {
  for (std::uint64_t seed = 0; seed < 225; ++seed) {
    ReferenceStep step =
        random_step(seed, {.ops = 6 + static_cast<int>(seed % 20), .swaps = seed % 2 == 0 || seed >= 150});
    const bool windows = seed >= 150;
    if (windows) step = testing::with_link(std::move(step), seed, 25);
    const FlatStep flat(std::move(step));
    const Problem problem = windows ? with_windows(flat) : flat.problem;
    State state(problem, 12);
    std::mt19937_64 random(seed);
    expect_agrees(flat, state);
    for (int i = 0; i < 25; ++i) {
      state.mark();
      const Solution before = state.solution();
      const Bytes overflow = state.profile().overflow();
      for (int k = 0; k < 3; ++k) change(state, random);
      if (::testing::Test::HasFatalFailure()) return;
      expect_agrees(flat, state);
      if (i % 3 != 0) continue;
      state.roll_back();
      EXPECT_EQ(state.solution().reruns, before.reruns);
      EXPECT_EQ(state.solution().swaps, before.swaps);
      EXPECT_EQ(state.solution().peak_bytes, before.peak_bytes);
      EXPECT_EQ(state.added_cost(), before.added_cost);
      EXPECT_EQ(state.profile().overflow(), overflow);
    }
    const Solution end = state.solution();
    state.load(end);
    expect_agrees(flat, state);
  }
}

TEST(RematState, BlocksOfTheProfileSplitAndVanish) {
  const FlatStep flat(testing::uniform_chain(300));
  State state(flat.problem, 50);
  std::mt19937_64 random(3);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 600; ++i) change(state, random);
    expect_agrees(flat, state);
    for (int i = 0; i < 900 && !state.reruns().empty(); ++i)
      state.erase_rerun(
          state.reruns()[static_cast<std::size_t>(draw(random, static_cast<std::int32_t>(state.reruns().size())))]);
    expect_agrees(flat, state);
  }
}

TEST(RematBound, NoScheduleIsBelowIt) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const FlatStep flat(random_step(seed, {.ops = 12, .swaps = seed % 2 == 0}));
    State state(flat.problem, 0);
    std::mt19937_64 random(seed);
    const Bytes least = least_peak(flat.problem).bytes;
    for (int i = 0; i < 40; ++i) {
      change(state, random);
      const Solution solution = state.solution();
      EXPECT_GE(solution.peak_bytes, least) << seed;
      EXPECT_GE(solution.added_cost, least_added_cost(flat.problem, solution.peak_bytes)) << seed;
    }
  }
}

}  // namespace
}  // namespace tidemark::decide::flat
