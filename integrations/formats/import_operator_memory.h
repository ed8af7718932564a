#pragma once
// operator_memory.csv of the torch_npu profiler: one allocation a row, with the times it was made and released.
//
// Used are `Size(KB)` (of 1024 bytes), `Allocation Time(us)` and `Release Time(us)` (a tab may follow; read to the
// nanosecond), and if they are there `Stream Ptr`, `Device Type` and `Allocation Total Allocated(MB)`. A blank release
// time: never freed. A blank allocation time: live before the first event. What the totals count before the first
// allocation and no row describes is one block more at the start: nothing else is known of it.

#include <string_view>

#include "core/result.h"
#include "integrations/formats/allocation_trace.h"
#include "integrations/formats/attributed_trace.h"

namespace tidemark::formats {

/// Of several devices the first is read and the others are noted. Errors (bad_input): `file:line: what`.
[[nodiscard]] Result<AllocationTrace> read_operator_memory(std::string_view text, std::string_view file_name);

/// The same with the operators' names (`Name`) and, where the columns are there, what the allocator held of the device
/// (`Allocation Total Reserved(MB)`, `Release Total Reserved(MB)`). `text` must outlive the result.
[[nodiscard]] Result<AttributedTrace> read_attributed_operator_memory(std::string_view text,
                                                                      std::string_view file_name);

}  // namespace tidemark::formats
