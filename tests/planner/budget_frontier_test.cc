// Which budgets are planned, and where it ends, with plans worked out by hand.

#include "planner/budget_frontier.h"

#include <gtest/gtest.h>

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

TEST(BudgetFrontier, AnErrorIsTheAnswer) {
  PlanRequest request;
  request.budget_bytes = 50 * kGiB;
  const auto points = budget_frontier(request, planned(50 * kGiB),
                                      [](const PlanRequest&) -> Result<PlanOutcome> { return bad_input("no"); });
  EXPECT_FALSE(points);
}

}  // namespace
}  // namespace tidemark::plan
