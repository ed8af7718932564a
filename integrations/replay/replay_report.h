#pragma once
// Replays as text and as JSON. Says of every figure whether it is of the trace, simulated or measured.

#include <string>
#include <vector>

#include "integrations/formats/allocation_trace.h"
#include "integrations/replay/replay.h"

namespace tidemark::replay {

struct ReplayReport {
  std::string file;
  const formats::AllocationTrace* trace = nullptr;  ///< outlives the report
  std::vector<ReplayFigures> replays;
};

[[nodiscard]] std::string replay_text(const ReplayReport& report);
[[nodiscard]] std::string replay_json(const ReplayReport& report);

}  // namespace tidemark::replay
