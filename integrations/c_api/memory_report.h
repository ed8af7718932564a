#pragma once
// Who holds the memory of an allocator now, in words and numbers: what a caller gets who asks without having been
// refused.

#include <string>

#include "allocator/caching_allocator.h"
#include "integrations/c_api/allocator_group.h"

namespace tidemark::c_api {

/// One paragraph. Of `now` only what holds at any time is read, nothing of a request.
[[nodiscard]] std::string memory_report(const allocator::OutOfMemory& now);

/// JSON: PyTorch's names of statistics (`allocated_bytes.all.peak`) with their numbers, and `pools`: one object a pool.
[[nodiscard]] std::string memory_stats_json(const AllocatorGroup& group);

}  // namespace tidemark::c_api
