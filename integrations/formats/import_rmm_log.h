#pragma once
// Logs of RMM's logging resource: `Thread,Time,Action,Pointer,Size,Stream`, one allocate or free a line, in order.

#include <string_view>

#include "core/result.h"
#include "integrations/formats/allocation_trace.h"

namespace tidemark::formats {

/// Blocks that are freed without having been allocated were live at the start. Failed allocations and other actions are
/// noted and not used. Errors (bad_input): `file:line: what`.
[[nodiscard]] Result<AllocationTrace> read_rmm_log(std::string_view text, std::string_view file_name);

}  // namespace tidemark::formats
