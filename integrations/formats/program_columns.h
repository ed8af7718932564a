#pragma once
// The columns of a Program in plan.json. Private to formats.

#include "core/program.h"
#include "integrations/formats/json_node.h"
#include "integrations/formats/json_text.h"
#include "integrations/formats/program_file.h"

namespace tidemark::formats {

/// Appends a Program as one JSON object.
void write_program(JsonText& json, const Program& program);

/// Reads it back; ids are checked against each other and against `outline`. What is wrong is kept by `node`.
[[nodiscard]] Program read_program(const JsonNode& node, const GraphOutline& outline);

}  // namespace tidemark::formats
