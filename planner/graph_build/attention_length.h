#pragma once
// Keys that attention of a layer works on.

#include <algorithm>

#include "planner/graph_build/job_spec.h"

namespace tidemark::graph_build {

/// Twice the keys that a query attends to on average, its own included: the sequence where it attends to all before it
/// (to half a token), and with a window of w of s tokens 2w - w^2 / s, since the first w queries have fewer.
[[nodiscard]] inline double attended_length(const ModelSpec& model, bool windowed) {
  const auto sequence = static_cast<double>(model.sequence);
  if (!windowed) return sequence;
  const double window = std::min(static_cast<double>(model.attention.window), sequence);
  return window * (2 - window / sequence);
}

}  // namespace tidemark::graph_build
