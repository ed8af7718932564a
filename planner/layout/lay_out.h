#pragma once
// Residencies to items, items to addresses.

#include <functional>
#include <vector>

#include "core/layout.h"
#include "core/schedule.h"

namespace tidemark::layout {

/// Where the residencies of a schedule may lie.
struct LayoutRequest {
  /// Space, kind, capacity and alignment; what else stands in them is overwritten. The first of each space takes what
  /// `arena_of` does not send elsewhere.
  std::vector<Arena> arenas;
  /// Row of `arenas`, of the residency's space; empty: the first of its space.
  std::function<std::size_t(ResidencyId)> arena_of;
  std::int64_t work = 0;              ///< for each arena
  bool is_brief = false;              ///< the two orders that win most often, once
  std::function<bool()> should_stop;  ///< PackLimits
};

/// One mapped device arena and one pinned host arena, of one alignment.
[[nodiscard]] std::vector<Arena> device_and_host(Bytes capacity_bytes, Bytes host_capacity_bytes, Bytes alignment);

/// Packs each arena on its own; what lives all step lies lowest, and above it what the step makes and leaves behind,
/// where that costs no height. A height may exceed the capacity: the caller compares. Low enough, so that no other
/// order is tried, is what lies within 1/1024 of the bytes alive, or within 1/54 where that fits the capacity: a layout
/// that fits need not be the lowest. A brief one counts what lives all step among them, and is content with 1/54 where
/// nothing fits. With a capacity of 0 as little as can be is asked for.
/// `device_load_bytes` and `packer` are those of the first arena. REQUIRES: an arena of every space that is used.
[[nodiscard]] Layout lay_out(const Schedule& schedule, const LayoutRequest& request);
[[nodiscard]] Layout lay_out(const Schedule& schedule, Bytes capacity_bytes, Bytes host_capacity_bytes,
                             Bytes alignment);

}  // namespace tidemark::layout
