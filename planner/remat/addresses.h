#pragma once
// Addresses for a schedule: what its residencies take once each has a place of its own.

#include <vector>

#include "core/op_schedule.h"

namespace tidemark::remat {

struct StepAddresses {
  Bytes height_bytes = 0;                  ///< at least the peak; above it by what lies idle between storages
  std::vector<StepResidency> residencies;  ///< of bytes; as residencies_of
  std::vector<Bytes> offsets;              ///< per residency
};

/// Packs with the default packer: at `enough_bytes` it is content. REQUIRES: the schedule replays without fault.
[[nodiscard]] StepAddresses addresses_of(const OpList& list, const OpSchedule& schedule, Bytes enough_bytes);

}  // namespace tidemark::remat
