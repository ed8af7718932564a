#pragma once
// Fused operators against the plain ones they stand for. Plans price fused kernels; off is what the same step takes
// with an operator's plain kernels (eager_kernels.h): their bytes, their launches, what autograd keeps for them.

#include <vector>

#include "core/result.h"
#include "planner/prices/eager_kernels.h"
#include "planner/prices/kept_step.h"

namespace tidemark::prices {

/// Errors: those of KeptStep::changed.
[[nodiscard]] Result<std::vector<SwitchPrice>> operator_prices(const KeptStep& step);

/// Parts of it, for one rank each, so that they can be switched by themselves.
/// Gives the graph the plain kernels of one operator; nothing where the graph has none.
void unfuse(Operator op, const PriceRequest& request, ChangedRank& rank);
/// One product an expert in the place of grouped ones.
void loop_over_experts(const PriceRequest& request, ChangedRank& rank);
/// Weight gradients of 16 bits, added to the fp32 ones by a kernel of their own.
void add_gradients_apart(ChangedRank& rank);

}  // namespace tidemark::prices
