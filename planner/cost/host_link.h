#pragma once
// Seconds of copies between device and host memory. Modelled.

#include "core/chip.h"

namespace tidemark::cost {

/// `bytes` >= 0, one way, of large copies from pinned memory.
[[nodiscard]] inline double host_copy_s(double bytes, const Chip& device) {
  return bytes / device.sheet.host_bytes_per_s;
}

}  // namespace tidemark::cost
