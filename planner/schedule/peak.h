#pragma once
// Where a schedule holds the most device bytes.

#include <cstdint>

#include "core/schedule.h"

namespace tidemark::schedule {

/// The first half-step of the compute clock with the most device bytes; 0 for an empty schedule.
/// O(residencies + clock).
[[nodiscard]] std::int32_t peak_clock(const Schedule& schedule);

}  // namespace tidemark::schedule
