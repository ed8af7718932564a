#pragma once
// The share of rows that capacities drop: counted in a file of expert counts, or by the load model of the job.

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "planner/capacity_lines.h"

namespace tidemark::formats {

struct DroppedShare {
  double share = 0;       ///< of the rows that are routed
  bool is_bound = false;  ///< at least that share is dropped
  friend bool operator==(const DroppedShare&, const DroppedShare&) = default;
};

struct CapacityDrops {
  bool is_counted = false;           ///< otherwise modelled
  std::string loads;                 ///< which loads, one line
  std::vector<DroppedShare> shares;  ///< one a choice
  std::vector<std::string> notes;    ///< what is assumed, a line each
};

/// By job.expert_load (graph_build/dropped_rows.h). Of experts: varying apart from each other on a device.
[[nodiscard]] CapacityDrops modelled_drops(const graph_build::JobSpec& job,
                                           const std::vector<plan::CapacityChoice>& choices);

/// By a direct count (integrations/formats/expert_counts.h has the format) of rows that were routed before any was
/// dropped. Where the file counts devices, what experts drop is a bound. Errors (bad_input): `file:line: what`; other
/// experts or devices than the job has.
[[nodiscard]] Result<CapacityDrops> counted_drops(std::string_view csv_text, std::string_view file_name,
                                                  const graph_build::JobSpec& job,
                                                  const std::vector<plan::CapacityChoice>& choices);

}  // namespace tidemark::formats
