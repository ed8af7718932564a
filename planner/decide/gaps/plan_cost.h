#pragma once
// What a plan takes and adds to the step, as the search that made it models it.

#include <cstdint>

#include "core/bytes.h"

namespace tidemark::decide::gaps {

struct PlanCost {
  Bytes peak_bytes = 0;  ///< device, storages that persist included, reserves not
  Bytes host_peak_bytes = 0;
  Bytes swapped_bytes = 0;               ///< one direction, per step
  std::int64_t recompute_ns = 0;         ///< less what is hidden
  std::int64_t hidden_recompute_ns = 0;  ///< while the compute lane would wait for collectives; adds nothing
  std::int64_t exposed_communication_ns = 0;
  std::int64_t exposed_copy_ns = 0;
  std::int64_t copy_overhead_ns = 0;
  std::int64_t free_ns = 0;  ///< of added_ns(): by what it was chosen by, other ranks are waited for meanwhile
  [[nodiscard]] std::int64_t added_ns() const {
    return recompute_ns + exposed_communication_ns + exposed_copy_ns + copy_overhead_ns;
  }
  /// What searches make small.
  [[nodiscard]] std::int64_t weighted_ns() const { return added_ns() - free_ns; }
};

}  // namespace tidemark::decide::gaps
