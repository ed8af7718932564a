#include "planner/budget_frontier.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace tidemark {
namespace {

Bytes unit_of(Bytes budget) {
  constexpr Bytes kSteps = 64;
  return static_cast<Bytes>(std::bit_ceil(static_cast<std::uint64_t>(std::max<Bytes>(budget / kSteps, 1))));
}

bool adds_nothing(const BudgetPoint& point) {
  return point.fits() && std::ranges::all_of(point.ranks, [](const RankFigures& r) { return r.added_ns == 0; });
}

BudgetPoint point_of(Bytes budget, const PlanOutcome& outcome) {
  BudgetPoint point{.budget_bytes = budget, .step = outcome.step};
  for (const RankPlan& rank : outcome.ranks) point.ranks.push_back(rank.figures);
  return point;
}

}  // namespace

bool BudgetPoint::fits() const {
  return std::ranges::all_of(ranks, [](const RankFigures& rank) { return rank.fits; });
}

Bytes budget_of(const PlanRequest& request) {
  return request.budget_bytes.value_or(request.machine.visible_bytes);
}

Result<std::vector<BudgetPoint>> budget_frontier(const PlanRequest& request, const PlanOutcome& planned,
                                                 const PlanAtBudget& plan) {
  const Bytes asked = budget_of(request);
  std::vector<BudgetPoint> points{point_of(asked, planned)};
  Bytes from = asked;
  if (adds_nothing(points.front())) {
    from = 0;
    for (const RankFigures& rank : points.front().ranks) from = std::max(from, rank.peak_bytes);
  }
  for (const int direction : {-1, 1}) {
    for (int i = 0; i < kMostDoublings; ++i) {
      const BudgetPoint& last = direction < 0 ? points.front() : points.back();
      const Bytes budget = from + direction * (unit_of(from) << i);
      if (budget <= 0 || (direction < 0 ? !last.fits() : adds_nothing(last))) break;
      PlanRequest other = request;
      other.budget_bytes = budget;
      const Result<PlanOutcome> outcome = plan(other);
      if (!outcome) return outcome.error();
      points.insert(direction < 0 ? points.begin() : points.end(), point_of(budget, outcome.value()));
    }
  }
  return points;
}

}  // namespace tidemark
