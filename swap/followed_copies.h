#pragma once
// Copies of a followed step: between blocks of a framework and pinned host memory, on streams of their own, ordered by
// events against the framework's stream.
//
//   compute    ... writes X | ......................... | may reuse X's bytes ... | room for X | ........ | reads X
//   d2h                     '- follows -> X out -> E1 --' waits for E1                         |          |
//   h2d                                    '- follows E1 ----------------------------- follows '-> X in --' waits
//
// The framework's stream is one of the device's, or the calling thread itself, as on a CPU: what it has done is done,
// and its waits block. Threads: none, as its session.

#include <cstdint>
#include <optional>
#include <vector>

#include "device/device.h"
#include "swap/host_memory.h"
#include "swap/planned_host.h"
#include "swap/stream_set.h"
#include "swap/transfer_engine.h"

namespace tidemark::swap {

/// Where a framework issues its work: a stream of the device, or nothing: the calling thread.
using FrameworkStream = std::optional<StreamHandle>;

/// What is in host memory, or on its way there.
struct HostCopy {
  [[nodiscard]] bool has_memory() const { return place.arena != kNone<ArenaId> || !block.pieces.empty(); }

  HostPiece place;          ///< where the Program says; arena kNone: in the block
  HostBlock block;          ///< beside the arenas
  EventHandle out{};        ///< behind the copy out
  bool is_settled = false;  ///< some compute waits for `out` already
};

/// Waits of compute for copies.
struct CopyWaits {
  std::int64_t waits = 0;  ///< for copies in and out
  Bytes bytes = 0;         ///< of these copies
  std::int64_t late = 0;   ///< calling thread: the copy was under way yet
  Bytes late_bytes = 0;
  std::int64_t waited_ns = 0;  ///< calling thread: measured
};

class FollowedCopies {
 public:
  explicit FollowedCopies(Device& device);
  FollowedCopies(const FollowedCopies&) = delete;
  FollowedCopies& operator=(const FollowedCopies&) = delete;

  /// Streams, and pinned memory: HostMemory::open(). Arenas that there is no memory for are done without: what is
  /// copied out goes where there is room.
  [[nodiscard]] DeviceCode open(std::span<const Bytes> arenas, Bytes bound_bytes, Bytes foreseen_bytes);
  [[nodiscard]] Device& device() { return streams_.device(); }
  /// Of its own.
  [[nodiscard]] std::int64_t streams() const { return streams_.count(); }

  // What fails to begin leaves nothing under way, and holds no host memory.

  /// Begins a copy out behind what `compute` has been given so far. `place`: its bytes, and where the Program has them
  /// go. out_of_memory: no pinned memory is left.
  [[nodiscard]] DeviceCode begin_out(Address from, HostPiece place, FrameworkStream compute, std::int64_t id,
                                     std::optional<HostCopy>& copy);
  /// What `compute` is given from now on comes behind the copy out.
  [[nodiscard]] DeviceCode settle_out(HostCopy& copy, FrameworkStream compute);
  /// Begins a copy in, behind the copy out and what `compute` has been given so far. `in`: to be settled once.
  [[nodiscard]] DeviceCode begin_in(Address to, const HostCopy& copy, FrameworkStream compute, std::int64_t id,
                                    EventHandle& in);
  [[nodiscard]] DeviceCode settle_in(EventHandle in, Bytes bytes, FrameworkStream compute);
  /// The host memory is free again once no copy that was begun uses it.
  void forget(HostCopy& copy);
  /// Waits on the host for all copies: where no stream can be made to.
  void drain() { static_cast<void>(device().synchronize_device()); }

  [[nodiscard]] const CopyFigures& out() const { return transfers_.out(); }
  [[nodiscard]] const CopyFigures& in() const { return transfers_.in(); }
  [[nodiscard]] const CopyWaits& waits() const { return waits_; }
  [[nodiscard]] allocator::PinnedPoolStatistics pinned() const { return host_.statistics(); }
  [[nodiscard]] const std::vector<allocator::PinnedReport>& pinned_reports() const { return host_.reports(); }

 private:
  /// In its place, if that is free, else beside the arenas.
  [[nodiscard]] DeviceCode take_host(HostPiece place, HostCopy& copy);
  [[nodiscard]] std::span<const HostRange> ranges_of(const HostCopy& copy);
  [[nodiscard]] DeviceCode free_behind_copies(HostCopy& copy);
  /// Drains, and the host memory is free.
  void free_at_once(const HostCopy& copy);
  [[nodiscard]] DeviceCode follow(FrameworkStream compute, StreamRole role);
  [[nodiscard]] DeviceCode join(EventHandle event, Bytes bytes, FrameworkStream compute);

  HostMemory host_;
  PlannedHost parts_;  ///< of its arenas
  StreamSet streams_;  ///< gone first: their work uses the memory
  TransferEngine transfers_;
  CopyWaits waits_;
};

}  // namespace tidemark::swap
