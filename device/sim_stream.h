#pragma once
// The plain values of the simulation (device/sim_engine.h): streams, what runs on them, records of events, and devices
// as the engine sees them. Threads: the engine's mutex guards all of it.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/race_checker.h"
#include "device/sim_contents.h"
#include "device/sim_device.h"
#include "device/sim_ring.h"

namespace tidemark {

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

}  // namespace tidemark
