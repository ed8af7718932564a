#pragma once
// Seconds that one op keeps the device and the host busy. Modelled.

#include "core/chip.h"
#include "core/graph.h"

namespace tidemark::cost {

struct OpWork {
  double device_s = 0;  ///< on its lane: kernels, or hops and transfer
  double host_s = 0;    ///< issuing its kernels, and the hops of a ring that it issues: launches behind wait for them
};

/// Of `share` of its rows at expert load `load`; launches and latencies are the same however few they are. Nothing for
/// `given` costs.
[[nodiscard]] OpWork op_work(const OpTemplate& op, const Chip& chip, double load, double share);

}  // namespace tidemark::cost
