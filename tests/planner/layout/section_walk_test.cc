// Walks section by section: whatever the ceiling, nobody shares bytes; a section that can keep to it does; and a step
// of many micro-batches packs as low as a short one, with sizes of their own or without.

#include "planner/layout/section_walk.h"

#include <gtest/gtest.h>

#include <random>

#include "planner/layout/check_packing.h"
#include "planner/layout/clock_walk.h"
#include "tests/support/pipeline_items.h"

namespace tidemark::layout {
namespace {

// Long and short lives at random over a clock of several sections.
PackProblem random_sections(std::mt19937& random) {
  PackProblem problem;
  problem.alignment = Bytes{1} << (random() % 4);
  const int count = 200 + static_cast<int>(random() % 2000);
  for (int i = 0; i < count; ++i) {
    const auto begin = static_cast<std::int32_t>(random() % 9000);
    const auto life = static_cast<std::int32_t>(random() % 5 == 0 ? 300 + random() % 900 : 1 + random() % 40);
    problem.items.push_back({begin, begin + life, 1 + static_cast<Bytes>(random() % 400)});
  }
  return problem;
}

TEST(SectionWalk, KeepsItemsApartWhateverTheCeiling) {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    const PackProblem problem = random_sections(random);
    const Blocks blocks(problem);
    const Bytes load = packing_load(problem);
    const Bytes ceiling = load + load * static_cast<Bytes>(random() % 30) / 100;
    for (const bool backward : {false, true}) {
      const std::vector<Bytes> addresses = walk_in_sections(blocks, backward, load, ceiling, {});
      ASSERT_EQ(addresses, walk_in_sections(blocks, backward, load, ceiling, {}));
      ASSERT_EQ(find_fault(problem, blocks.packing(addresses)).value_or(""), "") << "round " << round;
    }
  }
}

TEST(SectionWalk, PlacesEverythingWhenToldToStop) {
  std::mt19937 random(3);
  const PackProblem problem = random_sections(random);
  const Blocks blocks(problem);
  const Bytes load = packing_load(problem);
  int asked = 0;
  const auto stop = [&] { return ++asked > 3; };
  const std::vector<Bytes> addresses = walk_in_sections(blocks, true, load, load, stop);
  EXPECT_EQ(find_fault(problem, blocks.packing(addresses)).value_or(""), "");
}

TEST(SectionWalk, KeepsALongStepToTheCeilingOfAShortOne) {
  for (const double spread : {0.0, 0.5}) {
    for (const int micro_batches : {64, 640}) {
      const PackProblem problem{.items = pipeline_items({.micro_batches = micro_batches, .load_spread = spread}),
                                .alignment = 512};
      const Blocks blocks(problem);
      const Bytes load = packing_load(problem);
      const Bytes ceiling = load + load / 54;
      EXPECT_LE(blocks.height(walk_in_sections(blocks, true, load, ceiling, {})), ceiling)
          << micro_batches << " micro-batches, spread " << spread << "; the walk without sections needs "
          << blocks.height(walk_clock(blocks, {}, load, {})) << " of " << ceiling;
    }
  }
}

}  // namespace
}  // namespace tidemark::layout
