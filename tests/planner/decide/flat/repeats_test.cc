// Repeats of a step (repeats.h): that they are found and counted, cheaply, and that decisions made in all layers keep
// the rules.

#include "planner/decide/flat/repeats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <vector>

#include "planner/decide/flat/aimed.h"
#include "tests/planner/decide/flat/flat_step.h"
#include "tests/planner/decide/flat/random_steps.h"
#include "tests/support/sanitized.h"

namespace tidemark::decide::flat {
namespace {

using testing::FlatStep;
using testing::ReferenceStep;
using testing::repeated_layers;

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

/// Layers by the definition, with no thought of the cost: every stretch of every length, those that cover most first,
/// and a vote of every read for every repeat.
class PlainRepeats {
 public:
  explicit PlainRepeats(const Problem& p) : layer_(at(p.op_count), -1), stretch_of_(at(p.op_count), -1) {
    struct Stretch {
      std::int32_t begin, length, count;
    };
    const auto alike = [&](std::int32_t v, std::int32_t w) {
      const auto kinds = [&](std::span<const std::int32_t> storages) {
        std::vector<std::pair<Bytes, bool>> seen;
        for (const std::int32_t s : storages) seen.emplace_back(p.bytes[at(s)], p.swappable[at(s)] != 0);
        std::ranges::sort(seen);
        return seen;
      };
      return p.cost[at(v)] == p.cost[at(w)] && p.transient[at(v)] == p.transient[at(w)] &&
             (p.rerun_until[at(v)] >= 0) == (p.rerun_until[at(w)] >= 0) && kinds(p.reads[v]) == kinds(p.reads[w]) &&
             kinds(p.writes[v]) == kinds(p.writes[w]);
    };
    std::vector<Stretch> all, chosen;
    for (std::int32_t length = 1; 3 * length <= p.op_count; ++length)
      for (std::int32_t begin = 0; begin < p.op_count; ++begin) {
        if (begin > 0 && begin + length - 1 < p.op_count && alike(begin - 1, begin + length - 1)) continue;
        std::int32_t end = begin + length;
        while (end < p.op_count && alike(end - length, end)) ++end;
        if ((end - begin) / length >= 3)
          all.push_back({.begin = begin, .length = length, .count = (end - begin) / length});
      }
    std::ranges::stable_sort(all, std::greater<>(), [](const Stretch& s) { return s.length * s.count; });
    for (const Stretch& s : all) {
      const auto ops = std::span(stretch_of_).subspan(at(s.begin), at(s.length * s.count));
      if (std::ranges::any_of(ops, [](std::int32_t stretch) { return stretch >= 0; })) continue;
      std::ranges::fill(ops, static_cast<std::int32_t>(chosen.size()));
      chosen.push_back(s);
    }
    std::int32_t counting = -1, most = 0;
    for (std::int32_t s = 0; s < std::ssize(chosen); ++s) {
      std::int32_t count = 0;
      for (std::int32_t v = 0; v < p.op_count; ++v)
        count += stretch_of_[at(v)] == s && p.rerun_until[at(v)] >= 0 ? 1 : 0;
      if (count <= most) continue;
      counting = s;
      most = count;
    }
    if (counting < 0) return;
    const Stretch& layers = chosen[at(counting)];
    layers_ = layers.count;
    for (std::int32_t s = 0; s < std::ssize(chosen); ++s) {
      std::vector<bool> given(at(layers_));
      for (std::int32_t r = 0; r < chosen[at(s)].count; ++r) {
        const std::int32_t begin = chosen[at(s)].begin + r * chosen[at(s)].length, end = begin + chosen[at(s)].length;
        std::vector<int> votes(at(layers_));
        for (std::int32_t v = begin; v < end; ++v)
          for (const std::int32_t in : p.reads[v])
            if (const std::int32_t w = p.producer[at(in)]; w >= 0 && w != v && stretch_of_[at(w)] == counting)
              ++votes[at((w - layers.begin) / layers.length)];
        const auto best = std::ranges::max_element(votes);
        if (s != counting && *best == 0) continue;
        const std::int32_t layer = s == counting ? r : static_cast<std::int32_t>(best - votes.begin());
        if (given[at(layer)]) continue;
        given[at(layer)] = true;
        for (std::int32_t v = begin; v < end; ++v) layer_[at(v)] = layer;
      }
    }
  }

  [[nodiscard]] std::int32_t layers() const { return layers_; }
  [[nodiscard]] std::int32_t layer_of(std::int32_t op) const { return layer_[at(op)]; }

 private:
  std::vector<std::int32_t> layer_, stretch_of_;
  std::int32_t layers_ = 0;
};

/// Ops of a few kinds in any order, so that stretches are many, short and in one another's way.
ReferenceStep few_kinds(std::uint64_t seed, std::int32_t ops) {
  std::mt19937_64 random(seed);
  ReferenceStep step{.name = "few kinds"};
  for (std::int32_t v = 0; v < ops; ++v) {
    step.storages.push_back({.name = "s", .bytes = 1 + testing::draw(random, 2)});
    ReferenceStep::Op op{.name = "o", .cost = 1, .writes = {v}};
    if (v > 0) op.reads.push_back(v - 1);
    if (v > 2 && testing::draw(random, 3) == 0) op.reads.push_back(testing::draw(random, v));
    if (testing::draw(random, 4) == 0) op.recompute = ReferenceStep::Recompute::never;
    testing::sort_once_each(op.reads);
    step.ops.push_back(std::move(op));
  }
  return step;
}

ReferenceStep equal_ops(std::int32_t ops) {
  ReferenceStep step{.name = "chain"};
  for (std::int32_t v = 0; v < ops; ++v) {
    step.storages.push_back({.name = "s", .bytes = 64});
    ReferenceStep::Op op{.name = "o", .cost = 1, .writes = {v}};
    if (v > 0) op.reads.push_back(v - 1);
    step.ops.push_back(std::move(op));
  }
  return step;
}

void expect_plain(const ReferenceStep& step, std::uint64_t seed) {
  const FlatStep flat(step);
  const Repeats repeats(flat.problem);
  const PlainRepeats plain(flat.problem);
  ASSERT_EQ(repeats.layers(), plain.layers()) << step.name << seed;
  for (std::int32_t v = 0; v < flat.problem.op_count; ++v)
    ASSERT_EQ(repeats.layer_of(v), plain.layer_of(v)) << step.name << ' ' << seed << ", op " << v;
}

TEST(Repeats, AreThoseOfThePlainDefinition) {
  for (std::uint64_t seed = 0; seed < testing::cases(60U); ++seed) {
    expect_plain(few_kinds(seed, 40), seed);
    expect_plain(repeated_layers(seed, 5, 6, seed % 2 == 0), seed);
    expect_plain(testing::forward_and_back(seed, 20, seed % 2 == 0), seed);
  }
  expect_plain(equal_ops(60), 0);
}

/// In proportion to the ops, however alike they are: four times as many take four times as long, and not sixteen.
TEST(Repeats, EqualOpsTakeNoLonger) {
  if (testing::kThreadsOnly) GTEST_SKIP() << "one thread, or those of other tests";
  const auto seconds = [](std::int32_t ops) {
    const FlatStep flat(equal_ops(ops));
    const std::clock_t begin = std::clock();
    EXPECT_EQ(Repeats(flat.problem).layers(), ops - 1);
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  const double few = std::min({seconds(10'000), seconds(10'000), seconds(10'000)});
  EXPECT_LT(std::min(seconds(40'000), seconds(40'000)), 9 * few);
}

TEST(Repeats, FindsTheLayersOfAStep) {
  for (std::uint64_t seed = 0; seed < testing::cases(10U); ++seed) {
    const FlatStep flat(repeated_layers(seed, 7, 9, seed % 2 == 0));
    const Repeats repeats(flat.problem);
    EXPECT_GE(repeats.layers(), 6) << seed;  // the ends may take the place of ops of a first or last layer
    EXPECT_LE(repeats.layers(), 8) << seed;
  }
  const FlatStep none(testing::random_step(1, {.ops = 120}));
  EXPECT_LT(Repeats(none.problem).layers(), 4);
}

/// Whatever is done in one layer keeps the rules in any other.
TEST(Repeats, ReplicatedSchedulesKeepTheRules) {
  for (std::uint64_t seed = 0; seed < testing::cases(6U); ++seed) {
    const FlatStep flat(repeated_layers(seed, 6, 8, seed % 2 == 0));
    const Repeats repeats(flat.problem);
    ASSERT_GE(repeats.layers(), 2);
    const Bytes budget = keep_all_peak(flat.step) * 6 / 10;
    Archive archive;
    search_within(flat.problem, {.budgets = {budget}, .work = 1e5}, {}, archive);
    const Solution* found = archive.best_within(budget);
    ASSERT_NE(found, nullptr) << seed;
    for (std::int32_t from = 0; from < repeats.layers(); ++from) {
      State state(flat.problem, budget);
      repeats.replicate(*found, from, 0, repeats.layers() - 1, state);
      expect_carried_out(flat, schedule_of(state));
    }
  }
}

}  // namespace
}  // namespace tidemark::decide::flat
