#pragma once
// What the parts of a plan file must have in common, beyond the range of each number. Private to formats.

#include "integrations/formats/json_node.h"
#include "integrations/formats/program_file.h"

namespace tidemark::formats {

/// The job is one that a graph can be built of; ranks ascend and exist in it; the times of all tasks are a time.
void check_rules(const JsonNode& root, const PlanFile& file);

/// The figures that budgets are judged by follow from the programs, the job and the machine: a file can have been
/// edited. Needs no graph, so that every reader has it. REQUIRES: the document is clean.
void check_figures(const JsonNode& root, const PlanFile& file);

}  // namespace tidemark::formats
