#pragma once
// Memory behind the arenas of one Layout, for as long as this object lives.
//
// Device arenas of kind mapped: address space for the heights and the dynamic region is reserved, memory is mapped up
// to the height, rounded up to granules; granules of the region are mapped when first taken and kept. Without mapping,
// or for plain arenas: one allocation of the height, and of the region too if it may be needed. Pinned arenas: chunks
// no larger than traits().largest_pinned_bytes; a range may cross chunks and then has several pieces.
//
// Bounded: what an arena's height (and, if asked for, its region) says, never more. Destroying gives everything back;
// the caller knows that nothing in flight touches it.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/ids.h"
#include "core/result.h"
#include "device/device.h"
#include "swap/transfer_engine.h"

namespace tidemark::swap {

/// What one arena needs, scaled.
struct ArenaNeed {
  bool on_host = false;
  bool mapped = false;     ///< wanted; plain where the device cannot
  Bytes bytes = 0;         ///< [0, bytes) must be there
  Bytes region_begin = 0;  ///< dynamic region [region_begin, region_end), empty if none may be needed
  Bytes region_end = 0;
};

/// Bytes of a pinned arena.
struct HostPiece {
  ArenaId arena = kNone<ArenaId>;
  Bytes offset = 0;
  Bytes bytes = 0;
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

  /// Address of a byte. What begins there may be cut into ranges, in a pinned arena.
  [[nodiscard]] Address at(ArenaId arena, Bytes offset) const;
  /// Where the pieces, one behind the other, are contiguous in address. Valid until the next call.
  [[nodiscard]] std::span<const HostRange> ranges_of(std::span<const HostPiece> pieces);

  [[nodiscard]] bool is_mapped(ArenaId arena) const { return arenas_[row(arena)].reserved_bytes > 0; }
  /// Bytes from the base on that take() put memory behind: the need, tail pad included, rounded up to granules.
  [[nodiscard]] Bytes mapped_from_base(ArenaId arena) const {
    const std::vector<Mapped>& mapped = arenas_[row(arena)].mapped;
    return mapped.empty() || mapped.front().offset != 0 ? 0 : mapped.front().bytes;
  }
  /// Memory behind [offset, offset + bytes) of the dynamic region; kept. REQUIRES: is_mapped, whole granules.
  [[nodiscard]] DeviceCode map_region(ArenaId arena, Bytes offset, Bytes bytes);

  /// What the device says of the pinned chunks; the worst of each.
  [[nodiscard]] PinnedFacts pinned_facts() const;

  [[nodiscard]] Bytes device_bytes() const { return device_bytes_; }
  [[nodiscard]] Bytes pinned_bytes() const { return pinned_bytes_; }

 private:
  struct Mapped {
    Bytes offset = 0, bytes = 0;
  };
  struct Chunks {
    Address base = 0;          ///< device arenas
    Bytes reserved_bytes = 0;  ///< mapped arenas: of address space
    std::vector<Mapped> mapped;
    Bytes chunk_bytes = 0;  ///< pinned: of every chunk but the last
    std::vector<Address> chunks;
  };
  DeviceCode take_mapped(const ArenaNeed& need, Chunks& arena);
  DeviceCode take_plain(const ArenaNeed& need, Chunks& arena);
  DeviceCode take_pinned(const ArenaNeed& need, Chunks& arena);

  Device& device_;
  std::vector<Chunks> arenas_;
  std::vector<bool> on_host_;
  std::vector<HostRange> ranges_;  ///< of ranges_of()
  Bytes device_bytes_ = 0, pinned_bytes_ = 0;
};

}  // namespace tidemark::swap
