// Walks along the clock: whatever they are told to prefer, nobody shares bytes; and room left where large storages
// pass.

#include "planner/layout/clock_walk.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "planner/layout/best_fit_placer.h"
#include "planner/layout/check_packing.h"
#include "planner/layout/rooms.h"

namespace tidemark::layout {
namespace {

// Long lives that come and go at random, and now and then a large storage for a short time.
PackProblem random_problem(std::mt19937& random) {
  PackProblem problem{.alignment = Bytes{1} << (random() % 4)};
  for (int i = 0; i < 120; ++i) {
    const auto begin = static_cast<std::int32_t>(random() % 900);
    const auto life = static_cast<std::int32_t>(random() % 5 == 0 ? 1 + random() % 5 : 50 + random() % 300);
    problem.items.push_back({begin, begin + life, 1 + static_cast<Bytes>(random() % (life < 10 ? 400 : 60))});
  }
  return problem;
}

TEST(ClockWalk, KeepsItemsApartWhateverItPrefers) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const PackProblem problem = random_problem(random);
    const ClockWalk walk{.long_share = 0.05 * static_cast<double>(random() % 20),
                         .tightness = static_cast<double>(1 + random() % 50),
                         .backward = random() % 2 == 0,
                         .both_sides = random() % 2 == 0,
                         .life_weight = static_cast<LifeWeight>(random() % 3),
                         .room_share = 0.25 * static_cast<double>(random() % 7)};
    const Blocks blocks(problem);
    const Packing packing = blocks.packing(walk_clock(blocks, walk, packing_load(problem), {}));
    ASSERT_EQ(find_fault(problem, packing).value_or(""), "") << "round " << round;
  }
}

TEST(Rooms, AreOnePerSpellOfLargePassingStorages) {
  PackProblem problem{.items = {{0, 100, 500}, {90, 200, 500}}};
  problem.items.push_back({10, 12, 40});
  problem.items.push_back({11, 13, 30});
  problem.items.push_back({14, 15, 60});
  problem.items.push_back({150, 152, 50});
  problem.items.push_back({180, 182, 1});  // small
  const auto rooms = rooms_for_passing(Blocks(problem), 1000);
  ASSERT_EQ(rooms.size(), 2U);
  EXPECT_EQ(rooms[0].begin, 10);
  EXPECT_EQ(rooms[0].end, 15);
  EXPECT_EQ(rooms[0].bytes, 70);
  EXPECT_EQ(rooms[1].begin, 150);
  EXPECT_EQ(rooms[1].end, 152);
  EXPECT_EQ(rooms[1].bytes, 50);
  EXPECT_TRUE(rooms_for_passing(Blocks(PackProblem{}), 0).empty());
}

// Two of 20 end before the room of 40 is wanted: it is where they lie. Who lives on into it stays out of the gap that
// the first leaves, though it fits.
TEST(BestFitPlacer, LeavesARoomWhereOthersEndBeforeItIsWanted) {
  const std::vector<PackItem> items = {{0, 50, 20}, {0, 90, 20}, {0, 30, 60}, {40, 200, 30}, {60, 200, 20}};
  const auto addresses = [&](std::vector<Room> rooms) {
    BestFitPlacer best_fit({.both_sides = false, .per_tick = 0.01, .per_byte = 0.1}, std::move(rooms), 100);
    std::vector<Bytes> at;
    for (const PackItem& item : items) at.push_back(best_fit.place(item));
    return at;
  };
  EXPECT_EQ(addresses({}), (std::vector<Bytes>{0, 20, 40, 40, 0}));
  EXPECT_EQ(addresses({{.begin = 100, .end = 120, .bytes = 40}}), (std::vector<Bytes>{0, 20, 40, 40, 70}));
}

// A room is a wish: where it would make somebody stand above the capacity there is none.
TEST(BestFitPlacer, GivesUpARoomBeforeItGrows) {
  BestFitPlacer best_fit({.both_sides = false, .per_tick = 0.01, .per_byte = 0.1},
                         {{.begin = 50, .end = 60, .bytes = 40}}, 100);
  EXPECT_EQ(best_fit.place({0, 100, 60}), 0);
  EXPECT_EQ(best_fit.place({1, 100, 40}), 60);
}

}  // namespace
}  // namespace tidemark::layout
