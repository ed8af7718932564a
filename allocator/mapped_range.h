#pragma once
// Address space of which granules get memory when they are first needed, and keep it: what stands behind an arena whose
// height is known, and behind what may grow above it. Where memory also moves between granules and goes back while the
// range lives, a MappedPool (allocator/block_pool.h) has it in its books of blocks.
//
// Cost: a bit of host memory a granule. Threads: none.

#include <vector>

#include "core/bytes.h"
#include "device/device.h"

namespace tidemark::allocator {

class MappedRange {
 public:
  /// REQUIRES: traits().mapping. The device must outlive the range.
  explicit MappedRange(Device& device) : device_(device), granule_(device.traits().granule_bytes) {}
  /// Gives memory and addresses back; nothing that touches them is in flight.
  ~MappedRange();
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

  /// Addresses for `bytes`, without memory. Once.
  [[nodiscard]] DeviceCode reserve(Bytes bytes);
  /// Memory behind every granule that [offset, offset + bytes) touches. On failure some may have got it; they keep it.
  /// REQUIRES: inside what is reserved.
  [[nodiscard]] DeviceCode map(Bytes offset, Bytes bytes);

  [[nodiscard]] Address base() const { return base_; }
  [[nodiscard]] Bytes mapped_bytes() const { return mapped_bytes_; }

 private:
  /// The granule behind the unbroken run that begins at `first`: all with memory, or all without.
  [[nodiscard]] std::size_t end_of_run(std::size_t first, std::size_t end) const;
  [[nodiscard]] Address address_of(std::size_t granule) const {
    return base_ + static_cast<Address>(static_cast<Bytes>(granule) * granule_);
  }

  Device& device_;
  const Bytes granule_;
  Address base_ = 0;
  std::vector<bool> has_memory_;  ///< per granule
  Bytes mapped_bytes_ = 0;
};

}  // namespace tidemark::allocator
