#pragma once
// Messages between the ranks of a plan file. Private to formats.

#include "integrations/formats/json_node.h"
#include "integrations/formats/program_file.h"

namespace tidemark::formats {

/// Every message has one send and one receive, as far as both ranks are in the file. `root`: of the document. Whether a
/// rank's messages are those of its graph is for core/verify. REQUIRES: ranks ascend and exist in the job.
void check_messages(const JsonNode& root, const PlanFile& file);

}  // namespace tidemark::formats
