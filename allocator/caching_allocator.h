#pragma once
// The caching allocator: device memory in stream order, for a framework without a plan or beside one.
//
// Where blocks live. Every thread works on a shard: a lock, a space of its own and the memory behind it. On a device
// that maps, a shard reserves one address range much larger than the memory and 2 MiB granules are put behind the parts
// in use: all streams and sizes share granules, a block that fits nowhere gets fresh addresses and only the granules it
// misses. Peak reserved therefore follows peak live. What is left over in granules shared with live blocks is stitched
// where the device can alias: a large block gets an address window over free granule ends (stitching.h). Without
// mapping, and for allocate_plain(), blocks are cut from plain segments. A shard that has no room grows while all
// shards together have reserved no more than the peak of live blocks and a slack; beyond that it borrows from others,
// while much is free there. At the limit, idle memory of other shards is released to the device. Why:
// docs/design/allocator.md.
//
// When a block may be reused. A freed block dies at (stream, epoch) of the stream it was freed on and of every stream
// noted by note_use(). It is reused on the same stream at once, on another as soon as the StreamOrder says that stream
// runs after all deaths or the host has seen them complete, and never before. Blocks with more than one death are
// parked until that is known. Nothing is polled: the allocator looks again only when the order has changed, and records
// an event of its own only when nothing fits.
//
// Fast path. A thread takes its shard's lock, then a block from last-in-first-out lists by stream and exact rounded
// size up to StreamLists::kMostBytes, or the larger block freed last, or cuts one from free ranges of its space; the
// same then in the shard where it last found room when its own had none. No device call, no event, no map or remap.
// Blocks return to the shard whose space they lie in; one that another thread frees goes there over a lock-free stack
// (shard.h). Threads meet at that stack, where a shard lacks credit for its peaks (peak_credit.h: two at a time, all
// where a peak is set; peaks are exact), in a space that one borrows from, and where one grows.
//
// When nothing fits, in order: the shard's lists are emptied into its space and all free ranges looked at, those of
// other streams too, where these are in order. Within the slack, new granules are mapped then. Beyond it the other
// shards are searched, if much is free; own events are recorded and asked, and the search is repeated; idle granules
// are moved, or new ones mapped. At the limit, or when the device refuses, all shards are searched and may grow, idle
// memory of the others is released, and *pending blocks are waited for* (by the host, or by the requesting stream where
// the options say so), searching again after each. Only then out_of_memory, with a report.
//
// Errors: DeviceCode as in device.h; out_of_memory leaves everything as it was. `invalid` for an address that is not a
// live block: a bug of the caller, but no harm done. A second free of an address is such a bug as long as no new block
// starts there; it then frees that one, as in any allocator. no_resource also where the host has no memory left for the
// allocator's own records, or more than StreamOrder::kMaxStreams streams are alive; the call has done nothing then, a
// block that was to be freed is still live. last_error() has the text, which tells the two apart.
//
// Threads: everything may be called from any thread, and the process may fork at any time: the child finds every block
// live or free, as far as its device can be used there (device.h). The slow path records events of its own on streams
// of other threads, which device.h allows. The device is waited for without a lock. The StreamOrder is shared with
// whoever records and waits; frees follow the work they end, records follow note_record.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "allocator/snapshot.h"
#include "allocator/statistics.h"
#include "allocator/stream_order.h"
#include "core/bytes.h"
#include "core/result.h"
#include "device/device.h"

namespace tidemark::allocator {

/// How an allocation at the limit gets at blocks that are freed but still in use by the device.
enum class PendingWait : std::uint8_t {
  host,    ///< the calling thread waits for the event
  stream,  ///< the requesting stream waits; the caller goes on. An allocation is a call on that stream, then (device.h)
};

struct OutOfMemory {
  struct Holder {
    std::string name;  ///< from AllocatorOptions::owner_name, or "owner N"
    std::uint32_t owner = 0;
    StreamHandle stream = {};
    Bytes block_bytes = 0;  ///< size of one block
    std::int64_t count = 0;
    Bytes bytes = 0;
  };
  Bytes requested_bytes = 0;
  StreamHandle stream = {};
  Bytes limit_bytes = 0;
  Bytes granule_bytes = 1;  ///< memory is reserved in multiples of it
  Bytes device_total_bytes = 0;
  Bytes device_free_bytes = 0;
  Bytes allocated_bytes = 0;  ///< blocks in callers' hands
  Bytes pending_bytes = 0;    ///< freed, not yet reusable
  Bytes cached_bytes = 0;     ///< reserved, free
  Bytes reserved_bytes = 0;
  Bytes largest_free_bytes = 0;             ///< largest free range with memory behind it
  Bytes foreign_bytes = 0;                  ///< device memory in use that is not reserved here
  DeviceCode device_code = DeviceCode::ok;  ///< the device's last answer; ok if our own limit refused
  std::vector<Holder> holders;              ///< largest sums by owner, size and stream first, at most 8
  /// One paragraph for a person: who holds the memory and what would help.
  [[nodiscard]] std::string text() const;
};

struct AllocatorOptions {
  static constexpr std::size_t kMostShards = 4096;

  Bytes limit_bytes = 0;          ///< most that may be reserved; 0: what the device has
  Bytes address_space_bytes = 0;  ///< range that a shard reserves; 0: eight times the device's memory, less for many
  Bytes unit_bytes = 512;         ///< blocks are multiples of it (and of the device's alignment); a power of two
  Bytes front_cache_bytes = 16 * kMiB;  ///< a shard keeps at most this in its lists of freed blocks
  Bytes growth_slack_bytes = 0;         ///< reserve this much beyond the live peak before idle granules are moved; 0:
                                        ///< 1/256 of the peak, or up to four granules a thread (one for the first)
                                        ///< where that is more; up to half the peak where moves go on and on
  std::size_t shards = 16;              ///< rounded up to a power of two; at least the number of threads that allocate
                                        ///< at once, ideally
  double garbage_threshold = 0;  ///< in (0, 1): above this part of the limit, idle granules move before new ones come
  PendingWait pending_wait = PendingWait::host;
  std::size_t trace_entries = 0;  ///< length of the history ring; 0: no history
  int device_index = 0;           ///< for snapshots only
  /// Called in the report only, no lock held. May ask the allocator for statistics and snapshots and may free; an
  /// allocation that fails would ask for names again. Where it throws, the name is "owner N".
  std::function<std::string(std::uint32_t)> owner_name;
  /// Called before out_of_memory is returned, no lock held. May call the allocator; what it throws is dropped.
  std::function<void(const OutOfMemory&)> on_out_of_memory;
};

/// Error (bad_input): the first option that no allocator on such a device can work with, and what would be right.
[[nodiscard]] Status check_options(const AllocatorOptions& options, const DeviceTraits& traits);

class CachingAllocator {
 public:
  /// `device` and `order` are borrowed until destruction. Nothing is reserved before the first allocation. Options that
  /// check_options() refuses make an allocator that refuses every allocation (`invalid`) with the same text.
  CachingAllocator(Device& device, StreamOrder& order, AllocatorOptions options = {});
  /// Waits for the device if blocks were ever handed out, then releases everything, live blocks included.
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// `bytes` usable bytes for work of `stream`, aligned to the unit and followed by the device's tail pad. 0 bytes are
  /// served as one unit. `owner` is any number the report groups by.
  [[nodiscard]] DeviceCode allocate(Bytes bytes, StreamHandle stream, Address& address, std::uint32_t owner = 0);
  /// The same from plain segments: for buffers that collectives or RDMA export.
  [[nodiscard]] DeviceCode allocate_plain(Bytes bytes, StreamHandle stream, Address& address, std::uint32_t owner = 0);
  /// The same as allocate(), for a caller that hands the block out in parts: it counts as reserved, but as allocated
  /// count the parts alone. Each is counted when it is handed out, and discounted with the same bytes when it comes
  /// back.
  [[nodiscard]] DeviceCode allocate_lent(Bytes bytes, StreamHandle stream, Address& address);
  void count_part(Bytes bytes);
  void discount_part(Bytes bytes);
  /// The memory behind [offset, offset + bytes) of a lent block goes back to the device; the addresses stay the
  /// block's. Returns the bytes gone: 0 where that is not made of whole granules with memory, for plain and stitched
  /// blocks, and while suspended. REQUIRES: nothing in flight touches it, and nothing will until map_part() is `ok`.
  Bytes unmap_part(Address block, Bytes offset, Bytes bytes);
  /// Memory there again, within the limit, for which idle memory goes back to the device, also what is idle once the
  /// device has been waited for. `mapped`: bytes that have it, all where `ok`; the rest is a part of its own from then
  /// on, which begins behind them. invalid: no such block, or suspended. REQUIRES: a part as unmap_part() was given it.
  [[nodiscard]] DeviceCode map_part(Address block, Bytes offset, Bytes bytes, Bytes& mapped);
  /// Frees a block, after the work submitted so far to its stream and to every stream noted. Both kinds.
  DeviceCode free(Address address);
  /// The same, but its last use on its own stream is over or ordered before what was submitted to `stream` so far.
  DeviceCode free(Address address, StreamHandle stream);
  /// Work of `stream` uses the block too (record_stream).
  DeviceCode note_use(Address address, StreamHandle stream);

  /// Rounded size of a live block; 0 if there is none at `address`. Exact starts only.
  [[nodiscard]] Bytes block_bytes(Address address) const;
  /// The size a request takes: unit and tail pad included.
  [[nodiscard]] Bytes rounded_bytes(Bytes bytes) const;

  void set_limit(Bytes bytes);
  /// Releases idle memory to the device until at most `keep_bytes` are reserved. Does not wait. Returns the bytes
  /// released.
  Bytes trim(Bytes keep_bytes = 0);
  /// Waits for the device first, so that all free memory is idle.
  Bytes empty_cache();
  /// Gathers idle granules until one free range of `bytes` (0: of all of them) has memory behind it, without asking the
  /// device for more. Off the hot path. Returns the bytes of the range made ready, 0 where nothing could be gathered.
  Bytes defragment(StreamHandle stream, Bytes bytes = 0);

  /// What becomes of the bytes of live blocks while the allocator is suspended.
  enum class Contents : std::uint8_t {
    drop,  ///< unspecified after resume()
    keep,  ///< saved to pinned host memory, and back again
  };
  /// Releases all mapped memory to the device, that of live blocks included; every block keeps its address, and nothing
  /// may touch it until resume(). Waits for the device. Meanwhile allocations are refused (`invalid`) and frees are
  /// accepted. Plain blocks keep their memory. `ok` also where it is suspended already. `unsupported`: the device does
  /// not map. On any other failure (no pinned memory for the contents) live blocks keep theirs.
  [[nodiscard]] DeviceCode suspend(Contents contents = Contents::drop);
  /// Maps memory at the same addresses, for what is still live. `ok` also where it is not suspended. out_of_memory and
  /// every other failure leave it suspended, whole: it may be tried again.
  [[nodiscard]] DeviceCode resume();
  [[nodiscard]] bool suspended() const;
  /// Pinned host memory that holds contents meanwhile.
  [[nodiscard]] Bytes kept_bytes() const;

  [[nodiscard]] AllocatorStatistics statistics() const;
  void reset_peaks();
  [[nodiscard]] Snapshot snapshot() const;
  /// Of the calling thread's last failed call on any allocator.
  [[nodiscard]] const std::string& last_error() const;
  [[nodiscard]] OutOfMemory report() const;
  /// Checks every internal invariant (slow); empty if all is well.
  [[nodiscard]] std::string validate() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tidemark::allocator
