#pragma once
// Who holds the memory of an allocator now, in words: what a caller gets who asks without having been refused.

#include <string>

#include "allocator/caching_allocator.h"

namespace tidemark::c_api {

/// One paragraph. Of `now` only what holds at any time is read, nothing of a request.
[[nodiscard]] std::string memory_report(const OutOfMemory& now);

}  // namespace tidemark::c_api
