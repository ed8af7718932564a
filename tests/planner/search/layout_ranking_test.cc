#include "planner/search/layout_ranking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

namespace tidemark::search {
namespace {

/// What a step takes at least and, unless it does not fit, what it takes.
struct Drawn {
  std::int64_t least_ns = 0;
  std::optional<std::int64_t> step_ns;
};

std::vector<Drawn> draw(std::mt19937& random) {
  std::vector<Drawn> layouts(random() % 12);
  for (Drawn& layout : layouts) {
    layout.least_ns = static_cast<std::int64_t>(random() % 20);
    if (random() % 4 != 0) layout.step_ns = layout.least_ns + static_cast<std::int64_t>(random() % 8);
  }
  return layouts;
}

/// Of the last place, when all are planned.
std::int64_t last_of(const std::vector<Drawn>& layouts, std::size_t places) {
  std::vector<std::int64_t> steps;
  for (const Drawn& layout : layouts)
    if (layout.step_ns) steps.push_back(*layout.step_ns);
  std::ranges::sort(steps);
  return steps.size() < places ? LayoutRanking::kNoStep : steps[places - 1];
}

TEST(LayoutRanking, TheLastPlaceLiesBetweenItsBoundsAndNothingIsPlannedAboveIt) {
  std::mt19937 random(1);
  std::size_t spared = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::vector<Drawn> layouts = draw(random);
    const std::size_t places = 1 + random() % 4;
    const std::int64_t last_ns = last_of(layouts, places);
    LayoutRanking ranking(places);
    for (std::size_t id = 0; id < layouts.size(); ++id) ranking.expect({.step_ns = layouts[id].least_ns, .id = id});
    while (true) {
      EXPECT_LE(ranking.least_last_ns(), last_ns);
      EXPECT_GE(ranking.most_last_ns(), last_ns);
      const std::vector<std::size_t> ids = ranking.take(ranking.least_last_ns(), 1 + random() % 3);
      if (ids.empty()) break;
      for (const std::size_t id : ids) {
        EXPECT_LE(layouts[id].least_ns, last_ns);
        if (layouts[id].step_ns) ranking.add({.step_ns = *layouts[id].step_ns, .id = id});
      }
    }
    EXPECT_EQ(ranking.most_last_ns(), last_ns);
    for (const LayoutStep& left : ranking.expected()) EXPECT_GT(left.step_ns, last_ns);
    spared += ranking.expected().size();
  }
  EXPECT_GT(spared, 0U);
}

}  // namespace
}  // namespace tidemark::search
