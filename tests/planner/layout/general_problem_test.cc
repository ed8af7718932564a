// Problems with everything in them: blocks and their gaps, shifts, fixed addresses, alignments of their own, pairs kept
// apart. Through every packer, and through the checker against a quadratic one.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <random>

#include "planner/layout/check_packing.h"
#include "planner/layout/cut_at_minima.h"

namespace tidemark::layout {
namespace {

PackProblem random_problem(std::mt19937& random, std::size_t fewest = 2, std::size_t range = 40,
                           std::uint32_t clock = 30) {
  const std::size_t count = fewest + random() % range;
  PackProblem problem{.alignment = Bytes{1} << (random() % 4)};
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = static_cast<std::int32_t>(random() % clock);
    problem.items.push_back(
        {begin, begin + static_cast<std::int32_t>(random() % 12), static_cast<Bytes>(random() % 40)});
  }
  const auto some = [&] { return random() % 2 == 0; };
  if (some()) {
    for (std::size_t i = 0; i < count; ++i) problem.block_of.push_back(static_cast<std::int32_t>(random() % count) - 5);
    for (std::size_t i = 0; i < count; ++i)
      problem.shift.push_back(random() % 3 == 0 ? problem.alignment * static_cast<Bytes>(random() % 5) : 0);
  }
  if (some()) {
    for (std::size_t i = 0; i < count; ++i)
      problem.own_alignment.push_back(Bytes{1} << (random() % 4 == 0 ? random() % 6 : 0));
  }
  if (some()) {
    problem.fixed_offset.assign(count, kAnywhere);
    for (std::size_t k = 0; k < 1 + random() % 3; ++k)
      problem.fixed_offset[random() % count] = 32 * static_cast<Bytes>(random() % 20);
  }
  if (some()) {
    for (std::size_t k = 0; k < random() % 12; ++k)
      problem.apart.emplace_back(static_cast<std::int32_t>(random() % count),
                                 static_cast<std::int32_t>(random() % count));
  }
  return problem;
}

Bytes rounded(const PackProblem& problem, std::size_t i) {
  return round_up(problem.items[i].bytes, problem.alignment);
}

// Looks at every pair.
bool is_valid(const PackProblem& problem, const Packing& packing) {
  const std::size_t count = problem.items.size();
  if (packing.offsets.size() != count) return false;
  const auto lives = [&](std::size_t i) {
    return problem.items[i].bytes > 0 && problem.items[i].begin < problem.items[i].end;
  };
  const auto block = [&](std::size_t i) {
    return problem.block_of.empty() ? static_cast<std::int32_t>(i) : problem.block_of[i];
  };
  const auto start = [&](std::size_t i) { return packing.offsets[i] - (problem.shift.empty() ? 0 : problem.shift[i]); };
  const auto share = [&](std::size_t i, std::size_t j) {
    return packing.offsets[i] < packing.offsets[j] + rounded(problem, j) &&
           packing.offsets[j] < packing.offsets[i] + rounded(problem, i);
  };
  Bytes height = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!lives(i)) continue;
    if (packing.offsets[i] < 0 || start(i) < 0 || packing.offsets[i] % problem.alignment != 0) return false;
    if (!problem.own_alignment.empty() && start(i) % problem.own_alignment[i] != 0) return false;
    if (!problem.fixed_offset.empty() && problem.fixed_offset[i] != kAnywhere &&
        packing.offsets[i] != problem.fixed_offset[i])
      return false;
    height = std::max(height, packing.offsets[i] + rounded(problem, i));
    for (std::size_t j = 0; j < i; ++j) {
      if (!lives(j)) continue;
      if (block(i) == block(j)) {
        if (start(i) != start(j)) return false;
      } else if (share(i, j) && problem.items[i].begin < problem.items[j].end &&
                 problem.items[j].begin < problem.items[i].end) {
        return false;
      }
    }
  }
  for (const auto& [a, b] : problem.apart) {
    const auto i = static_cast<std::size_t>(a);
    const auto j = static_cast<std::size_t>(b);
    if (lives(i) && lives(j) && share(i, j)) return false;
  }
  return height == packing.height_bytes;
}

class EveryPackerInGeneral : public ::testing::TestWithParam<Packer> {};

TEST_P(EveryPackerInGeneral, KeepsEveryRule) {
  std::mt19937 random(41);
  int packed = 0;
  for (int round = 0; round < 600; ++round) {
    const PackProblem problem = random_problem(random);
    if (find_contradiction(problem)) continue;
    ++packed;
    const PackAnswer answer = GetParam().pack(problem, {.work = 3000});
    ASSERT_EQ(find_fault(problem, answer.packing).value_or(""), "") << "round " << round;
    ASSERT_TRUE(is_valid(problem, answer.packing)) << "round " << round;
    EXPECT_LE(answer.bound_bytes, answer.packing.height_bytes);
    EXPECT_GE(answer.bound_bytes, packing_load(problem));
  }
  EXPECT_GT(packed, 200);
}

// What is left when somebody asks to stop is piled up, and follows the rules all the same.
TEST_P(EveryPackerInGeneral, KeepsEveryRuleWhenStopped) {
  std::mt19937 random(43);
  int packed = 0;
  for (int round = 0; round < 60; ++round) {
    const PackProblem problem = random_problem(random, 400, 900);
    if (find_contradiction(problem)) continue;
    ++packed;
    std::atomic<int> asked{0};
    PackLimits limits{.work = 3000};
    limits.should_stop = [&] { return asked.fetch_add(1) >= round % 4; };
    const PackAnswer answer = GetParam().pack(problem, limits);
    ASSERT_EQ(find_fault(problem, answer.packing).value_or(""), "") << "round " << round;
    EXPECT_LE(answer.bound_bytes, answer.packing.height_bytes);
  }
  EXPECT_GT(packed, 20);
}

INSTANTIATE_TEST_SUITE_P(Packers, EveryPackerInGeneral, ::testing::ValuesIn(packers().begin(), packers().end()),
                         [](const auto& test) { return std::string(test.param.name); });

// Blocks with parts, addresses given, pairs apart: those of several sections too.
TEST(CutAtMinima, KeepsEveryRuleBetweenCuts) {
  std::mt19937 random(47);
  int packed = 0;
  for (int round = 0; round < 80; ++round) {
    PackProblem problem = random_problem(random, 500, 400, 1500);
    // Blocks of far-off parts live everywhere: those of neighbours do not.
    for (std::size_t i = 0; i < problem.block_of.size(); ++i) {
      problem.block_of[i] = static_cast<std::int32_t>(i / 2);
      problem.items[i].begin = problem.items[i / 2 * 2].begin + static_cast<std::int32_t>(i % 2) * 20;
      problem.items[i].end = problem.items[i].begin + static_cast<std::int32_t>(random() % 12);
    }
    if (find_contradiction(problem)) continue;
    const Blocks blocks(problem);
    if (cuts_at_minima(blocks.hulls()).empty()) continue;
    ++packed;
    Packing packing{.height_bytes = std::numeric_limits<Bytes>::max()};
    ASSERT_TRUE(pack_between_cuts(problem, blocks, packing_load(problem), {.work = 20'000}, packing));
    ASSERT_EQ(find_fault(problem, packing).value_or(""), "") << "round " << round;
    ASSERT_TRUE(is_valid(problem, packing)) << "round " << round;
  }
  EXPECT_GT(packed, 30);
}

// The bytes of a block count once at every moment, and thousands of parts of one block take no square of them.
TEST(PackingLoad, CountsTheBytesOfABlockOnce) {
  std::mt19937 random(44);
  for (int round = 0; round < 300; ++round) {
    PackProblem problem = random_problem(random);
    problem.apart.clear();
    problem.fixed_offset.clear();
    Bytes load = 0;
    for (std::int32_t moment = 0; moment < 45; ++moment) {
      std::map<std::int32_t, Bytes> most;
      for (std::size_t i = 0; i < problem.items.size(); ++i) {
        const PackItem& item = problem.items[i];
        if (item.begin > moment || item.end <= moment) continue;
        Bytes& bytes = most[problem.block_of.empty() ? static_cast<std::int32_t>(i) : problem.block_of[i]];
        bytes = std::max(bytes, rounded(problem, i));
      }
      Bytes sum = 0;
      for (const auto& [block, bytes] : most) sum += bytes;
      load = std::max(load, sum);
    }
    ASSERT_EQ(packing_load(problem), load) << "round " << round;
  }
  PackProblem one;
  for (std::int32_t i = 0; i < 200'000; ++i) one.items.push_back({i, i + 1000, 1 + i % 7});
  one.block_of.assign(one.items.size(), 3);
  EXPECT_EQ(packing_load(one), 7);
}

// Alignments without a common factor: their least common multiple is beyond any integer.
TEST(Exact, TakesAlignmentsWithoutCommonFactors) {
  const PackProblem problem{.items = {{0, 3, 10}, {1, 4, 20}, {2, 5, 30}, {2, 6, 7}},
                            .own_alignment = {999'999'999'989, 847'288'609'443, 762'939'453'125, 1}};
  ASSERT_EQ(find_contradiction(problem).value_or(""), "");
  const PackAnswer answer = find_packer("exact")->pack(problem, {.work = 20'000});
  EXPECT_TRUE(is_valid(problem, answer.packing));
  EXPECT_LE(answer.bound_bytes, answer.packing.height_bytes);
}

// The cause lies in one of many groups that never meet, and no one moment shows it.
TEST(Exact, NamesTheCauseInOneOfManyGroups) {
  std::mt19937 random(46);
  PackProblem problem;
  for (std::int32_t group = 0; group < 200; ++group) {
    for (int i = 0; i < 6; ++i) {
      const auto begin = 100 * group + static_cast<std::int32_t>(random() % 8);
      problem.items.push_back({begin, begin + 1 + static_cast<std::int32_t>(random() % 8),
                               group == 120 && i < 2 ? 30 : static_cast<Bytes>(1 + random() % 9)});
    }
  }
  problem.items[720] = {12'000, 12'003, 30};
  problem.items[721] = {12'005, 12'008, 30};
  problem.apart = {{3, 9}, {720, 721}};
  const PackAnswer answer = find_packer("exact")->pack(problem, {.work = 1'000'000, .enough_bytes = 59});
  EXPECT_EQ(answer.status, PackStatus::infeasible);
  EXPECT_EQ(answer.cannot_fit, (std::vector<std::int32_t>{720, 721}));
}

// Where a part begins within its block sections prove nothing: the same height is tried again for ever more work.
TEST(Exact, EndsWhereNothingCanBeProved) {
  std::mt19937 random(45);
  for (int round = 0; round < 40; ++round) {
    PackProblem problem = random_problem(random, 4, 8);
    if (problem.block_of.empty() || find_contradiction(problem)) continue;
    const PackAnswer answer = find_packer("exact")->pack(problem, {.work = 300'000});
    ASSERT_TRUE(is_valid(problem, answer.packing)) << "round " << round;
  }
}

// A byte here, a block there: whatever is changed, the two agree on whether it is a fault.
TEST(CheckPacking, FindsThePlantedFaultsThatALookAtEveryPairFinds) {
  std::mt19937 random(42);
  int faults = 0;
  int sound = 0;
  for (int round = 0; round < 3000; ++round) {
    const PackProblem problem = random_problem(random);
    if (find_contradiction(problem)) continue;
    Packing packing = find_packer("first_fit_by_size")->pack(problem, {}).packing;
    for (std::size_t k = 0; k < random() % 3; ++k) {
      Bytes& offset = packing.offsets[random() % packing.offsets.size()];
      offset += problem.alignment * (static_cast<Bytes>(random() % 9) - 4) + (random() % 8 == 0 ? 1 : 0);
    }
    if (random() % 8 == 0) packing.height_bytes += static_cast<Bytes>(random() % 3) - 1;
    if (random() % 50 == 0) packing.offsets.pop_back();
    const bool valid = is_valid(problem, packing);
    ASSERT_EQ(!find_fault(problem, packing), valid)
        << "round " << round << ": " << find_fault(problem, packing).value_or("no fault");
    ++(valid ? sound : faults);
  }
  EXPECT_GT(faults, 300);
  EXPECT_GT(sound, 300);
}

TEST(FindContradiction, NamesWhatNoPackingCouldMeet) {
  const auto said = [](const PackProblem& problem) { return find_contradiction(problem).value_or(""); };
  const std::vector<PackItem> two = {{0, 4, 8}, {2, 6, 8}};
  EXPECT_EQ(said({.items = two}), "");
  EXPECT_NE(said({.items = two, .alignment = 0}), "");
  EXPECT_NE(said({.items = two, .block_of = {1}}), "");
  EXPECT_NE(said({.items = {{0, 4, Bytes{1} << 61}}}), "");
  EXPECT_NE(said({.items = two, .fixed_offset = {Bytes{1} << 60, kAnywhere}}), "");
  EXPECT_NE(said({.items = {{0, 4, -1}}}), "");
  EXPECT_EQ(said({.items = two, .fixed_offset = {0, 7}}), "items 0 and 1 are fixed to bytes that they would share");
  EXPECT_EQ(said({.items = two, .fixed_offset = {0, 8}}), "");
  EXPECT_NE(said({.items = two, .alignment = 4, .fixed_offset = {2, kAnywhere}}), "");
  EXPECT_NE(said({.items = two, .block_of = {3, 3}, .fixed_offset = {0, 8}}), "");
  EXPECT_NE(said({.items = two, .block_of = {3, 3}, .apart = {{0, 1}}}), "");
  EXPECT_NE(said({.items = two, .apart = {{1, 1}}}), "");
  EXPECT_NE(said({.items = two, .apart = {{0, 2}}}), "");
  EXPECT_NE(said({.items = {{0, 2, 8}, {4, 6, 8}}, .fixed_offset = {0, 4}, .apart = {{0, 1}}}), "");
  EXPECT_EQ(said({.items = {{0, 2, 8}, {4, 6, 8}}, .fixed_offset = {0, 4}}), "");
}

// Whatever is no contradiction can be packed, and what is said to be one cannot: the checker refuses the fixed bytes.
TEST(FindContradiction, IsSilentWherePackersSucceed) {
  const PackProblem gap{.items = {{0, 3, 8}, {7, 9, 8}, {3, 7, 8}}, .block_of = {1, 1, 2}};
  EXPECT_FALSE(find_contradiction(gap));
  EXPECT_EQ(find_packer("auto")->pack(gap, {}).packing.height_bytes, 8);
}

}  // namespace
}  // namespace tidemark::layout
