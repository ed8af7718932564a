#pragma once
// The terms of training state, the same on every platform.

#include "planner/estimate/rank_view.h"

namespace tidemark::estimate {

void add_state_terms(const RankView& view, TermList& terms);

}  // namespace tidemark::estimate
