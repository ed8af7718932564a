#pragma once
// Residencies to items, items to addresses.

#include <functional>
#include <vector>

#include "core/layout.h"
#include "core/schedule.h"
#include "planner/layout/packer.h"

namespace tidemark::layout {

/// Packs with the default packer: the orders, and for `work` (PackLimits) on top where none is low enough. Low enough
/// is within 1/1024 of the load, or within 1/64 of it where that still leaves the height within `room_bytes`: a packing
/// that fits need not be the lowest.
[[nodiscard]] PackAnswer pack_to_fit(const PackProblem& problem, Bytes room_bytes, std::int64_t work = 0,
                                     const std::function<bool()>& should_stop = {});

/// Where the residencies of a schedule may lie.
struct LayoutRequest {
  /// Space, kind, capacity and alignment; what else stands in them is overwritten. The first of each space takes what
  /// `arena_of` does not send elsewhere.
  std::vector<Arena> arenas;
  /// Row of `arenas`, of the residency's space; empty: the first of its space.
  std::function<std::size_t(ResidencyId)> arena_of;
  std::int64_t work = 0;              ///< for each arena
  std::function<bool()> should_stop;  ///< PackLimits
};

/// One mapped device arena and one pinned host arena, of one alignment.
[[nodiscard]] std::vector<Arena> device_and_host(Bytes capacity_bytes, Bytes host_capacity_bytes, Bytes alignment);

/// Packs each arena on its own; what lives all step lies lowest, and above it what the step makes and leaves behind,
/// where that costs no height. A height may exceed the capacity: the caller compares.
/// `device_load_bytes` and `packer` are those of the first arena. REQUIRES: an arena of every space that is used.
[[nodiscard]] Layout lay_out(const Schedule& schedule, const LayoutRequest& request);
[[nodiscard]] Layout lay_out(const Schedule& schedule, Bytes capacity_bytes, Bytes host_capacity_bytes,
                             Bytes alignment);

}  // namespace tidemark::layout
