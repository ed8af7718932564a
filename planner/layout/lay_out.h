#pragma once
// Residencies to items, items to addresses.

#include "core/layout.h"
#include "core/schedule.h"
#include "planner/layout/packer.h"

namespace tidemark {

/// Packs with the default packer. Low enough is within 1/1024 of the load, or within 1/64 of it where that still leaves
/// the height within `room_bytes`: a packing that fits need not be the lowest.
[[nodiscard]] PackAnswer pack_to_fit(const PackProblem& problem, Bytes room_bytes);

/// Lays out the residencies of a schedule: one device arena of `capacity_bytes`, one pinned host arena. The height may
/// exceed the capacity: the caller compares.
[[nodiscard]] Layout lay_out(const Schedule& schedule, Bytes capacity_bytes, Bytes host_capacity_bytes,
                             Bytes alignment);

}  // namespace tidemark
