#pragma once
// Decisions of a plan file by name, so that plans of different graphs can be compared and people can read them.

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "core/bytes.h"
#include "integrations/formats/program_file.h"

namespace tidemark::formats {

/// One gap class of one rank.
struct NamedDecision {
  std::int32_t rank = 0;
  std::string storage;  ///< module path and name
  std::int32_t chunk = 0;
  std::int32_t layer = -1;
  std::string block;  ///< tells what stands outside layers
  std::int32_t gap = 0;
  std::int32_t kept = 0, recomputed = 0, swapped = 0;  ///< micro-batches
  std::string recipe;                                  ///< where something is recomputed
  Bytes instance_bytes = 0;                            ///< of one micro-batch

  [[nodiscard]] std::int32_t moved() const { return recomputed + swapped; }
  /// Bytes taken off the device per step, one way.
  [[nodiscard]] Bytes moved_bytes() const { return instance_bytes * moved(); }
  [[nodiscard]] auto key() const { return std::tie(rank, storage, block, chunk, layer, gap); }
};

/// Decisions that move something, in the order of the plan.
[[nodiscard]] std::vector<NamedDecision> named_decisions(const PlanFile::Rank& rank);

/// `layer 3 chunk 0`, or the block's name outside layers.
[[nodiscard]] std::string place_text(const NamedDecision& decision);

/// `recompute 64`, `swap 60, keep 4`: actions by count of micro-batches.
[[nodiscard]] std::string action_text(const NamedDecision& decision);

}  // namespace tidemark::formats
