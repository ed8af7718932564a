#include "planner/decide/flat/exact_frontier.h"

#include <algorithm>
#include <utility>

#include "planner/decide/flat/exact.h"

namespace tidemark::decide::flat {
namespace {

constexpr std::int32_t kMostOps = 32, kMostStorages = 64;
constexpr std::int64_t kWork = 300'000;        // of one budget: ways to make room, about 1 us each
constexpr std::int64_t kMostWork = 1'000'000;  // of all
constexpr int kAscents = 100;                  // of a budget, a few microseconds each
constexpr Bytes kStep = 32;                    // where a budget is too hard, a 32nd is left out

}  // namespace

ExactFrontier::ExactFrontier(const Problem& problem, Bytes keep_all_peak)
    : problem_(problem),
      next_(problem.op_count > kMostOps || problem.storage_count > kMostStorages ? -1 : keep_all_peak - 1) {}

void ExactFrontier::look_down_to(Bytes budget) {
  while (best_within(budget) == nullptr && !is_infeasible(budget))
    if (!look_further()) return;
}

void ExactFrontier::look_at_all() {
  while (look_further()) continue;
}

/// False: there is nothing more to be known.
bool ExactFrontier::look_further() {
  if (next_ < 0 || work_ > kMostWork) return false;
  ExactAnswer answer = solve_exactly(problem_, next_,
                                     {.most_work = kWork,
                                      .likely_added = points_.empty() ? -1 : 2 * points_.back().added_cost,
                                      .ascents = kAscents,
                                      .should_stop = {}});
  work_ += answer.work;
  if (answer.status == ExactStatus::open) {
    next_ -= next_ / kStep + 1;
    return true;
  }
  if (answer.status == ExactStatus::none) {
    infeasible_ = std::exchange(next_, -1);
    return true;
  }
  const Bytes peak = carry_out(problem_, answer.schedule).peak_bytes;
  if (!points_.empty() && points_.back().added_cost == answer.added_cost && points_.back().peak_bytes == next_ + 1) {
    points_.back().peak_bytes = peak;
    points_.back().schedule = std::move(answer.schedule);
  } else {
    points_.push_back(
        {.peak_bytes = peak, .until = next_, .added_cost = answer.added_cost, .schedule = std::move(answer.schedule)});
  }
  next_ = peak - 1;
  return true;
}

/// Below its peak everything is known to cost more, or not to fit.
bool ExactFrontier::is_lowest(std::size_t point) const {
  const Bytes below = points_[point].peak_bytes - 1;
  return infeasible_ == below || (point + 1 < points_.size() && points_[point + 1].until == below);
}

const ExactFrontier::Point* ExactFrontier::best_within(Bytes budget) const {
  for (std::size_t i = 0; i < points_.size(); ++i)
    if (points_[i].peak_bytes <= budget) return budget <= points_[i].until && is_lowest(i) ? &points_[i] : nullptr;
  return nullptr;
}

const ExactFrontier::Point* ExactFrontier::cheapest_known(Bytes budget) const {
  for (const Point& point : points_)
    if (point.peak_bytes <= budget) return &point;
  return nullptr;
}

std::int64_t ExactFrontier::least_added_cost(Bytes budget) const {
  std::int64_t cost = 0;
  for (const Point& point : points_)
    if (budget <= point.until) cost = std::max(cost, point.added_cost);
  return cost;
}

}  // namespace tidemark::decide::flat
