#pragma once
// The discrete-event simulation behind SimWorld: streams with queued items, records of events, links, messages, waiting
// hosts. Knows nothing of addresses, mapping or races; SimDevice does, and submits items that are ready to run.
// Streams and time are in sim_engine.cc, hosts that wait in sim_engine_hosts.cc.
//
// A stream is in at most one place at a time: in the heap (to be looked at, or running until then), in the list of
// waiters of a record, in the queue of a link, in the queue of a message, or idle. Each turn of the simulation takes
// the earliest heap entry, ends what ran, and starts the next items of that stream. Items are 32 bytes in a ring per
// stream; what verifying work needs besides lies in a pool.
// Cost: one heap push and pop per launch or copy; a record or a wait that is met already costs a few ns.
// Threads: `mutex` guards everything; every function REQUIRES that it is held, by the lock passed where one is.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/sim_chance.h"
#include "device/sim_channels.h"
#include "device/sim_ring.h"
#include "device/sim_stream.h"

namespace tidemark {

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
  struct Waiter {
    Goal goal;
    std::int64_t deadline = -1;
    Outcome outcome = Outcome::pending;
  };

  void free_payload(std::uint32_t slot);
  void make_due(std::uint32_t stream, std::int64_t time);
  void turn();
  void advance(std::uint32_t index);
  [[nodiscard]] bool start(std::uint32_t index, SimStream& stream);
  [[nodiscard]] bool begin_waiting(std::uint32_t index, SimStream& stream);
  [[nodiscard]] bool take_link(std::uint32_t index, SimStream& stream);
  [[nodiscard]] bool receive_ready(std::uint32_t index, SimStream& stream);
  [[nodiscard]] SimChannels::Key channel_of_receive(SimStream& stream) const;  ///< of its first item
  void run_now(std::uint32_t index, SimStream& stream);
  void end(std::uint32_t index, SimStream& stream);
  void release_link(std::uint32_t index, SimStream& stream);
  void deliver(const SimPort& from, const WorkMessage& message, bool failed);
  void complete_record(SimRecord& record, const SimFailure& failure);
  void drop_all(SimPort* port);
  void count_done(SimStream& stream);
  void drop_items(std::uint32_t index);

  // Hosts (sim_engine_hosts.cc).
  [[nodiscard]] bool may_advance() const { return blocked_ + 1 >= hosts_; }
  [[nodiscard]] bool reached(const Goal& goal) const;
  void release_reached();
  void lead(std::unique_lock<std::mutex>& lock, const Waiter& own);
  void release_all(Outcome outcome);
  [[nodiscard]] std::string describe(std::uint32_t index) const;

  SimChance chance_;
  std::int64_t now_ = 0;
  std::vector<Due> heap_;
  std::vector<std::unique_ptr<SimStream>> streams_;
  std::vector<std::uint32_t> free_streams_;
  std::vector<SimRecord> records_;
  std::vector<std::uint32_t> free_records_;
  std::vector<SimPayload> payloads_;
  std::vector<std::uint32_t> free_payloads_;
  SimChannels channels_;
  std::vector<SimPort*> ports_;
  std::int64_t pending_ = 0;
  std::vector<Waiter*> waiters_;
  std::int64_t hosts_ = 0, blocked_ = 0;
  std::vector<std::pair<std::thread::id, std::int64_t>> polling_;  ///< hosts between two queries, and until when
  bool wake_ = false;                                              ///< something that a host may wait for has happened
  std::condition_variable woken_;
};

}  // namespace tidemark
