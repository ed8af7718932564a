#pragma once
// What switches of a job are worth: each off and on in step time and memory, all else as the job has it, with where its
// constant comes from (docs/design/switch_prices.md). Modelled.

#include <vector>

#include "core/result.h"
#include "planner/prices/kept_step.h"

namespace tidemark::prices {

struct PriceTable {
  SwitchSide own;                   ///< the job as it is, op by op
  std::vector<SwitchPrice> prices;  ///< in an order of their own, the same for every job
};

/// Deterministic, on oneTBB's threads. REQUIRES: find_problems(request.job) is empty. Errors: those of building and
/// playing a step.
[[nodiscard]] Result<PriceTable> price_switches(const PriceRequest& request);

}  // namespace tidemark::prices
