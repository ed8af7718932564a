#pragma once
// Memory snapshots of PyTorch and torch_npu: what torch.cuda.memory._snapshot() or torch_npu.npu.memory._snapshot()
// pickled.
//
// The recorded history starts somewhere in a run: blocks allocated before are not in it. They are found by walking the
// history backwards from the segments as they are at its end, where every live block is listed. Sizes are those of the
// history (what was asked for); of a block that was live all along, that of its segment.
//
// A block ends when its free is requested; that it may be parked for other streams until free_completed is the
// recording allocator's doing and not repeated.

#include <string_view>

#include "core/result.h"
#include "integrations/formats/allocation_trace.h"
#include "integrations/formats/attributed_trace.h"

namespace tidemark::formats {

/// Of the devices that have a history the one that held most, ties: the first; others are noted. Errors (bad_input):
/// `file: byte N: what` for the pickle, `file: device_traces[0][5]: what` for what is in it.
[[nodiscard]] Result<AllocationTrace> read_snapshot(std::string_view bytes, std::string_view file_name);

/// The same with stacks, the user's metadata and categories of allocations, and what the allocator held of the device:
/// the blocks of its segments at the end, less what the history says it took since. Of a device without a history that
/// holds more than those with one what is there at the end. Allocations that failed, and histories that show nothing,
/// are doubts. `bytes` must outlive the result.
[[nodiscard]] Result<AttributedTrace> read_attributed_snapshot(std::string_view bytes, std::string_view file_name);

}  // namespace tidemark::formats
