#pragma once
// The terms of training state, the same on every platform.

#include "planner/estimate/rank_view.h"

namespace tidemark::framework {

void add_state_terms(const RankView& view, TermList& terms);

}  // namespace tidemark::framework
