#pragma once
// Interleaves the ops of a forward pass with those of a backward pass, so that one computes while the other
// communicates. Each pass keeps its own order, so what is merged stays valid whatever the times really are.
//
// A table over (forward ops placed, backward ops placed): each cell extends the better of its two neighbours by one op
// on modelled lane times. Better: the compute lane is free earlier, then the other lanes. Keeping one state per cell is
// a heuristic (a slower start may pay off later), but a merge picked op by op left ten times as much communication
// exposed on the reference job. Only cells near the diagonal are filled, where both passes are about equally far, so
// time is linear in the ops of the longer pass.

#include <cstdint>
#include <span>
#include <vector>

#include "core/graph.h"

namespace tidemark::graph_build {

struct TimedOp {
  Lane lane = Lane::compute;
  std::int64_t ns = 0;
  std::vector<std::int32_t> after;  ///< earlier ops of the same pass whose results it needs
};

/// Per step of the merged order: true takes the next forward op, false the next backward op. Deterministic.
[[nodiscard]] std::vector<bool> merge_passes(std::span<const TimedOp> forward, std::span<const TimedOp> backward);

}  // namespace tidemark::graph_build
