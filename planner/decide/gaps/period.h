#pragma once
// A long step repeats itself: in the middle of a pipeline one run of micro-batches is like the next. Such a step is
// decided on a short one that leaves out all but one of those periods, and what the short one chooses is done again in
// every period. What it comes to is then priced on the whole.
//
//   long   | warm-up | P | P | P | P | cool-down |       units and positions of every P stand for one another;
//   short  | warm-up | P |     cool-down         |       bytes and costs of the P that is left: their means

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/decide/gaps/prices.h"

namespace tidemark::decide::gaps {

class Period {
 public:
  /// Nothing where the units of the problem do not repeat, or too few of them could be left out to pay. Keeps a
  /// reference. O(gaps + moves + positions).
  [[nodiscard]] static std::optional<Period> find(const GapProblem& problem);

  /// The step with one period in place of all.
  [[nodiscard]] const GapProblem& folded() const { return folded_; }
  /// A choice of the folded step, done again in every period. REQUIRES: one action per gap of folded().
  [[nodiscard]] Choice unfold(const Choice& choice) const;
  /// Prices of the folded step, again in every period; their bound is that of the whole at these budgets.
  [[nodiscard]] Prices unfold(const Prices& prices, Bytes device_budget, Bytes host_budget) const;

  [[nodiscard]] std::int32_t positions() const { return length_; }   ///< of one period
  [[nodiscard]] std::int32_t left_out() const { return left_out_; }  ///< periods

 private:
  explicit Period(const GapProblem& problem) : p_(&problem) {}
  /// The units of one kind.
  struct Row {
    std::vector<std::int32_t> units{};  ///< ascending end
    std::size_t middle = 0;             ///< the first of a period in the middle of the step
    std::size_t in_period = 0;
  };
  bool find_length();
  bool repeats_from(std::int32_t position);
  bool choose_part();
  void map_units();
  void fold_base();
  void fold_units();
  void fold_moves();
  [[nodiscard]] std::int32_t start_of(std::int32_t unit) const;
  [[nodiscard]] std::int32_t end_of(std::int32_t unit) const;

  const GapProblem* p_;
  std::vector<Row> rows_;
  std::int32_t length_ = 0;                       ///< positions
  std::int32_t steady_from_ = 0, steady_to_ = 0;  ///< units that end in between are like those a period later
  std::int32_t cut_ = 0;                          ///< where periods are left out
  std::int32_t left_out_ = 0;                     ///< periods
  std::vector<std::int32_t> folded_unit_;         ///< per unit
  std::vector<std::int32_t> representative_;      ///< per folded unit: the unit whose place it has
  std::vector<std::int32_t> shift_;               ///< per folded unit: by how much it moved down
  std::vector<std::int32_t> stands_for_;          ///< per folded unit
  std::vector<std::int32_t> folded_gap_;          ///< per gap
  GapProblem folded_;
};

}  // namespace tidemark::decide::gaps
