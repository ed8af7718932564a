#pragma once
// Interleaves the ops of a forward pass with those of a backward pass, so that one computes while the other
// communicates. A greedy list scheduler on modelled times: of the two next ops the one that can start earlier goes
// first. Each pass keeps its own order, so what is merged stays valid whatever the times really are. O(ops +
// dependencies).

#include <cstdint>
#include <span>
#include <vector>

#include "core/graph.h"

namespace tidemark {

struct TimedOp {
  Lane lane = Lane::compute;
  std::int64_t ns = 0;
  std::vector<std::int32_t> after;  ///< earlier ops of the same pass whose results it needs
};

/// Per step of the merged order: true takes the next forward op, false the next backward op. Deterministic.
[[nodiscard]] std::vector<bool> merge_passes(std::span<const TimedOp> forward, std::span<const TimedOp> backward);

}  // namespace tidemark
