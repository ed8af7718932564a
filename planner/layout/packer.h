#pragma once
// Addresses for intervals: the seam behind which packers live, one a file. A packer sees numbers only.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/layout.h"
#include "core/schedule.h"

namespace tidemark {

/// A block of bytes needed on the half-open interval [begin, end) of some clock.
struct PackItem {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  Bytes bytes = 0;
};

struct Packing {
  std::vector<Bytes> offsets;  ///< per item, multiples of `alignment`
  Bytes height_bytes = 0;
};

/// Max over the clock of the bytes needed (rounded to alignment): no packing is lower.
[[nodiscard]] Bytes packing_load(std::span<const PackItem> items, Bytes alignment);

struct Packer {
  std::string_view name;
  std::string_view help;
  Packing (*pack)(std::span<const PackItem> items, Bytes alignment);
};

/// Every packer, in the order of planner/layout/files.cmake.
[[nodiscard]] std::span<const Packer> packers();

struct BestPacking {
  Packing packing;
  std::string_view packer;
  Bytes load_bytes = 0;  ///< packing_load of the items
};

/// The first packer in the table that comes close enough, or else the lowest of all results (ties: the first). Close
/// enough is within 1/1024 of the load, or within 1/64 of it where that still leaves the height within `room_bytes`:
/// a packing that fits need not be the lowest. Runs packers in parallel; the result does not depend on the thread
/// count.
[[nodiscard]] BestPacking pack_best(std::span<const PackItem> items, Bytes alignment, Bytes room_bytes = 0);

/// Lays out the residencies of a schedule: one device arena of `capacity_bytes`, one pinned host arena. The height may
/// exceed the capacity: the caller compares.
[[nodiscard]] Layout lay_out(const Schedule& schedule, Bytes capacity_bytes, Bytes host_capacity_bytes,
                             Bytes alignment);

}  // namespace tidemark
