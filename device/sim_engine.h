#pragma once
// The discrete-event simulation behind SimWorld: streams with queued items, records of events, links, messages, waiting
// hosts. Knows nothing of addresses, mapping or races; SimDevice does, and submits items that are ready to run.
//
// A stream is in at most one place at a time: in the heap (to be looked at, or running until then), in the list of
// waiters of a record, in the queue of a link, in the queue of a message, or idle. Each turn of the simulation takes
// the earliest heap entry, ends what ran, and starts the next items of that stream. Items are 32 bytes in a ring per
// stream; what verifying work needs besides lies in a pool.
// Cost: one heap push and pop per launch or copy; a record or a wait that is met already costs a few ns.
// Threads: `mutex` guards everything; every function REQUIRES that it is held, by the lock passed where one is.

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/sim_contents.h"
#include "device/sim_device.h"
#include "device/sim_memory.h"

namespace tidemark {

enum class SimItemKind : std::uint8_t { launch, copy, record, wait, send, receive };
inline constexpr std::uint32_t kNoSlot = UINT32_MAX;

struct SimItem {
  std::int64_t id = -1;
  std::int64_t ns = 0;
  std::uint32_t slot = kNoSlot;  ///< record, wait: of records; otherwise of payloads, kNoSlot: none
  SimItemKind kind = SimItemKind::launch;
  CopyKind copy = CopyKind::device_to_host;
  DeviceCode fails_with = DeviceCode::ok;
};

/// A touch of verifying work, already in terms of memory.
struct SimTouch {
  Address address = 0;
  Address memory = 0;
  Bytes bytes = 0;
  Bytes place = 0;  ///< in the pattern, or in the copied range
  std::uint64_t seed = 0;
  bool is_write = false;
  bool present = true;
  bool look_again = true;  ///< read: nothing of this work overwrites it, so it must still hold at the end
  bool wrong = false;
};

struct SimPayload {
  WorkMessage message;
  std::vector<SimTouch> touches;    ///< a copy: reads are its source, writes its target
  std::vector<SimContent> carried;  ///< a copy under way: what the source held when it started
};

/// What went wrong on a stream, until a synchronisation has told it.
struct SimFailure {
  DeviceCode code = DeviceCode::ok;
  std::string text;
  explicit operator bool() const { return code != DeviceCode::ok; }
};

/// One recording of an event.
struct SimRecord {
  std::int64_t time_ns = -1;  ///< -1: not reached
  std::uint32_t references = 0;
  std::uint32_t first_waiter = kNoSlot;  ///< stream; the others follow by SimStream::next_waiter
  std::uint32_t stream = kNoSlot;
  std::int64_t after_id = -1;  ///< the last work before it, for texts
  bool host_waits = false;
  SimFailure failure;  ///< of work before it
};

/// First in, first out, grows by doubling.
class SimRing {
 public:
  [[nodiscard]] bool empty() const { return head_ == tail_; }
  [[nodiscard]] std::size_t size() const { return tail_ - head_; }
  [[nodiscard]] SimItem& front() { return items_[head_ & mask()]; }
  void pop() { ++head_; }
  void push(const SimItem& item) {
    if (size() == items_.size()) grow();
    items_[tail_++ & mask()] = item;
  }
  void clear() { head_ = tail_ = 0; }

 private:
  [[nodiscard]] std::size_t mask() const { return items_.size() - 1; }
  void grow();
  std::vector<SimItem> items_;
  std::size_t head_ = 0, tail_ = 0;
};

struct SimPort;

struct SimStream {
  enum class Place : std::uint8_t { idle, due, running, on_record, on_link, on_message };
  SimPort* port = nullptr;  ///< null: slot free
  std::string name;
  StreamRole role = StreamRole::compute;
  Place place = Place::idle;
  bool message_arrived = false;
  SimFailure failure;
  std::uint32_t next_waiter = kNoSlot;
  SimRing items;
  SimItem running;
  std::int64_t start_ns = 0;
  std::int64_t last_submitted_id = -1;
  std::int64_t works = 0, busy_ns = 0;
  RaceActor actor{};
};

/// One device as the engine sees it.
struct SimPort {
  std::int32_t rank = 0;
  struct LinkQueue {
    std::uint32_t owner = kNoSlot;
    std::vector<std::uint32_t> waiting;
  };
  std::array<LinkQueue, 2> links;  ///< d2h, h2d
  std::int64_t pending = 0;        ///< items submitted and not done
  bool lost = false;
  bool record_timeline = false;
  SimContents contents;
  std::int64_t mismatches = 0;
  Mismatch first_mismatch;
  std::int64_t first_start_ns = -1, last_end_ns = -1;
  std::vector<SimSpan> timeline;
};

class SimEngine {
 public:
  explicit SimEngine(const SimSchedule& schedule);
  ~SimEngine();

  std::mutex mutex;

  [[nodiscard]] std::int64_t now_ns() const { return now_; }
  void add_port(SimPort* port);
  /// Drops everything of the port that has not run.
  void remove_port(SimPort* port);
  /// Drops what has not run; waiting hosts return.
  void lose(SimPort* port);

  [[nodiscard]] std::uint32_t add_stream(SimPort* port, StreamRole role, std::string name);
  /// REQUIRES: nothing pending on it.
  void remove_stream(std::uint32_t stream);
  [[nodiscard]] SimStream& stream(std::uint32_t index) { return *streams_[index]; }
  void submit(std::uint32_t stream, const SimItem& item);
  [[nodiscard]] std::uint32_t take_payload();
  [[nodiscard]] SimPayload& payload(std::uint32_t slot) { return payloads_[slot]; }
  /// A record at the end of what the stream has; gives the slot with one reference for the caller.
  [[nodiscard]] std::uint32_t record(std::uint32_t stream);
  void wait(std::uint32_t stream, std::uint32_t record);
  [[nodiscard]] const SimRecord& record_at(std::uint32_t slot) const { return records_[slot]; }
  void hold(std::uint32_t record) { ++records_[record].references; }
  void drop_reference(std::uint32_t record);

  // What a host blocks for.
  struct Goal {
    enum class Kind : std::uint8_t { record, stream, port, everything } kind = Kind::everything;
    std::uint32_t index = kNoSlot;
    SimPort* port = nullptr;
  };
  enum class Outcome : std::uint8_t { pending, reached, timed_out, deadlock };
  /// Advances time, or waits for the host that does, until the goal is reached. `timeout_ns` < 0: none.
  [[nodiscard]] Outcome wait_for(std::unique_lock<std::mutex>& lock, const Goal& goal, std::int64_t timeout_ns);
  /// A query found nothing: for `ns` the caller counts as blocked, until it does something else. Time passes if all
  /// other hosts are blocked, or poll as well.
  void poll(std::int64_t ns);
  void stop_polling();
  /// A seeded schedule's host pause.
  void host_pause();
  void attach_host() { ++hosts_; }
  void detach_host();
  /// Who waits for what, of everything that cannot go on.
  [[nodiscard]] std::string describe_blocked() const;

 private:
  struct Due {
    std::int64_t time = 0;
    std::uint32_t key = 0;
    std::uint32_t stream = 0;
    friend bool operator>(const Due& a, const Due& b) { return a.time != b.time ? a.time > b.time : a.key > b.key; }
  };
  struct Channel {
    std::int64_t sent = 0, received = 0;  ///< sends that have ended; receives that have begun to wait
    std::vector<std::uint32_t> waiting;   ///< streams, in order of their receives
    std::set<std::int64_t> failed;        ///< numbers of sends that failed and were not received yet
  };
  struct ChannelKey {
    std::int32_t from = 0, to = 0;
    std::int64_t tag = 0;
    friend bool operator==(const ChannelKey&, const ChannelKey&) = default;
  };
  struct ChannelHash {
    std::size_t operator()(const ChannelKey& key) const;
  };
  struct Waiter {
    Goal goal;
    std::int64_t deadline = -1;
    Outcome outcome = Outcome::pending;
  };

  void make_due(std::uint32_t stream, std::int64_t time);
  void turn();
  void advance(std::uint32_t index);
  [[nodiscard]] bool start(std::uint32_t index, SimStream& stream);
  [[nodiscard]] bool begin_waiting(std::uint32_t index, SimStream& stream);
  [[nodiscard]] bool take_link(std::uint32_t index, SimStream& stream);
  [[nodiscard]] bool receive_ready(std::uint32_t index, SimStream& stream);
  void run_now(std::uint32_t index, SimStream& stream);
  void end(std::uint32_t index, SimStream& stream);
  void release_link(std::uint32_t index, SimStream& stream);
  void deliver(const SimPort& from, const WorkMessage& message, bool failed);
  void complete_record(SimRecord& record, const SimFailure& failure);
  void drop_all(SimPort* port);
  void count_done(SimStream& stream);
  void drop_items(std::uint32_t index);
  void begin_effects(SimStream& stream);
  void end_effects(SimStream& stream);
  void check_touch(SimStream& stream, SimTouch& touch);
  [[nodiscard]] std::int64_t stretched(std::int64_t ns);
  [[nodiscard]] std::uint64_t draw();
  [[nodiscard]] double draw_unit();
  [[nodiscard]] bool may_advance() const { return blocked_ + 1 >= hosts_; }

  [[nodiscard]] bool reached(const Goal& goal) const;
  void release_reached();
  void lead(std::unique_lock<std::mutex>& lock, const Waiter& own);
  void release_all(Outcome outcome);
  [[nodiscard]] std::string describe(std::uint32_t index) const;
  void free_payload(std::uint32_t slot);

  SimSchedule schedule_;
  std::uint64_t random_;
  std::int64_t now_ = 0;
  std::vector<Due> heap_;
  std::vector<std::unique_ptr<SimStream>> streams_;
  std::vector<std::uint32_t> free_streams_;
  std::vector<SimRecord> records_;
  std::vector<std::uint32_t> free_records_;
  std::vector<SimPayload> payloads_;
  std::vector<std::uint32_t> free_payloads_;
  std::unordered_map<ChannelKey, Channel, ChannelHash> channels_;
  std::vector<SimPort*> ports_;
  std::int64_t pending_ = 0;
  std::vector<Waiter*> waiters_;
  std::int64_t hosts_ = 0, blocked_ = 0;
  std::vector<std::pair<std::thread::id, std::int64_t>> polling_;  ///< hosts between two queries, and until when
  bool wake_ = false;                                              ///< something that a host may wait for has happened
  std::condition_variable woken_;
};

}  // namespace tidemark
