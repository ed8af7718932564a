#pragma once
// The simulated device behind SimDevice (device/sim_device.h). It asks faults first, keeps the books of memory, races,
// streams and events, and submits items that are ready to run to the engine. One file each: what every call begins with
// and the reports (sim_device.cc), memory (sim_device_memory.cc), streams and events (sim_device_streams.cc), launches
// and copies (sim_device_work.cc).
// Threads: the public functions lock the engine's mutex; the private ones REQUIRE that it is held.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "device/race_checker.h"
#include "device/sim_device.h"
#include "device/sim_engine.h"
#include "device/sim_events.h"
#include "device/sim_faults.h"
#include "device/sim_memory.h"

namespace tidemark {

class SimDeviceImpl final : public SimDevice {
 public:
  SimDeviceImpl(std::shared_ptr<SimEngine> engine, const SimOptions& options);
  ~SimDeviceImpl() override;

  const DeviceTraits& traits() const override { return traits_; }
  std::string last_error() const override;
  DeviceCode memory_info(MemoryInfo& info) override;

  DeviceCode reserve(Bytes bytes, Address& base) override;
  DeviceCode release(Address base, Bytes bytes) override;
  DeviceCode map(Address at, Bytes bytes) override;
  DeviceCode unmap(Address at, Bytes bytes) override;
  DeviceCode alias(Address at, Address source, Bytes bytes) override;
  DeviceCode remap(Address at, Address source, Bytes bytes) override;
  DeviceCode allocate_plain(Bytes bytes, Address& address) override;
  DeviceCode free_plain(Address address) override { return free_whole(address, SimMemoryKind::plain); }
  DeviceCode allocate_pinned(Bytes bytes, Address& address) override;
  DeviceCode free_pinned(Address address) override { return free_whole(address, SimMemoryKind::pinned); }

  DeviceCode create_stream(StreamRole role, StreamHandle& stream) override;
  DeviceCode destroy_stream(StreamHandle stream) override;
  DeviceCode create_event(EventHandle& event) override;
  DeviceCode destroy_event(EventHandle event) override;
  DeviceCode record_event(EventHandle event, StreamHandle stream) override;
  DeviceCode wait_event(StreamHandle stream, EventHandle event) override;
  DeviceCode query_event(EventHandle event) override;
  DeviceCode synchronize_event(EventHandle event, std::int64_t timeout_ns) override;
  DeviceCode synchronize_stream(StreamHandle stream) override;
  DeviceCode synchronize_device() override;

  DeviceCode copy(StreamHandle stream, Address to, Address from, Bytes bytes, CopyKind kind, std::int64_t id) override;
  DeviceCode launch(StreamHandle stream, const Work& work) override;
  std::int64_t mismatches(Mismatch& first) override;
  std::int64_t now_ns() override;

  void host_access(Address address, Bytes bytes, AccessKind kind, std::string_view label) override;
  std::int64_t race_count() const override;
  std::vector<RaceReport> races() const override;
  void clear_races() override;
  SimStatistics statistics() const override;
  void reset_statistics() override;
  std::vector<SimSpan> take_timeline() override;
  void set_faults(std::vector<Fault> faults) override;
  std::string leaks() const override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Goal = SimEngine::Goal;

  // What every call begins with.
  DeviceCode fail(DeviceCode code, std::string text) const;
  DeviceCode fail_memory(DeviceCode code) const { return fail(code, memory_.last_problem()); }
  [[nodiscard]] DeviceCode enter(FaultPoint point, SimFaults::Strike* strike = nullptr);
  [[nodiscard]] DeviceCode enter() const;
  void enter_to_give_back() const { engine_->stop_polling(); }  ///< a lost device takes everything
  [[nodiscard]] bool checks() const { return options_.check_races; }

  // Memory.
  DeviceCode free_whole(Address address, SimMemoryKind kind);
  void give_back(const std::vector<SimPiece>& pieces, std::uint16_t what);

  // Streams and events.
  [[nodiscard]] SimStream* find_stream(StreamHandle handle, std::uint32_t& index) const;
  [[nodiscard]] SimEvent* find_event(EventHandle handle);
  [[nodiscard]] std::vector<std::int32_t> snapshot_streams();
  void learn(const std::vector<std::int32_t>& snapshots, SimEngine::Outcome outcome);
  DeviceCode after_waiting(SimEngine::Outcome outcome, const SimFailure& failure);

  // Launches and copies.
  void touch(const SimStream& stream, Address at, Bytes bytes, AccessKind kind, RaceLabel label);
  void touch_piece(RaceActor actor, const SimPiece& piece, AccessKind kind, RaceLabel label);
  void add_touches(SimPayload& payload, const Touch& touch);
  void mark_overwritten_reads(SimPayload& payload) const;
  [[nodiscard]] std::uint32_t payload_of(const Work& work);
  [[nodiscard]] DeviceCode check_copy(Address to, Address from, Bytes bytes, CopyKind kind) const;
  [[nodiscard]] std::int64_t copy_time(Bytes bytes, CopyKind kind, std::int64_t id) const;

  const std::shared_ptr<SimEngine> engine_;
  const SimOptions options_;
  DeviceTraits traits_;
  SimPort port_;
  SimMemory memory_;
  RaceChecker races_;
  SimFaults faults_;
  std::vector<std::uint32_t> streams_;
  std::array<std::int64_t, kStreamRoleCount> made_{};  ///< streams ever made, for their names
  SimEvents events_;
  SimFailure gone_failure_;  ///< of destroyed streams, for the next synchronize_device()
  SimStatistics counted_;
  bool contents_tracked_ = false;  ///< from the first verifying launch on
  std::vector<SimPiece> pieces_;   ///< scratch
  struct Names {
    std::uint16_t launch, copy, unmap, alias, remap, free_plain, free_pinned;
  } names_{};
  mutable std::map<std::thread::id, std::string> errors_;
};

}  // namespace tidemark
