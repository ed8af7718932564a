#pragma once
// What live blocks of a pool hold, in pinned host memory, while the pool has no memory of its own.
//
// Cost: pinned memory for every byte in use, taken in pieces of kPieceBytes; one copy each way. Threads: none.

#include "allocator/block_pool.h"
#include "device/device.h"

namespace tidemark::allocator {

class KeptContents {
 public:
  static constexpr Bytes kPieceBytes =
      256 * kMiB;  ///< of pinned memory at once: registering holds a lock of the driver

  explicit KeptContents(Device& device) : device_(device) {}
  ~KeptContents();
  KeptContents(const KeptContents&) = delete;
  KeptContents& operator=(const KeptContents&) = delete;

  /// Copies every used range out, but for parts without memory, and waits for it. REQUIRES: the device is idle. On
  /// failure it holds nothing.
  [[nodiscard]] DeviceCode save(const MappedPool& pool);
  /// Copies back what is still used, to where it came from, and waits for it. May be tried again.
  [[nodiscard]] DeviceCode restore(const BlockPool& pool) const;
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  struct Piece {
    Bytes offset = 0;  ///< in the pool
    Bytes bytes = 0;
    Address host = 0;
  };
  [[nodiscard]] DeviceCode take_pinned(const MappedPool& pool);
  template <class Copy>
  [[nodiscard]] DeviceCode copy_all(StreamRole role, const Copy& copy) const;
  void release();

  Device& device_;
  Bytes bytes_ = 0;
  MetadataVector<Piece> pieces_;  ///< by offset
  MetadataVector<Address> pinned_;
};

}  // namespace tidemark::allocator
