#pragma once
// The seam to the outside world: memory, streams, events, copies and launches of one accelerator. Everything above it
// (allocator/, swap/) is written once; a back end is one implementation of this class that passes tests/conformance.
//
// Model. The host submits work to *streams*; work of one stream runs in submission order; streams are ordered only by
// events. Nothing here blocks the calling thread except the calls named synchronize_*, and those that a back end must
// block in (said in its own header). Addresses are numbers: on `sim` they have no bytes behind them.
//
// Memory comes in three kinds:
//   mapped  reserve() takes address space, map() puts memory behind whole granules of it, unmap() takes it away again.
//           Each granule is its own physical piece: any granule-aligned part of what was mapped may be unmapped,
//           aliased or remapped. Memory is accessible as soon as map() returns.
//   plain   allocate_plain(): one allocation that may be exported to collectives or RDMA (no virtual-memory mapping).
//   pinned  allocate_pinned(): host memory that copies can reach asynchronously.
// Giving memory back is immediate on every back end (ACL's rule, the stricter one): the caller must know that nothing
// in flight touches it. `sim` reports a race where that is violated.
//
// Events follow the common ground of CUDA and ACL's extended events: an event may be recorded again; a wait refers to
// the latest record at the time of the call; an event never recorded counts as complete; once every wait on a record
// has been submitted the event may be recorded anew.
//
// Threads: calls may come from any thread; calls on the same stream or event must not overlap, except query_event().
// One more exception, on the stream's side: record_event() of an event that only the caller uses may overlap with other
// threads' calls on the stream. The event then covers at least what had been submitted before the call began.
// Errors: DeviceCode; last_error() has the text. What fails has changed nothing and may be tried again.
// Lost: from then on every call answers `lost`, but for those that give back (unmap, release, free_plain, free_pinned,
// destroy_stream, destroy_event): they wait for what still runs and answer ok whatever the hardware says, so that
// everything can be given back. The call that finds the device lost answers `lost` itself and is to be repeated, if it
// was one of these.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/bytes.h"
#include "core/graph.h"

namespace tidemark {

/// A byte address in the device's or the pinned host's address space; 0 is none. The two spaces do not overlap.
using Address = std::uint64_t;

enum class StreamHandle : std::uint64_t {
};  ///< for cuda and ascend, the vendor's stream itself; 0 is its default stream
enum class EventHandle : std::uint64_t {};

enum class DeviceCode : std::uint8_t {
  ok,
  not_ready,      ///< query_event: not complete; synchronize_*: the timeout passed
  out_of_memory,  ///< recoverable: give memory back and try again
  no_resource,    ///< recoverable: no event, stream or task slot left
  unsupported,    ///< this back end or this hardware cannot; see DeviceTraits
  invalid,        ///< wrong argument: a bug of the caller
  copy_failed,    ///< a copy or launch did not take place; the bytes it would have written are unspecified
  lost,           ///< sticky: the device is gone
};
[[nodiscard]] const char* name_of(DeviceCode code);

/// Can the caller go on after giving something back?
[[nodiscard]] constexpr bool is_recoverable(DeviceCode code) {
  return code == DeviceCode::out_of_memory || code == DeviceCode::no_resource;
}

/// What a back end can and what its numbers mean. Constant over the life of a Device.
struct DeviceTraits {
  std::string name;              ///< "sim", "host", "cuda", "ascend", "null"
  std::string product;           ///< what the driver calls it, or what is simulated
  bool simulated = false;        ///< times are virtual: every figure from it must be labelled so
  bool has_bytes = true;         ///< false: addresses have no memory behind them
  bool mapping = false;          ///< reserve, map, unmap, remap
  bool aliasing = false;         ///< alias()
  bool host_register = false;    ///< pinned memory is registered pages (placed on a NUMA node), not a vendor allocation
  bool messages = false;         ///< launches with a Message are matched with other ranks
  Bytes granule_bytes = 0;       ///< unit of mapping
  Bytes alignment_bytes = 1;     ///< every block an allocator hands out starts at a multiple of this
  Bytes tail_pad_bytes = 0;      ///< readable bytes an allocator must leave behind every block (ACL: 32)
  std::int64_t event_limit = 0;  ///< 0: practically unlimited
  Bytes largest_pinned_bytes = 0;  ///< of one allocate_pinned(); 0: no limit known
  int numa_node = -1;              ///< the node the device hangs on; -1: unknown or only one
};

struct MemoryInfo {
  Bytes total_bytes = 0;
  Bytes free_bytes = 0;
  std::string limit;  ///< where free_bytes comes from, if not from the device: "limit of memory group /sys/fs/cgroup/x"
};

enum class CopyKind : std::uint8_t { device_to_host, host_to_device, device_to_device };

/// What a stream is for: back ends choose engines, priorities and simulated rates by it.
enum class StreamRole : std::uint8_t { compute, intra_comm, inter_comm, send, receive, d2h, h2d };
inline constexpr std::size_t kStreamRoleCount = 7;

/// Bytes a launch touches. With Work::verify, a read checks that they hold pattern(seed) from `place` on, a write fills
/// them with it (device/pattern.h); otherwise both are ignored.
struct Touch {
  Address address = 0;
  Bytes bytes = 0;
  AccessKind kind = AccessKind::read;
  std::uint64_t seed = 0;
  Bytes place = 0;  ///< of the first byte in the pattern, a multiple of 8: part of a storage, where it is not 0
};

/// A launch that stands for one end of a message between pipeline ranks.
struct WorkMessage {
  std::int32_t peer_rank = -1;  ///< -1: no message
  std::int64_t tag = 0;
  bool is_send = false;
};

/// As the id of a copy: made ahead of the step or behind it, so that no simulated time passes.
inline constexpr std::int64_t kOutsideStep = -2;

/// One kernel, as far as memory and time are concerned. `sim` lets estimate_ns pass; `host` and `cuda` work on the
/// bytes (verify) and take estimate_ns only if they were opened to do so.
struct Work {
  std::int64_t id = -1;  ///< the caller's name for it: appears in race and mismatch reports (a TaskId, usually)
  std::int64_t estimate_ns = 0;
  std::span<const Touch> touches;  ///< valid during the call only
  WorkMessage message;
  bool verify = false;
};

/// A read that did not find what was written there.
struct Mismatch {
  std::int64_t work_id = -1;
  Address address = 0;
  Bytes bytes = 0;
  std::uint64_t expected_seed = 0;
};

/// How a piece of pinned memory came out. What is missing costs bandwidth or overlap without failing: report it loudly.
struct PinnedFacts {
  bool registered = true;   ///< copies reach it asynchronously; false: pageable, copies block
  bool numa_bound = true;   ///< on the node asked for, or none was asked for
  bool huge_pages = true;   ///< in huge pages as far as whole ones fit, or the back end does not say
  bool locked = true;       ///< cannot be swapped out, or the back end does not say
  std::string explanation;  ///< why something is missing; empty if nothing is
};

class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] virtual const DeviceTraits& traits() const = 0;
  /// Text of the calling thread's last failure on this device; empty if there was none.
  [[nodiscard]] virtual std::string last_error() const = 0;
  [[nodiscard]] virtual DeviceCode memory_info(MemoryInfo& info) = 0;

  // Mapped memory. `bytes` and addresses are multiples of granule_bytes.
  [[nodiscard]] virtual DeviceCode reserve(Bytes bytes, Address& base) = 0;
  /// REQUIRES: nothing mapped in it.
  [[nodiscard]] virtual DeviceCode release(Address base, Bytes bytes) = 0;
  /// New memory behind [at, at + bytes). All or nothing.
  [[nodiscard]] virtual DeviceCode map(Address at, Bytes bytes) = 0;
  /// Memory that has no other address left goes back to the device.
  [[nodiscard]] virtual DeviceCode unmap(Address at, Bytes bytes) = 0;
  /// The memory behind [source, source + bytes) appears at [at, at + bytes) as well. Needs traits().aliasing.
  [[nodiscard]] virtual DeviceCode alias(Address at, Address source, Bytes bytes) = 0;
  /// The memory behind [source, source + bytes) moves to [at, at + bytes); contents are kept.
  [[nodiscard]] virtual DeviceCode remap(Address at, Address source, Bytes bytes) = 0;

  [[nodiscard]] virtual DeviceCode allocate_plain(Bytes bytes, Address& address) = 0;
  [[nodiscard]] virtual DeviceCode free_plain(Address address) = 0;

  /// Pinned host memory, page aligned, placed on traits().numa_node where that is known, already touched. Slow: runs
  /// off the hot path.
  [[nodiscard]] virtual DeviceCode allocate_pinned(Bytes bytes, Address& address) = 0;
  [[nodiscard]] virtual DeviceCode free_pinned(Address address) = 0;
  /// What allocate_pinned() could not do as asked for the allocation that starts at `address`.
  [[nodiscard]] virtual PinnedFacts pinned_facts(Address address) {
    static_cast<void>(address);
    return {};
  }

  [[nodiscard]] virtual DeviceCode create_stream(StreamRole role, StreamHandle& stream) = 0;
  /// Waits for the work on it. A failure of that work is answered even so; the stream is gone then (a second call:
  /// invalid), unless the vendor refused that, too: a second call then gives it back.
  [[nodiscard]] virtual DeviceCode destroy_stream(StreamHandle stream) = 0;
  [[nodiscard]] virtual DeviceCode create_event(EventHandle& event) = 0;
  [[nodiscard]] virtual DeviceCode destroy_event(EventHandle event) = 0;
  [[nodiscard]] virtual DeviceCode record_event(EventHandle event, StreamHandle stream) = 0;
  /// Work submitted to `stream` from now on runs after the latest record of `event`. Does not block.
  [[nodiscard]] virtual DeviceCode wait_event(StreamHandle stream, EventHandle event) = 0;
  /// ok: complete; not_ready. Does not block.
  [[nodiscard]] virtual DeviceCode query_event(EventHandle event) = 0;
  /// Blocks. timeout_ns < 0: for ever. A failure of work on the stream is reported here.
  [[nodiscard]] virtual DeviceCode synchronize_event(EventHandle event, std::int64_t timeout_ns = -1) = 0;
  [[nodiscard]] virtual DeviceCode synchronize_stream(StreamHandle stream) = 0;
  [[nodiscard]] virtual DeviceCode synchronize_device() = 0;

  /// The host side lies inside one allocation of allocate_pinned(), the device's side does not; otherwise `invalid`,
  /// since pageable memory would block without a word. Asynchronous, unless pinned_facts() says that the allocation is
  /// not registered. `id` as in Work.
  [[nodiscard]] virtual DeviceCode copy(StreamHandle stream, Address to, Address from, Bytes bytes, CopyKind kind,
                                        std::int64_t id = -1) = 0;
  [[nodiscard]] virtual DeviceCode launch(StreamHandle stream, const Work& work) = 0;

  /// Mismatches that verifying launches found so far, complete after synchronize_device(); the first one is described.
  [[nodiscard]] virtual std::int64_t mismatches(Mismatch& first) = 0;
  /// Time on the device's clock: virtual on `sim`, monotonic elsewhere.
  [[nodiscard]] virtual std::int64_t now_ns() = 0;

 protected:
  Device() = default;
};

}  // namespace tidemark
