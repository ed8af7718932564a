#pragma once
// A trace of any known kind. What a file is shows in its content; its name does not matter.

#include <string_view>

#include "core/result.h"
#include "integrations/formats/allocation_trace.h"

namespace tidemark::formats {

/// Pickled snapshots, operator_memory.csv, minimalloc CSV and RMM logs. Errors (bad_input): of the reader concerned;
/// `file:1: what` where no reader knows the content, or the trace has no event.
[[nodiscard]] Result<AllocationTrace> read_trace(std::string_view bytes, std::string_view file_name);

}  // namespace tidemark::formats
