#pragma once
// Dropless beside capacities: what `tidemark simulate --capacity-table` prints.

#include <string>
#include <vector>

#include "integrations/formats/capacity_drops.h"
#include "planner/capacity_lines.h"

namespace tidemark::formats {

/// One line a choice: the load planned for, peaks, how many ranks fit, the step, the share dropped; then what is
/// assumed. REQUIRES: as many lines as shares, at least one.
[[nodiscard]] std::string capacity_text(const plan::PlanRequest& request, const std::vector<plan::CapacityLine>& lines,
                                        const CapacityDrops& drops);

/// The same as one JSON object; field names are a contract (docs/formats.md). Ends with a newline.
[[nodiscard]] std::string capacity_json(const plan::PlanRequest& request, const std::vector<plan::CapacityLine>& lines,
                                        const CapacityDrops& drops);

}  // namespace tidemark::formats
