#pragma once
// Seconds of copies between device and host memory. Modelled.

#include "core/chip.h"

namespace tidemark::cost {

/// `bytes` >= 0, one way. What large copies from pinned memory reach of the link: 23.4 of 31.5 GB/s were measured on
/// Ascend 910B (devices/ascend-910b-64g.yaml); not fitted.
[[nodiscard]] inline double host_copy_s(double bytes, const Chip& device) {
  constexpr double kReached = 0.75;
  return bytes / (kReached * device.sheet.host_bytes_per_s);
}

}  // namespace tidemark::cost
