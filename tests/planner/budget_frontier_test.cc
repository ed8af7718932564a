// Which budgets are planned, and where it ends, with plans worked out by hand.

#include "planner/budget_frontier.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tidemark::plan {
namespace {

constexpr Bytes kLeast = 20 * kGiB, kAll = 100 * kGiB;

/// Fits from `kLeast` on and adds a millisecond a GiB that is missing to `kAll`.
PlanOutcome planned(Bytes budget) {
  PlanOutcome outcome;
  RankFigures& figures = outcome.ranks.emplace_back().figures;
  figures.budget_bytes = budget;
  figures.fits = budget >= kLeast;
  figures.peak_bytes = std::min(budget, kAll);
  figures.smallest_budget_bytes = figures.fits ? 0 : kLeast;
  figures.added_ns = figures.fits ? std::max<Bytes>(0, kAll - budget) / kGiB * 1'000'000 : 0;
  return outcome;
}

std::vector<Bytes> gib_of(const std::vector<BudgetPoint>& points) {
  std::vector<Bytes> gib;
  for (const BudgetPoint& point : points) gib.push_back(point.budget_bytes / kGiB);
  return gib;
}

std::vector<BudgetPoint> frontier(Bytes budget, int* calls = nullptr) {
  PlanRequest request;
  request.budget_bytes = budget;
  return budget_frontier(request, planned(budget),
                         [&](const PlanRequest& other) -> Result<PlanOutcome> {
                           if (calls != nullptr) ++*calls;
                           return planned(*other.budget_bytes);
                         })
      .value();
}

TEST(BudgetFrontier, DoublesAwayFromTheBudget) {
  int calls = 0;
  const std::vector<BudgetPoint> points = frontier(60 * kGiB, &calls);
  // 60 less 1, 2, 4, 8, 16, 32 is 28, which fits; 64 less is nothing. Up: 61, 62, 64, 68, 76, 92, 124 where all is
  // kept.
  EXPECT_EQ(gib_of(points), (std::vector<Bytes>{28, 44, 52, 56, 58, 59, 60, 61, 62, 64, 68, 76, 92, 124}));
  EXPECT_EQ(calls, 13);
  EXPECT_EQ(points.back().ranks.front().added_ns, 0);
}

TEST(BudgetFrontier, EndsBelowWhereOneDoesNotFit) {
  const std::vector<BudgetPoint> points = frontier(24 * kGiB);
  EXPECT_FALSE(points.front().fits());
  EXPECT_TRUE(points[1].fits());
}

TEST(BudgetFrontier, SetsOutFromThePeakWhereNothingIsAdded) {
  const std::vector<BudgetPoint> points = frontier(500 * kGiB);
  EXPECT_EQ(gib_of(points), (std::vector<Bytes>{36, 68, 84, 92, 96, 98, 100, 500}));
}

TEST(BudgetFrontier, SetsOutFromTheSmallestKnownWhereItDoesNotFit) {
  const std::vector<BudgetPoint> points = frontier(kGiB);
  EXPECT_EQ(points[0].budget_bytes, kGiB);
  EXPECT_EQ(points[1].budget_bytes, kLeast - kGiB / 2);  // does not fit
  EXPECT_EQ(points[2].budget_bytes, kLeast);
  EXPECT_TRUE(points[2].fits());
  EXPECT_EQ(points.back().ranks.front().added_ns, (100 - 84) * 1'000'000);  // eight doublings of half a GiB
}

TEST(BudgetFrontier, EndsWhereMoreMemoryChangesNothing) {
  PlanRequest request;
  request.budget_bytes = 50 * kGiB;
  PlanOutcome fixed = planned(50 * kGiB);  // whatever the budget
  int calls = 0;
  const auto points = budget_frontier(request, fixed, [&](const PlanRequest& other) -> Result<PlanOutcome> {
    ++calls;
    return *other.budget_bytes < 50 * kGiB ? planned(kGiB) : planned(50 * kGiB);
  });
  EXPECT_EQ(points.value().size(), 2U);
  EXPECT_EQ(calls, 2);
}

/// A search that does worse with 60 GiB than with 59.
TEST(BudgetFrontier, MoreMemoryNeverMakesAStepLonger) {
  const auto stepped = [](Bytes budget) {
    PlanOutcome outcome = planned(budget);
    outcome.step.step_ns = budget == 60 * kGiB ? 9'000'000 : std::max<Bytes>(0, kAll - budget) / kGiB * 100'000;
    return outcome;
  };
  PlanRequest request;
  request.budget_bytes = 60 * kGiB;
  const std::vector<BudgetPoint> points =
      budget_frontier(request, stepped(60 * kGiB), [&](const PlanRequest& other) -> Result<PlanOutcome> {
        return stepped(*other.budget_bytes);
      }).value();
  const auto asked = std::ranges::find(points, 60 * kGiB, &BudgetPoint::budget_bytes);
  ASSERT_NE(asked, points.end());
  EXPECT_EQ(asked->planned_bytes, 59 * kGiB);
  EXPECT_EQ(asked->step.step_ns, 4'100'000);
  EXPECT_EQ(asked->ranks.front().budget_bytes, 60 * kGiB);
  for (std::size_t i = 1; i < points.size(); ++i) {
    EXPECT_LE(points[i].step.step_ns, points[i - 1].step.step_ns) << points[i].budget_bytes;
    if (points[i].budget_bytes != 60 * kGiB) {
      EXPECT_EQ(points[i].planned_bytes, points[i].budget_bytes);
    }
  }
}

TEST(BudgetFrontier, AnErrorIsTheAnswer) {
  PlanRequest request;
  request.budget_bytes = 50 * kGiB;
  const auto points = budget_frontier(request, planned(50 * kGiB),
                                      [](const PlanRequest&) -> Result<PlanOutcome> { return bad_input("no"); });
  EXPECT_FALSE(points);
}

}  // namespace
}  // namespace tidemark::plan
