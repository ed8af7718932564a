#pragma once
// What the stand-ins for vendor libraries have in common: a made-up device in host memory. Streams are threads, events
// are tickets, device memory is anonymous or a memory file (so that one physical piece can appear at several
// addresses). It is no accelerator and none of its times mean anything; it exists to run our vendor code paths and to
// catch calls that a vendor's documentation forbids.
//
// What it enforces for both: an operation whose memory is given back before it is done is a violation, whether or not
// it would have gone wrong this time (the operation is dropped and the device fails); so is one that runs over memory
// that is not there, not accessible, or beyond an allocation.
//
// Threads: any. One lock over all state; operations run outside it.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace stand_in {

using Place = std::uintptr_t;

struct Range {
  Place at = 0;
  std::size_t bytes = 0;
};

/// One record of an event: done when the stream reached it.
struct Ticket {
  bool done = false;
};

/// A piece of work on a stream.
struct Operation {
  std::function<void()> run;          ///< may be empty
  std::shared_ptr<Ticket> awaits;     ///< runs after this record
  std::shared_ptr<Ticket> completes;  ///< this record is done afterwards
  std::vector<Range> device_ranges;   ///< device memory it touches
  std::vector<Range> host_ranges;     ///< pinned memory it touches
  unsigned runs_on = 1;               ///< the device that carries it out, as a bit
  bool running = false;
  bool dropped = false;  ///< its memory was given back: does nothing
};

class Machine;

/// A queue and the thread that works it off.
class Stream {
 public:
  explicit Stream(Machine& machine);
  ~Stream();  ///< REQUIRES: idle

 private:
  friend class Machine;
  void work();

  Machine& machine_;
  std::deque<Operation> queue_;  ///< the front one is running or next
  bool stop_ = false;
  std::thread thread_;
};

struct Event {
  unsigned flags = 0;
  bool holds_slot = false;
  std::shared_ptr<Ticket> latest;  ///< null: never recorded
};

/// Physical memory: a part of the memory file.
struct Physical {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  int mappings = 0;
  bool released = false;  ///< by its owner; goes when the last mapping does
};

enum class MemoryKind { device, pinned, registered };

struct Block {
  std::size_t bytes = 0;
  std::size_t usable_bytes = 0;  ///< operations may touch this much
  MemoryKind kind = MemoryKind::device;
  void* storage = nullptr;  ///< from the system; null for registered memory
};

class Machine {
 public:
  using Lock = std::unique_lock<std::mutex>;

  /// `violation_code`: what the vendor answers for ever after a violation. `tail_pad_bytes`: what must be mapped behind
  /// mapped memory that an operation touches, unless set otherwise.
  explicit Machine(int violation_code, std::int64_t tail_pad_bytes = 0)
      : violation_code_(violation_code), tail_pad_bytes_(tail_pad_bytes) {}

  // Faults and settings, for tests (stand_in_* in controls.h).
  void fail_call(const std::string& call, std::int64_t skip, int code);
  /// The code that this call shall fail with now, or 0.
  [[nodiscard]] int injected(const char* call);
  [[nodiscard]] std::int64_t get(const std::string& key);
  void set(const std::string& key, std::int64_t value);
  /// Everything as at the start; what was left is given back. REQUIRES: nobody uses a handle any more.
  void reset();

  [[nodiscard]] int sticky();
  [[nodiscard]] std::string message();
  void violate(const std::string& what);

  // Blocks. allocate: null when the capacity is used up (device) or the system refuses.
  [[nodiscard]] void* allocate(std::size_t bytes, MemoryKind kind, std::size_t alignment, std::size_t skew,
                               std::size_t guard);
  /// False: no such block of this kind. Waits for nothing that is queued: that is the violation.
  [[nodiscard]] bool free(void* at, MemoryKind kind);
  [[nodiscard]] bool add_registered(void* at, std::size_t bytes);
  [[nodiscard]] bool is_pinned(Range range);

  // Mapped memory.
  [[nodiscard]] bool is_granular(std::size_t bytes) {
    return bytes > 0 && bytes % static_cast<std::size_t>(get("granule_bytes")) == 0;
  }
  [[nodiscard]] void* reserve(std::size_t bytes, std::size_t alignment);
  [[nodiscard]] bool release_range(Place base, std::size_t bytes);  ///< bytes 0: whatever was reserved
  [[nodiscard]] Physical* create_physical(std::size_t bytes);
  [[nodiscard]] bool release_physical(Physical* physical);
  /// `access`: the devices that may touch it, as bits.
  [[nodiscard]] bool map(Place at, std::size_t bytes, Physical* physical, unsigned access, bool exclusive);
  [[nodiscard]] bool unmap(Place at, std::size_t bytes);  ///< bytes 0: the mapping that begins there
  [[nodiscard]] bool allow(Place at, std::size_t bytes, unsigned access);

  // Streams and events. A handle that is not ours answers null.
  [[nodiscard]] Stream* create_stream();
  [[nodiscard]] Stream* find_stream(void* handle);
  void destroy_stream(Stream* stream);  ///< waits
  [[nodiscard]] bool is_idle(Stream* stream);
  [[nodiscard]] Event* create_event(unsigned flags);
  [[nodiscard]] Event* find_event(void* handle);
  void destroy_event(Event* event);
  /// False: the budget of events is used up.
  [[nodiscard]] bool record(Event* event, Stream* stream);
  void wait(Stream* stream, Event* event);
  [[nodiscard]] bool is_done(Event* event);
  /// False: the time passed. timeout_ms < 0: for ever.
  [[nodiscard]] bool synchronize(Event* event, std::int64_t timeout_ms);
  void synchronize(Stream* stream);
  void synchronize_all();
  void submit(Stream* stream, Operation operation);

  std::int64_t free_device_bytes();

  // Counts, for tests (controls.h). An asynchronous copy between device and host is counted by `count_copy`.
  void count(const char* key, std::int64_t by = 1);
  void count_copy(Stream* stream, bool is_out, std::size_t bytes, bool is_pinned);

 private:
  friend class Stream;
  struct Mapping {
    std::size_t bytes = 0;
    Physical* physical = nullptr;
    unsigned access = 0;  ///< the devices that may touch it, as bits
  };

  /// `devices`: that touch it, as bits; 0 for pinned memory.
  [[nodiscard]] bool covered(Range range, unsigned devices) const;
  [[nodiscard]] bool covered_by_mappings(Range range, unsigned devices) const;
  [[nodiscard]] std::size_t tail_pad() const;
  void drop_users(Lock& lock, Range range, const char* how);
  void give_up_physical(Physical* physical);
  void violate_locked(const std::string& what);
  [[nodiscard]] bool open_file();
  [[nodiscard]] std::int64_t count_operations() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  const int violation_code_;
  const std::int64_t tail_pad_bytes_;
  int sticky_ = 0;
  std::int64_t violations_ = 0;
  std::string message_;
  struct Fault {
    std::int64_t skip = 0;
    int code = 0;
  };
  std::map<std::string, Fault> faults_;
  std::map<std::string, std::int64_t> settings_;
  std::map<std::string, std::int64_t> counts_;
  std::set<const Stream*> copy_streams_in_, copy_streams_out_;

  std::map<Place, Block> blocks_;
  std::map<Place, std::size_t> reservations_;
  std::map<Place, Mapping> mappings_;
  std::set<Physical*> physicals_;
  std::multimap<std::size_t, std::size_t> free_pieces_;  ///< of the memory file: bytes to offset
  std::size_t file_bytes_ = 0;
  int file_ = -1;
  std::int64_t device_bytes_ = 0;

  std::map<void*, std::unique_ptr<Stream>> streams_;
  std::map<void*, std::unique_ptr<Event>> events_;
  std::int64_t event_slots_ = 0;
};

/// The library's own, for as long as the process lives. Each stand-in defines it.
Machine& machine();

}  // namespace stand_in
