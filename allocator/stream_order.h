#pragma once
// What the host knows of the order between streams, without asking the device: one counter and one vector clock a
// stream, fed by the calls that create order.
//
// Epochs. A stream's epoch is the number of records made on it. Work submitted now is covered by the *next* record:
// bytes whose last use on stream s is already submitted die at (s, death_epoch(s)). clock(t)[s] is the latest record of
// s that all work submitted to t from now on runs after; a death (s, d) is over for t if s == t, or clock(t)[s] >= d,
// or record d of s is known to have completed on the host. All of it is transitive: a wait takes over the whole clock
// that the record carried, a completed event completes everything its record was ordered after.
//
// Frontier: a set of deaths, at most kInline streams. One more and it is *tainted*: only its tick is kept, and it is
// over once every stream is known to have passed that tick. Conservative, and it heals by itself.
//
// Order of calls: note_record() immediately *before* Device::record_event(), note_wait() immediately *after*
// wait_event(), note_synchronized*() after the call that saw completion (a query_event() that answered ok counts).
// record() and wait() do both halves. Work and the notes of one stream come from one thread at a time, as device.h
// demands of the calls themselves.
//
// Cost: death_epoch O(1) without a lock; dominated() one lock and O(1) a frontier entry, O(streams) when tainted;
// note_record and note_wait O(streams). Nothing polls, nothing calls the device except record() and wait().
// Threads: any.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>

#include "allocator/metadata_memory.h"
#include "device/device.h"
#include "device/fork_handlers.h"

namespace tidemark::allocator {

/// Dense number of a stream in one StreamOrder. The slot of a destroyed stream goes to the next new one, where the
/// epochs go on: deaths on the old stream remain over, and what still names its slot is at worst taken for the new
/// stream's.
enum class StreamSlot : std::uint32_t {};
using Epoch = std::uint64_t;

struct Death {
  StreamSlot stream = {};
  Epoch epoch = 0;
  friend bool operator==(const Death&, const Death&) = default;
};

/// A few deaths, merged by the larger epoch of each stream.
class Frontier {
 public:
  static constexpr std::size_t kInline = 4;

  /// `tick` is StreamOrder::tick(), kept in case the set overflows.
  void add(Death death, std::uint64_t tick);
  void merge(const Frontier& other, std::uint64_t tick);
  [[nodiscard]] bool empty() const { return count_ == 0 && !tainted_; }
  [[nodiscard]] bool tainted() const { return tainted_; }
  [[nodiscard]] std::uint64_t taint_tick() const { return taint_tick_; }
  /// Empty when tainted.
  [[nodiscard]] std::span<const Death> deaths() const { return {deaths_.data(), count_}; }

 private:
  void taint(std::uint64_t tick);
  std::array<Death, kInline> deaths_ = {};
  std::uint32_t count_ = 0;
  bool tainted_ = false;
  std::uint64_t taint_tick_ = 0;
};

/// More streams are alive than a StreamOrder follows. Of the kind of exception that callers expect when books are full.
struct TooManyStreams : std::bad_alloc {
  [[nodiscard]] const char* what() const noexcept override;
};

class StreamOrder {
 public:
  static constexpr std::size_t kMaxStreams = 4096;  ///< alive at once

  StreamOrder();
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  /// The slot of a stream, made at its first mention. Throws TooManyStreams when kMaxStreams are alive, as every note
  /// about a stream does then; nothing is changed.
  [[nodiscard]] StreamSlot slot_of(StreamHandle stream);
  [[nodiscard]] StreamHandle handle_of(StreamSlot slot) const;
  /// Slots in use or spare: the most streams that were alive at once.
  [[nodiscard]] std::size_t stream_count() const;

  void note_record(EventHandle event, StreamHandle stream);
  /// The device refused the record: the event says nothing any more.
  void note_record_failed(EventHandle event);
  /// An event that was never noted is taken as complete (device.h) and adds nothing.
  void note_wait(StreamHandle stream, EventHandle event);
  void note_synchronized(EventHandle event);
  void note_synchronized(StreamHandle stream);
  /// Nothing may have been submitted between synchronize_device() and this; synchronize() has no such gap.
  void note_device_synchronized();
  void note_event_destroyed(EventHandle event);
  /// Everything on the stream is over. Before Device::destroy_stream(), behind synchronize_stream(): afterwards another
  /// thread's new stream may have the handle, and its work would be taken for over.
  void note_stream_destroyed(StreamHandle stream);

  /// Both halves: the note and the device call. On failure nothing is claimed.
  [[nodiscard]] DeviceCode record(Device& device, EventHandle event, StreamHandle stream);
  [[nodiscard]] DeviceCode wait(Device& device, StreamHandle stream, EventHandle event);
  [[nodiscard]] DeviceCode synchronize(Device& device);

  /// The epoch that will cover everything submitted to the stream so far.
  [[nodiscard]] Epoch death_epoch(StreamSlot slot) const {
    return epoch_cell(slot).load(std::memory_order_acquire) + 1;
  }
  /// The counter behind death_epoch(), for callers that keep it at hand. Valid as long as this object.
  [[nodiscard]] const std::atomic<Epoch>& epoch_cell(StreamSlot slot) const;
  [[nodiscard]] std::uint64_t tick() const { return tick_.load(std::memory_order_acquire); }
  /// Changes whenever something may have become dominated that was not.
  [[nodiscard]] std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  /// Changes whenever a handle may have got another slot.
  [[nodiscard]] std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  /// May work submitted to `stream` from now on touch bytes that died so?
  [[nodiscard]] bool dominated(const Frontier& frontier, StreamSlot stream) const;
  [[nodiscard]] bool dominated(Death death, StreamSlot stream) const;
  /// Is it over for the host, so that the memory may even be unmapped?
  [[nodiscard]] bool completed(const Frontier& frontier) const;
  [[nodiscard]] bool completed(Death death) const;

  /// The latest epoch of every stream (by slot; beyond the end: 0) that is over for `stream`, or for the host:
  /// dominated() for many deaths at once. Of `stream` itself everything is over.
  [[nodiscard]] MetadataVector<Epoch> known_epochs(StreamSlot stream) const;
  [[nodiscard]] MetadataVector<Epoch> completed_epochs() const;

 private:
  struct Stream;
  struct State;

  struct Mark {
    MetadataVector<Epoch> epochs;  ///< by slot
    std::uint64_t tick = 0;
  };
  /// A virtual record on every stream, and its completion.
  [[nodiscard]] Mark mark();
  void complete(const Mark& mark);

  [[nodiscard]] bool over(Death death, const MetadataVector<Epoch>* clock) const;
  [[nodiscard]] bool over(const Frontier& frontier, const StreamSlot* stream) const;
  [[nodiscard]] Stream& stream_at(StreamSlot slot) const;
  [[nodiscard]] StreamSlot slot_locked(StreamHandle stream);
  [[nodiscard]] std::size_t new_slot_locked(StreamHandle stream);
  std::size_t synchronize_locked(StreamHandle stream);

  std::unique_ptr<State> state_;
  std::unique_ptr<std::atomic<Stream*>[]> table_;  ///< slot to stream; entries are only ever added
  std::atomic<std::uint64_t> tick_{1};
  std::atomic<std::uint64_t> version_{0};
  std::atomic<std::uint64_t> generation_{0};
  std::unique_ptr<ForkHandlers> at_fork_;
};

}  // namespace tidemark::allocator
