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

#include "allocator/pinned_pool.h"
#include "core/layout.h"
#include "device/device.h"
#include "swap/planned_host.h"
#include "swap/stream_set.h"
#include "swap/transfer_engine.h"

namespace tidemark::swap {

/// Where a framework issues its work: a stream of the device, or nothing: the calling thread.
using FrameworkStream = std::optional<StreamHandle>;

/// Where the Program has a copy out go.
struct HostPlace {
  ArenaId arena = kNone<ArenaId>;
  Bytes offset = 0;
};

/// What is in host memory, or on its way there.
struct HostCopy {
  allocator::PinnedBlock block;    ///< where it is
  std::optional<HostPlace> place;  ///< as the Program says; else a block of the pool's own
  EventHandle out{};               ///< behind the copy out
  bool is_settled = false;         ///< some compute waits for `out` already
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
  /// `host_bytes`: at most so much pinned memory, of which the Program's arenas are the first.
  FollowedCopies(Device& device, Bytes host_bytes);
  FollowedCopies(const FollowedCopies&) = delete;
  FollowedCopies& operator=(const FollowedCopies&) = delete;

  /// Streams, and the host arenas of the layout. Those that the device has not the memory for are done without: what
  /// is copied out goes where there is room.
  [[nodiscard]] DeviceCode open(const Layout& layout);
  [[nodiscard]] Device& device() { return streams_.device(); }

  /// Begins a copy out behind what `compute` has been given so far. out_of_memory: no pinned memory is left, nothing is
  /// changed.
  [[nodiscard]] DeviceCode begin_out(Address from, Bytes bytes, HostPlace place, FrameworkStream compute,
                                     std::int64_t id, std::optional<HostCopy>& copy);
  /// What `compute` is given from now on comes behind the copy out.
  [[nodiscard]] DeviceCode settle_out(HostCopy& copy, FrameworkStream compute);
  /// Begins a copy in, behind the copy out and what `compute` has been given so far. `in`: to be settled once.
  [[nodiscard]] DeviceCode begin_in(Address to, const HostCopy& copy, FrameworkStream compute, std::int64_t id,
                                    EventHandle& in);
  [[nodiscard]] DeviceCode settle_in(EventHandle in, Bytes bytes, FrameworkStream compute);
  /// The host memory is free again once no copy that was begun uses it.
  [[nodiscard]] DeviceCode forget(std::optional<HostCopy>& copy);

  [[nodiscard]] const CopyFigures& out() const { return transfers_.out(); }
  [[nodiscard]] const CopyFigures& in() const { return transfers_.in(); }
  [[nodiscard]] const CopyWaits& waits() const { return waits_; }
  [[nodiscard]] allocator::PinnedPoolStatistics pinned() const { return pool_.statistics(); }

 private:
  [[nodiscard]] DeviceCode take_pinned(Bytes bytes, allocator::PinnedBlock& block);
  /// In its place, if that is free, else in the pool.
  [[nodiscard]] DeviceCode take_host(Bytes bytes, HostPlace place, HostCopy& copy);
  [[nodiscard]] DeviceCode follow(FrameworkStream compute, StreamRole role);
  [[nodiscard]] DeviceCode join(EventHandle event, Bytes bytes, FrameworkStream compute);

  struct HostArena {
    allocator::PinnedBlock block;
    PlannedHost parts;
  };
  allocator::PinnedPool pool_;
  std::vector<HostArena> arenas_;  ///< per arena of the layout; an address of 0: none
  StreamSet streams_;              ///< gone first: their work uses the pool
  TransferEngine transfers_;
  CopyWaits waits_;
};

}  // namespace tidemark::swap
