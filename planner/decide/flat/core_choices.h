#pragma once
// The decision core's choices over all gaps of keeping everything: close to the least where nothing has to run twice.

#include <functional>

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

  /// What the core chooses for the budget, within it or not; told to stop, what it has by then.
  [[nodiscard]] Solution within(Bytes budget, const std::function<bool()>& should_stop = {});

 private:
  ListGaps gaps_;
  GapPricer pricer_;
};

}  // namespace tidemark::decide::flat
