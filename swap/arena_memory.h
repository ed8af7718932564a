#pragma once
// Device memory behind the arenas of one Layout, for as long as this object lives.
//
// Arenas of kind mapped: address space for the heights and the dynamic region is reserved, memory is mapped up
// to the height, rounded up to granules; granules of the region are mapped when first taken and kept. Without mapping,
// or for plain arenas: one allocation of the height, and of the region too if it may be needed. Host arenas are another
// object's (swap/host_memory.h).
//
// Bounded: what an arena's height (and, if asked for, its region) says, never more. Destroying gives everything back;
// the caller knows that nothing in flight touches it.

#include <memory>
#include <string>
#include <vector>

#include "allocator/mapped_range.h"
#include "core/bytes.h"
#include "core/ids.h"
#include "core/result.h"
#include "device/device.h"

namespace tidemark::swap {

/// What one arena needs, scaled; nothing, if it is none of device memory.
struct ArenaNeed {
  bool mapped = false;     ///< wanted; plain where the device cannot
  Bytes bytes = 0;         ///< [0, bytes) must be there
  Bytes region_begin = 0;  ///< dynamic region [region_begin, region_end), empty if none may be needed
  Bytes region_end = 0;
};

class ArenaMemory {
 public:
  explicit ArenaMemory(Device& device) : device_(device) {}
  ~ArenaMemory();
  ArenaMemory(const ArenaMemory&) = delete;
  ArenaMemory& operator=(const ArenaMemory&) = delete;

  /// Takes everything. Errors (infeasible): refused, in words that begin with `who`. What was taken stays until
  /// destruction.
  [[nodiscard]] Status take(const std::vector<ArenaNeed>& needs, const std::string& who);

  [[nodiscard]] Address at(ArenaId arena, Bytes offset) const {
    return arenas_[row(arena)].base + static_cast<Address>(offset);
  }

  [[nodiscard]] bool is_mapped(ArenaId arena) const { return arenas_[row(arena)].range != nullptr; }
  /// Memory behind [offset, offset + bytes), where there is none yet; kept.
  [[nodiscard]] DeviceCode map(ArenaId arena, Bytes offset, Bytes bytes) {
    allocator::MappedRange* range = arenas_[row(arena)].range.get();
    return range == nullptr ? DeviceCode::ok : range->map(offset, bytes);
  }

  [[nodiscard]] Bytes device_bytes() const;

 private:
  struct Backing {
    Address base = 0;
    std::unique_ptr<allocator::MappedRange> range;  ///< nullptr: one plain allocation
    Bytes plain_bytes = 0;
  };
  [[nodiscard]] DeviceCode take_mapped(const ArenaNeed& need, Backing& arena);
  [[nodiscard]] DeviceCode take_plain(const ArenaNeed& need, Backing& arena);

  Device& device_;
  std::vector<Backing> arenas_;
};

}  // namespace tidemark::swap
