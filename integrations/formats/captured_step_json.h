#pragma once
// Our own JSON of a step, `{"tidemark_graph": 1, "name", "cost_unit", "storages": [...], "ops": [...]}`
// (docs/formats.md). Private to formats.

#include <string_view>

#include "core/result.h"
#include "integrations/formats/import_captured_step.h"

namespace tidemark::formats {

[[nodiscard]] Result<CapturedStep> read_captured_step_json(std::string_view text, std::string_view file_name,
                                                           StepObjective objective);

}  // namespace tidemark::formats
