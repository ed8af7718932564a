#pragma once
// What is proven of a small list at every budget, from keeping everything down: each best schedule in turn, asked for
// just below the peak of the last. Budgets are met in an order that depends on the list alone, so what is known of one
// does not depend on which was asked for.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/decide/flat/problem.h"
#include "planner/decide/flat/run_order.h"

namespace tidemark::decide::flat {

class ExactFrontier {
 public:
  /// A best schedule of every budget from its peak up to and with `until`.
  struct Point {
    Bytes peak_bytes = 0, until = 0;
    std::int64_t added_cost = 0;
    RunOrder schedule;
  };

  /// `keep_all_peak`: from there on nothing needs to leave.
  ExactFrontier(const Problem& problem, Bytes keep_all_peak);

  /// Looks as far down as it takes to answer that budget.
  void look_down_to(Bytes budget);
  /// As far as its work allows.
  void look_at_all();

  /// Of all schedules that cost least the lowest; nullptr: it is not known. REQUIRES: looked down to there.
  [[nodiscard]] const Point* best_within(Bytes budget) const;
  /// Of what was found; nullptr: nothing that fits. REQUIRES: looked at all.
  [[nodiscard]] const Point* cheapest_known(Bytes budget) const;
  /// No schedule that fits adds less. REQUIRES: looked down to there.
  [[nodiscard]] std::int64_t least_added_cost(Bytes budget) const;
  [[nodiscard]] bool is_infeasible(Bytes budget) const { return budget <= infeasible_; }
  /// By falling peak, so by rising cost.
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }

 private:
  bool look_further();
  [[nodiscard]] bool is_lowest(std::size_t point) const;

  const Problem& problem_;
  Bytes next_ = 0;         ///< the budget to ask for next; < 0: none
  Bytes infeasible_ = -1;  ///< no schedule fits that
  std::int64_t work_ = 0;
  std::vector<Point> points_;
};

}  // namespace tidemark::decide::flat
