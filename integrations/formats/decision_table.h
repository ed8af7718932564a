#pragma once
// A plan as people ask about it: for every saved storage, what happens to it in each layer of each rank, what that
// frees where memory was tightest, and what it costs. Read from Plan, Graph and Liveness; nothing is decided here.

#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/graph.h"
#include "planner/planner.h"

namespace tidemark::formats {

/// One storage in one layer of one rank, all micro-batches.
struct DecisionCell {
  std::int32_t rank = 0;
  std::int32_t chunk = 0;
  std::int32_t layer = -1;
  std::string block;              ///< name of the block, tells what stands outside layers
  std::int32_t instances = 0;     ///< micro-batches
  std::int32_t kept = 0;          ///< of them, through all gaps
  std::int32_t recomputed = 0;    ///< behind some gap; another may be swapped
  std::int32_t swapped = 0;       ///< the same
  Bytes instance_bytes = 0;       ///< of one micro-batch
  Bytes freed_at_peak_bytes = 0;  ///< not held at the op where the rank peaks with everything kept
  std::int64_t added_ns = 0;  ///< modelled compute-lane time per step: recipes (shared by bytes between what comes back
                              ///< together), launches and memory bandwidth of copies
  [[nodiscard]] std::int32_t moved() const { return instances - kept; }
};

/// One storage name over all layers and ranks.
struct DecisionRow {
  std::string storage;                 ///< module path and name
  std::string recipe;                  ///< how it is rebuilt, where it is recomputed; empty: nowhere
  bool offloads = false;               ///< what is swapped rests in host memory from step to step
  std::vector<DecisionCell> cells;     ///< by rank, then chunk, then layer
  [[nodiscard]] bool decided() const;  ///< something is recomputed or swapped somewhere
  [[nodiscard]] Bytes freed_at_peak_bytes() const;
  [[nodiscard]] std::int64_t added_ns() const;
};

/// Storages saved for the backward pass and all that the plan moves, in the order a layer makes them.
[[nodiscard]] std::vector<DecisionRow> decision_rows(const plan::PlanRequest& request,
                                                     const plan::PlanOutcome& outcome);

}  // namespace tidemark::formats
