#pragma once
// The blocks that are live at a trace's peak as rows of budget::HeldStorage: one a place in the code. Pure.

#include <string>
#include <vector>

#include "integrations/formats/attributed_trace.h"
#include "integrations/measured/trace_peak.h"
#include "planner/budget/holdings.h"

namespace tidemark::measured {

struct AttributedPeak {
  /// Add up to TracePeak::allocated_bytes; largest first, ties by name; no name twice.
  std::vector<budget::HeldStorage> storages;
  std::string place;  ///< `event 3 of 9, in demo.py:step`: where the peak is reached
};

/// A category is the source's own where it has one, else what the stack or the operator's name tells, else `other`.
/// What an optimizer's step allocated and is still there when something else allocates is its state; what backward left
/// behind when an optimizer allocates is a gradient.
[[nodiscard]] AttributedPeak attribute(const formats::AttributedTrace& run, const TracePeak& peak);

}  // namespace tidemark::measured
