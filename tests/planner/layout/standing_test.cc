// What the improvements of a packing stand on, each against a plain look at every part.

#include "planner/layout/standing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "planner/layout/check_packing.h"
#include "planner/layout/load_profile.h"
#include "planner/layout/repair.h"

namespace tidemark::layout {
namespace {

PackProblem random_problem(std::mt19937& random, std::size_t count, std::uint32_t clock) {
  PackProblem problem;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = static_cast<std::int32_t>(random() % clock) - 50;
    const auto length = static_cast<std::int32_t>(1 + random() % (random() % 8 == 0 ? clock : 9));
    problem.items.push_back({begin, begin + length, static_cast<Bytes>(1 + random() % 40)});
    problem.block_of.push_back(static_cast<std::int32_t>(random() % (2 * count)));
  }
  return problem;
}

std::vector<Bytes> stacked(const Blocks& blocks) {
  std::vector<Bytes> addresses;
  Bytes top = 0;
  for (const PackItem& hull : blocks.hulls()) {
    addresses.push_back(top);
    top += hull.bytes;
  }
  return addresses;
}

// One entry per byte: used by a part that is there during [from, to), of a block that is not out.
std::vector<bool> used_bytes(const Blocks& blocks, const Standing& standing, std::int32_t from, std::int32_t to,
                             std::size_t bytes) {
  std::vector<bool> used(bytes);
  for (std::uint32_t block = 0; block < blocks.size(); ++block) {
    for (const BlockPart& part : blocks.parts(block)) {
      if (standing.is_out(block) || part.end <= from || to <= part.begin) continue;
      const Bytes begin = standing.address(block) + part.shift;
      for (Bytes b = begin; b < begin + part.bytes; ++b) used[static_cast<std::size_t>(b)] = true;
    }
  }
  return used;
}

TEST(Standing, KnowsTheBytesOfAllThatAreNotOut) {
  std::mt19937 random(21);
  for (int round = 0; round < 12; ++round) {
    const PackProblem problem = random_problem(random, 40 + 300 * static_cast<std::size_t>(round), 600);
    const Blocks blocks(problem);
    Standing standing(blocks, stacked(blocks));
    const auto height = static_cast<std::size_t>(standing.height());
    for (int step = 0; step < 20; ++step) {
      std::vector<std::uint32_t> out;
      for (std::size_t k = 0; k < random() % 12; ++k)
        out.push_back(static_cast<std::uint32_t>(random() % blocks.size()));
      std::sort(out.begin(), out.end());
      out.erase(std::unique(out.begin(), out.end()), out.end());
      standing.take_out(out);
      for (int ask = 0; ask < 3; ++ask) {
        const auto from = static_cast<std::int32_t>(random() % 700) - 60;
        const auto to = from + 1 + static_cast<std::int32_t>(random() % 400);
        std::vector<bool> said(height);
        Bytes last = -1;
        for (const ByteRange& range : standing.used(from, to)) {
          ASSERT_LT(last, range.begin);
          last = range.end;
          for (Bytes b = range.begin; b < range.end; ++b) said[static_cast<std::size_t>(b)] = true;
        }
        ASSERT_EQ(said, used_bytes(blocks, standing, from, to, height)) << round << " " << step;
      }
      for (const std::uint32_t block : out) {
        const auto room = static_cast<Bytes>(height) - blocks.hulls()[block].bytes;
        standing.move(block, static_cast<Bytes>(random() % static_cast<std::uint64_t>(room + 1)));
      }
    }
  }
}

TEST(LoadProfile, KnowsTheMostOfEveryInterval) {
  std::mt19937 random(22);
  for (int round = 0; round < 40; ++round) {
    const PackProblem problem = random_problem(random, 1 + random() % 60, 70);
    const Blocks blocks(problem);
    const LoadProfile profile(blocks.parts());
    const auto load_at = [&](std::int32_t moment) {
      Bytes load = 0;
      for (const BlockPart& part : blocks.parts()) load += part.begin <= moment && moment < part.end ? part.bytes : 0;
      return load;
    };
    for (std::int32_t from = -60; from < 160; from += 3) {
      Bytes most = 0;
      for (std::int32_t to = from + 1; to < from + 30; ++to) {
        most = std::max(most, load_at(to - 1));
        ASSERT_EQ(profile.peak_during(from, to), most) << from << " " << to;
      }
    }
  }
}

TEST(Repair, LowersAStackAndNeverBreaksIt) {
  std::mt19937 random(23);
  for (int round = 0; round < 30; ++round) {
    const PackProblem problem = random_problem(random, 10 + random() % 200, 60);
    const Blocks blocks(problem);
    const Bytes bound = packing_load(problem);
    Repair repair(blocks, stacked(blocks), 1);
    const Bytes before = repair.height();
    Bytes last = before;
    for (int slice = 0; slice < 5; ++slice) {
      Effort effort(4000, nullptr);
      repair.lower_to(bound, bound, effort);
      ASSERT_EQ(find_fault(problem, blocks.packing(repair.addresses())).value_or(""), "");
      ASSERT_EQ(blocks.packing(repair.addresses()).height_bytes, repair.height());
      EXPECT_LE(repair.height(), last);
      last = repair.height();
    }
    EXPECT_GE(last, bound);
    if (before > 2 * bound) {
      EXPECT_LE(last, bound + bound / 4);
    }
  }
}

}  // namespace
}  // namespace tidemark::layout
