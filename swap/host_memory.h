#pragma once
// Pinned memory of one rank: the host arenas of its Program and, beside them, blocks for what the Program gave no
// place. All of it comes from one pinned pool (allocator/pinned_pool.h) and stays below one bound.
//
// Pieces. An arena or a block is one piece of memory where the device and the pool have it. Where the device allows no
// piece so large (traits().largest_pinned_bytes), or what the pool has free lies apart, it is several: a copy can be
// cut anywhere, and costs a submission more for each cut. No piece is smaller than kHostPiece for that reason.
//
//   arena 0  | chunk ....................|            each arena in chunks of its own; what the bound leaves beside
//   arena 1  | chunk ......| chunk ..|                them is the size of the chunks that blocks share
//   blocks   | b0 | b1 |   | b0 |
//
// Memory is taken when it is asked for, the arenas at once. Threads: none. Cost: O(pieces) a call besides the pool's.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "allocator/pinned_pool.h"
#include "core/bytes.h"
#include "core/ids.h"
#include "device/device.h"
#include "swap/transfer_engine.h"

namespace tidemark::swap {

/// Bytes of a host arena.
struct HostPiece {
  ArenaId arena = kNone<ArenaId>;  ///< kNone: the Program gave no place
  Bytes offset = 0;
  Bytes bytes = 0;
  friend bool operator==(const HostPiece&, const HostPiece&) = default;
};

/// Pinned bytes, one piece behind the other; belongs to whom it was handed out until it is freed.
struct HostBlock {
  std::vector<allocator::PinnedBlock> pieces;
};

class HostMemory {
 public:
  explicit HostMemory(Device& device) : device_(device) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  /// What arenas of these sizes take of a bound.
  [[nodiscard]] static Bytes bytes_for(std::span<const Bytes> arenas);
  /// Takes the arenas, by ArenaId; 0 bytes: none. At most `bound_bytes` are ever held; bytes_for(arenas) is enough for
  /// them. out_of_memory: those that do not fit are not there, the others are, and blocks can be had. Once.
  [[nodiscard]] DeviceCode open(std::span<const Bytes> arenas, Bytes bound_bytes) {
    return open(arenas, bound_bytes, bound_bytes);
  }
  /// The same; `foreseen_bytes`: what of the bound is likely to be asked for, which is taken in pieces of that order.
  [[nodiscard]] DeviceCode open(std::span<const Bytes> arenas, Bytes bound_bytes, Bytes foreseen_bytes);
  [[nodiscard]] bool has(ArenaId arena) const { return !arenas_[row(arena)].pieces.empty(); }

  /// A block beside the arenas. out_of_memory: the bound, or the device. Waits for blocks freed behind a stream if they
  /// are in the way.
  [[nodiscard]] DeviceCode take(Bytes bytes, HostBlock& block);
  /// No work that uses the block is in flight.
  void free(const HostBlock& block);
  /// Free once everything submitted to `stream` so far is done. A failure is the device's; the block then holds what is
  /// still the caller's.
  [[nodiscard]] DeviceCode free_after(HostBlock& block, StreamHandle stream);

  /// Where the pieces, one behind the other, are contiguous in address. Valid until the next call. REQUIRES: has().
  [[nodiscard]] std::span<const HostRange> ranges_of(std::span<const HostPiece> pieces);
  [[nodiscard]] std::span<const HostRange> ranges_of(const HostBlock& block);

  [[nodiscard]] allocator::PinnedPoolStatistics statistics() const;
  /// What the device could not do as asked, each kind once.
  [[nodiscard]] const std::vector<allocator::PinnedReport>& reports() const { return reports_; }

 private:
  [[nodiscard]] DeviceCode take_piece(Bytes bytes, allocator::PinnedBlock& piece);
  /// The largest piece to try where one of `refused` bytes was not to be had; 0: none.
  [[nodiscard]] Bytes smaller_than(Bytes refused) const;
  void add_ranges(const HostBlock& block, Bytes offset, Bytes bytes);

  Device& device_;
  std::vector<allocator::PinnedReport> reports_;
  std::optional<allocator::PinnedPool> pool_;  ///< none: nothing was asked for
  Bytes largest_piece_ = 0;
  std::vector<HostBlock> arenas_;
  std::vector<HostRange> ranges_;  ///< of ranges_of()
};

}  // namespace tidemark::swap
