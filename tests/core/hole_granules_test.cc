#include "core/hole_granules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tidemark {
namespace {

constexpr Bytes kG = kPlanGranule;

/// A program of nothing but stays: `compute_tasks` on the clock, residencies added one by one in the first arena.
Program clock_of(std::int32_t compute_tasks, std::int64_t granules, std::int64_t region) {
  Program program;
  program.schedule.compute_tasks = compute_tasks;
  program.schedule.tasks.resize(static_cast<std::size_t>(compute_tasks));
  program.layout.arenas = {
      {.capacity_bytes = (granules + region) * kG, .height_bytes = granules * kG, .dynamic_bytes = region * kG}};
  program.contingency_limit_f = 1;
  return program;
}

void add(Program& program, std::int32_t acquire, std::int32_t release, Bytes offset, Bytes bytes, bool routed) {
  auto& residencies = program.schedule.residencies;
  if (routed)
    program.routed.push_back(
        {.residency = id_of<ResidencyId>(residencies.size()), .rows = 1024, .row_bytes = bytes / 1024});
  residencies.push_back({.bytes = bytes, .acquire = acquire, .release = release});
  program.layout.arena_of.push_back(id_of<ArenaId>(0));
  program.layout.offset_of.push_back(offset);
}

TEST(HoleGranules, AHoleServesWhatTheRegionLacks) {
  Program program = clock_of(10, 4, 1);
  add(program, 2, 10, 0, 2 * kG, true);
  add(program, 12, 20, 2 * kG, 2 * kG, false);  // granules 2 and 3 are free up to 12
  HoleGranules holes(program);
  EXPECT_TRUE(holes.assign(1.5));  // one granule too many: the region
  EXPECT_EQ(holes.count(0), 0);
  EXPECT_TRUE(holes.assign(2));
  EXPECT_EQ(holes.count(0), 2);
  EXPECT_FALSE(holes.assign(2.6));  // three and a bit: two holes and one granule of the region
  program.schedule.residencies[1].acquire = 9;
  EXPECT_FALSE(HoleGranules(program).assign(2));
  program.schedule.residencies[1].acquire = 10;
  program.layout.arenas.front().dynamic_bytes = 0;  // nobody serves oversized storages
  EXPECT_FALSE(HoleGranules(program).assign(2));
}

TEST(HoleGranules, TheHoleThatEndsSoonestIsTaken) {
  Program program = clock_of(10, 3, 1);
  add(program, 0, 4, 0, kG, true);
  add(program, 5, 8, 0, kG, true);
  add(program, 8, 20, kG, kG, false);
  HoleGranules holes(program);
  EXPECT_TRUE(holes.assign(2));
  ASSERT_TRUE(holes.assign(3));
  EXPECT_EQ(holes.of(0).front(), (GranuleRange{.first = 1, .count = 1}));
  EXPECT_EQ(holes.of(1).front(), (GranuleRange{.first = 1, .count = 1}));
}

TEST(HoleGranules, AContingencyMakesTwoStays) {
  Program program = clock_of(10, 4, 1);
  add(program, 0, 20, 0, kG, true);
  program.contingencies = {{.trigger_bytes = kG,
                            .trigger = id_of<TaskId>(1),
                            .residency = id_of<ResidencyId>(0),
                            .release_at = id_of<TaskId>(3),
                            .prefetch_at = id_of<TaskId>(6)}};
  const std::vector<RoutedStay> two = {{.routed = 0, .begin = 0, .end = 6}, {.routed = 0, .begin = 13, .end = 20}};
  EXPECT_EQ(routed_stays(program), two);
  EXPECT_EQ(HoleGranules(program).find(0, 13), 1);
  EXPECT_EQ(HoleGranules(program).find(0, 12), -1);
  // One that is carried out only from some size on promises nothing about the stays.
  const std::vector<RoutedStay> one = {{.routed = 0, .begin = 0, .end = 20, .takes_holes = false}};
  program.contingencies.front().trigger_bytes = kG + 1;
  EXPECT_EQ(routed_stays(program), one);
}

/// Who is in which granule at which half-step, cell by cell.
class Table {
 public:
  Table(const Program& program, std::int64_t granules)
      : clock_(static_cast<std::size_t>(2 * program.schedule.compute_tasks + 1)), granules_(granules) {
    used_.assign(clock_ * static_cast<std::size_t>(granules), 0);
    for (std::size_t r = 0; r < program.schedule.residencies.size(); ++r) {
      const Residency& stay = program.schedule.residencies[r];
      const Bytes offset = program.layout.offset_of[r];
      for (std::int64_t g = 0; g < granules; ++g)
        if (offset < (g + 1) * kG && g * kG < offset + stay.bytes) occupy(g, stay.acquire, stay.release);
    }
  }
  [[nodiscard]] bool is_free(std::int64_t granule, std::int32_t begin, std::int32_t end) const {
    for (std::int32_t t = begin; t < end; ++t)
      if (used_[cell(granule, t)] != 0) return false;
    return true;
  }
  void occupy(std::int64_t granule, std::int32_t begin, std::int32_t end) {
    for (std::int32_t t = begin; t < end; ++t) used_[cell(granule, t)] = 1;
  }
  [[nodiscard]] std::int64_t free_granules(const RoutedStay& stay) const {
    std::int64_t count = 0;
    for (std::int64_t g = 0; g < granules_; ++g) count += is_free(g, stay.begin, stay.end) ? 1 : 0;
    return count;
  }

 private:
  [[nodiscard]] std::size_t cell(std::int64_t granule, std::int32_t t) const {
    return static_cast<std::size_t>(granule) * clock_ + static_cast<std::size_t>(t);
  }
  std::size_t clock_;
  std::int64_t granules_;
  std::vector<char> used_;
};

Program random_program(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<std::int32_t>(random() % static_cast<unsigned>(n)); };
  const std::int32_t tasks = 10 + below(60);
  const std::int64_t granules = 8 + below(40);
  Program program = clock_of(tasks, granules, 1 + below(40));
  for (int i = 0; i < 40; ++i) {
    const std::int32_t acquire = below(2 * tasks - 1);
    const std::int32_t release = acquire + 1 + below(2 * tasks - acquire);
    const Bytes bytes = (1 + below(4 * 1024)) * kG / 1024;
    const Bytes offset = static_cast<Bytes>(below(static_cast<int>(granules) * 4)) * kG / 4;
    if (offset + bytes <= granules * kG) add(program, acquire, release, offset, bytes, below(3) > 0);
  }
  return program;
}

// The rule of the header, one stay after another against a table of cells.
TEST(HoleGranules, MatchesTheRuleCellByCell) {
  std::mt19937 random(3);
  std::int64_t taken = 0;
  int suffices = 0, short_of = 0;
  for (int round = 0; round < 300; ++round) {
    const Program program = random_program(random);
    const double load = 1.01 + static_cast<double>(random() % 150) / (round % 2 == 0 ? 1000 : 100);
    HoleGranules holes(program);
    const bool carried = holes.assign(load);
    EXPECT_EQ(HoleGranules(program).suffices(load), carried) << "round " << round;
    Table table(program, program.layout.arenas.front().height_bytes / kG);
    const auto region = dynamic_region(program.layout.arenas.front(), kG).count;
    std::vector<std::int64_t> demand = dynamic_demand(program, load);
    const std::vector<std::int64_t> alone = demand;
    std::vector<std::size_t> order(holes.stays().size());
    for (std::size_t s = 0; s < order.size(); ++s) order[s] = s;
    std::ranges::stable_sort(order, {}, [&](std::size_t s) { return holes.stays()[s].begin; });
    for (const std::size_t s : order) {
      const RoutedStay& stay = holes.stays()[s];
      const RoutedResidency& routed = program.routed[static_cast<std::size_t>(stay.routed)];
      const std::size_t r = row(routed.residency);
      std::int64_t wanted = extra_granules(program.layout.offset_of[r], program.schedule.residencies[r].bytes,
                                           routed_bytes(routed, load), kG);
      bool is_short = false;
      for (std::int32_t t = stay.begin; t < stay.end; ++t)
        is_short = is_short || alone[static_cast<std::size_t>(t)] > region;
      if (!is_short) wanted = 0;
      EXPECT_EQ(holes.count(s), std::min(wanted, table.free_granules(stay)));
      for (const GranuleRange& run : holes.of(s))
        for (std::int64_t g = run.first; g < run.first + run.count; ++g) {
          ASSERT_TRUE(table.is_free(g, stay.begin, stay.end)) << "round " << round << ", granule " << g;
          table.occupy(g, stay.begin, stay.end);
          ++taken;
        }
      for (std::int32_t t = stay.begin; t < stay.end; ++t) demand[static_cast<std::size_t>(t)] -= holes.count(s);
    }
    EXPECT_EQ(carried, *std::ranges::max_element(demand) <= region) << "round " << round;
    ++(carried ? suffices : short_of);
  }
  EXPECT_GT(taken, 1000);
  EXPECT_GT(suffices, 30);
  EXPECT_GT(short_of, 30);
}

// A tall arena is looked at by what stands in it, not granule by granule.
TEST(HoleGranules, AreTheSameAboveMuchThatIsTaken) {
  constexpr std::int64_t kBelow = 5000;
  std::mt19937 random(5);
  std::int64_t taken = 0;
  for (int round = 0; round < 100; ++round) {
    const Program low = random_program(random);
    Program high = low;
    for (Bytes& offset : high.layout.offset_of) offset += kBelow * kG;
    high.layout.arenas.front().capacity_bytes += kBelow * kG;
    high.layout.arenas.front().height_bytes += kBelow * kG;
    add(high, 0, 2 * low.schedule.compute_tasks + 1, 0, kBelow * kG, false);
    HoleGranules below(low), above(high);
    EXPECT_EQ(below.assign(1.2), above.assign(1.2));
    ASSERT_EQ(below.stays(), above.stays());
    for (std::size_t s = 0; s < below.stays().size(); ++s) {
      std::vector<GranuleRange> wanted(below.of(s).begin(), below.of(s).end());
      for (GranuleRange& run : wanted) run.first += kBelow;
      EXPECT_EQ(std::vector<GranuleRange>(above.of(s).begin(), above.of(s).end()), wanted) << "round " << round;
      taken += below.count(s);
    }
  }
  EXPECT_GT(taken, 300);
}

}  // namespace
}  // namespace tidemark
