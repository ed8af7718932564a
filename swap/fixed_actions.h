#pragma once
// What is done before each piece of a FixedLayout: copies, moves of granules, and the waits that order them. Part of
// laying out; the rules are in swap/fixed_layout.h.

#include "swap/fixed_layout.h"

namespace tidemark::swap {

/// Fills `opening` and `before`. REQUIRES: the rest is there.
void add_actions(FixedLayout& layout);

}  // namespace tidemark::swap
