#pragma once
// Seconds of work that only moves bytes of device memory: normalisation, activation, casts, the optimizer. Modelled.

#include "core/chip.h"

namespace tidemark::cost {

/// `bytes` >= 0, read and written together.
[[nodiscard]] inline double memory_s(double bytes, const Chip& device) {
  return bytes / (device.sheet.memory_bytes_per_s * device.rates.memory);
}

}  // namespace tidemark::cost
