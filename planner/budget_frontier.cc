#include "planner/budget_frontier.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace tidemark::plan {
namespace {

Bytes unit_of(Bytes budget) {
  constexpr Bytes kSteps = 64;
  return static_cast<Bytes>(std::bit_ceil(static_cast<std::uint64_t>(std::max<Bytes>(budget / kSteps, 1))));
}

bool adds_nothing(const BudgetPoint& point) {
  return point.fits() && std::ranges::all_of(point.ranks, [](const RankFigures& r) { return r.added_ns == 0; });
}

/// More memory changed nothing.
bool same_plans(const BudgetPoint& a, const BudgetPoint& b) {
  return a.fits() == b.fits() && std::ranges::equal(a.ranks, b.ranks, [](const RankFigures& x, const RankFigures& y) {
           return x.added_ns == y.added_ns && x.peak_bytes == y.peak_bytes;
         });
}

/// Where memory begins to matter: the budget itself; the highest peak where nothing is added; where it does not fit,
/// the smallest budget that every rank is known to meet. 0: none is known.
Bytes where_to_set_out(const BudgetPoint& asked) {
  if (asked.fits() && !adds_nothing(asked)) return asked.budget_bytes;
  Bytes from = 0;
  for (const RankFigures& rank : asked.ranks)
    from = std::max(from, rank.fits ? std::min(rank.peak_bytes, asked.budget_bytes) : rank.smallest_budget_bytes);
  return from;
}

BudgetPoint point_of(Bytes budget, const PlanOutcome& outcome) {
  BudgetPoint point{.budget_bytes = budget, .planned_bytes = budget, .step = outcome.step};
  for (const RankPlan& rank : outcome.ranks) point.ranks.push_back(rank.figures);
  return point;
}

/// A longer step than at less memory gives way to that plan.
void take_shorter_steps(std::vector<BudgetPoint>& points) {
  for (std::size_t i = 1; i < points.size(); ++i) {
    const BudgetPoint& tighter = points[i - 1];
    if (!tighter.fits() || (points[i].fits() && points[i].step.step_ns <= tighter.step.step_ns)) continue;
    const Bytes budget = points[i].budget_bytes;
    points[i] = tighter;
    points[i].budget_bytes = budget;
    for (RankFigures& rank : points[i].ranks) rank.budget_bytes = budget;
  }
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
  const BudgetPoint first = point_of(budget_of(request), planned);
  const Bytes from = where_to_set_out(first);
  std::vector<BudgetPoint> points{first};
  const auto visit = [&](Bytes budget) -> Result<BudgetPoint> {
    PlanRequest other = request;
    other.budget_bytes = budget;
    const Result<PlanOutcome> outcome = plan(other);
    if (!outcome) return outcome.error();
    return point_of(budget, outcome.value());
  };
  for (const int direction : {0, -1, 1}) {
    BudgetPoint last =
        *std::ranges::find(points, from > 0 && direction != 0 ? from : first.budget_bytes, &BudgetPoint::budget_bytes);
    for (int i = 0; i < (direction == 0 ? 1 : kMostDoublings); ++i) {
      const Bytes budget = from + direction * (unit_of(from) << i);
      if (budget <= 0 || budget == first.budget_bytes) break;
      if (direction < 0 ? !last.fits() : direction > 0 && adds_nothing(last)) break;
      Result<BudgetPoint> point = visit(budget);
      if (!point) return point.error();
      if (direction > 0 && same_plans(point.value(), last)) break;
      last = std::move(point).value();
      const auto place = std::ranges::lower_bound(points, budget, {}, &BudgetPoint::budget_bytes);
      points.insert(place, last);
    }
    if (from <= 0) break;
  }
  take_shorter_steps(points);
  return points;
}

}  // namespace tidemark::plan
