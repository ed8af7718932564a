#pragma once
// Our own JSON of a step, `{"tidemark_graph": 1, "name", "cost_unit", "storages": [...], "ops": [...]}`
// (docs/formats.md). Private to formats.

#include <string_view>

#include "core/op_list.h"
#include "core/result.h"
#include "integrations/formats/import_op_list.h"

namespace tidemark {

[[nodiscard]] Result<OpList> read_op_list_json(std::string_view text, std::string_view file_name,
                                               StepObjective objective);

}  // namespace tidemark
