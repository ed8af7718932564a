#pragma once
// The decision core's choices over all gaps of keeping everything: close to the least where nothing has to run twice.

#include "core/bytes.h"
#include "planner/decide/flat/gap_pricer.h"
#include "planner/decide/flat/gaps.h"
#include "planner/decide/flat/problem.h"
#include "planner/decide/flat/state.h"

namespace tidemark::decide::flat {

/// Of one problem, which must outlive this; for many budgets.
class CoreChoices {
 public:
  explicit CoreChoices(const Problem& problem);

  /// What the core chooses for the budget, within it or not.
  [[nodiscard]] Solution within(Bytes budget);

 private:
  ListGaps gaps_;
  GapPricer pricer_;
};

}  // namespace tidemark::decide::flat
