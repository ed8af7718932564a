#include "device/sim_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "device/sim_engine.h"
#include "device/sim_faults.h"
#include "device/sim_memory.h"

namespace tidemark {

std::unique_ptr<SimDevice> make_sim_device_in(std::shared_ptr<SimEngine> engine, const SimOptions& options);

namespace {

using Lock = std::unique_lock<std::mutex>;
using Goal = SimEngine::Goal;

constexpr std::array<const char*, kStreamRoleCount> kRoleNames = {"compute", "intra_comm", "inter_comm", "send",
                                                                  "receive", "d2h",        "h2d"};

struct SimEvent {
  std::uint32_t record = kNoSlot;
  std::int32_t clock = -1;  ///< in the race checker
  bool alive = false;
};

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
  DeviceCode fail(DeviceCode code, std::string text) const;
  DeviceCode fail_memory(DeviceCode code) const { return fail(code, memory_.last_problem()); }
  [[nodiscard]] DeviceCode enter(FaultPoint point, SimFaults::Strike* strike = nullptr);
  [[nodiscard]] DeviceCode enter() const;
  void enter_to_give_back() const { engine_->stop_polling(); }  ///< a lost device takes everything
  [[nodiscard]] SimStream* find_stream(StreamHandle handle, std::uint32_t& index) const;
  [[nodiscard]] SimEvent* find_event(EventHandle handle);
  DeviceCode free_whole(Address address, SimMemoryKind kind);
  void give_back(const std::vector<SimPiece>& pieces, std::uint16_t what);
  void touch(const SimStream& stream, Address at, Bytes bytes, AccessKind kind, RaceLabel label);
  void add_touches(SimPayload& payload, const Touch& touch);
  void mark_overwritten_reads(SimPayload& payload) const;
  [[nodiscard]] std::uint32_t payload_of(const Work& work);
  [[nodiscard]] DeviceCode check_copy(Address to, Address from, Bytes bytes, CopyKind kind) const;
  [[nodiscard]] std::int64_t copy_time(Bytes bytes, CopyKind kind) const;
  DeviceCode after_waiting(SimEngine::Outcome outcome, const SimFailure& failure);
  void touch_piece(RaceActor actor, const SimPiece& piece, AccessKind kind, RaceLabel label);
  [[nodiscard]] std::vector<std::int32_t> snapshot_streams();
  void learn(const std::vector<std::int32_t>& snapshots, SimEngine::Outcome outcome);
  [[nodiscard]] bool checks() const { return options_.check_races; }

  const std::shared_ptr<SimEngine> engine_;
  const SimOptions options_;
  DeviceTraits traits_;
  SimPort port_;
  SimMemory memory_;
  RaceChecker races_;
  SimFaults faults_;
  std::vector<std::uint32_t> streams_;
  std::array<std::int64_t, kStreamRoleCount> made_{};  ///< streams ever made, for their names
  std::vector<SimEvent> events_;
  std::vector<std::size_t> free_events_;
  std::int64_t live_events_ = 0;
  SimFailure gone_failure_;  ///< of destroyed streams, for the next synchronize_device()
  SimStatistics counted_;
  bool contents_tracked_ = false;  ///< from the first verifying launch on
  std::vector<SimPiece> pieces_;   ///< scratch
  struct Names {
    std::uint16_t launch, copy, unmap, alias, remap, free_plain, free_pinned;
  } names_{};
  mutable std::map<std::thread::id, std::string> errors_;
};

SimDeviceImpl::SimDeviceImpl(std::shared_ptr<SimEngine> engine, const SimOptions& options)
    : engine_(std::move(engine)),
      options_(options),
      memory_({.capacity_bytes = options.capacity_bytes,
               .pinned_capacity_bytes = options.pinned_capacity_bytes,
               .granule_bytes = options.granule_bytes,
               .alignment_bytes = options.alignment_bytes}),
      races_(options.race_report_limit) {
  traits_ = {.name = "sim",
             .product = options.product,
             .simulated = true,
             .has_bytes = false,
             .mapping = options.mapping,
             .aliasing = options.mapping && options.aliasing,
             .messages = true,
             .granule_bytes = options.granule_bytes,
             .alignment_bytes = options.alignment_bytes,
             .tail_pad_bytes = options.tail_pad_bytes,
             .event_limit = options.event_limit};
  port_.rank = options.rank;
  port_.record_timeline = options.record_timeline;
  faults_.set(options.faults);
  names_ = {.launch = races_.intern("launch"),
            .copy = races_.intern("copy"),
            .unmap = races_.intern("unmap"),
            .alias = races_.intern("alias"),
            .remap = races_.intern("remap"),
            .free_plain = races_.intern("free_plain"),
            .free_pinned = races_.intern("free_pinned")};
  const Lock lock(engine_->mutex);
  engine_->add_port(&port_);
}

SimDeviceImpl::~SimDeviceImpl() {
  const Lock lock(engine_->mutex);
  engine_->remove_port(&port_);
  for (const SimEvent& event : events_)
    if (event.alive && event.record != kNoSlot) engine_->drop_reference(event.record);
}

// ---- entering and failing ----

DeviceCode SimDeviceImpl::fail(DeviceCode code, std::string text) const {
  errors_[std::this_thread::get_id()] = std::move(text);
  return code;
}

std::string SimDeviceImpl::last_error() const {
  const Lock lock(engine_->mutex);
  const auto found = errors_.find(std::this_thread::get_id());
  return found == errors_.end() ? std::string() : found->second;
}

DeviceCode SimDeviceImpl::enter() const {
  engine_->stop_polling();
  return port_.lost ? fail(DeviceCode::lost, "the device is lost") : DeviceCode::ok;
}

// A late failure is not this call's: the caller that takes `strike` looks after it.
DeviceCode SimDeviceImpl::enter(FaultPoint point, SimFaults::Strike* strike) {
  if (const DeviceCode code = enter(); code != DeviceCode::ok) return code;
  const SimFaults::Strike struck = faults_.count(point);
  if (struck.capacity_bytes >= 0) memory_.set_capacity(struck.capacity_bytes);
  if (struck.code == DeviceCode::lost && !struck.late) engine_->lose(&port_);
  if (strike != nullptr) *strike = struck;
  if (struck.code == DeviceCode::ok || (strike != nullptr && struck.late)) return DeviceCode::ok;
  return fail(struck.code, fmt::format("{} (injected)", name_of(struck.code)));
}

SimStream* SimDeviceImpl::find_stream(StreamHandle handle, std::uint32_t& index) const {
  index = static_cast<std::uint32_t>(static_cast<std::uint64_t>(handle)) - 1;
  if (std::find(streams_.begin(), streams_.end(), index) == streams_.end()) {
    fail(DeviceCode::invalid, fmt::format("no stream {}", static_cast<std::uint64_t>(handle)));
    return nullptr;
  }
  return &engine_->stream(index);
}

SimEvent* SimDeviceImpl::find_event(EventHandle handle) {
  const auto index = static_cast<std::uint64_t>(handle) - 1;
  if (index < events_.size() && events_[index].alive) return &events_[index];
  fail(DeviceCode::invalid, fmt::format("no event {}", static_cast<std::uint64_t>(handle)));
  return nullptr;
}

// ---- memory ----

DeviceCode SimDeviceImpl::memory_info(MemoryInfo& info) {
  const Lock lock(engine_->mutex);
  if (const DeviceCode code = enter(); code != DeviceCode::ok) return code;
  const Bytes used = memory_.usage().mapped + memory_.usage().plain;
  info = {.total_bytes = memory_.capacity(), .free_bytes = std::max<Bytes>(0, memory_.capacity() - used)};
  return DeviceCode::ok;
}

DeviceCode SimDeviceImpl::reserve(Bytes bytes, Address& base) {
  const Lock lock(engine_->mutex);
  if (const DeviceCode code = enter(); code != DeviceCode::ok) return code;
  if (!options_.mapping) return fail(DeviceCode::unsupported, "no mapping on this device");
  const DeviceCode code = memory_.reserve(bytes, base);
  return code == DeviceCode::ok ? code : fail_memory(code);
}

DeviceCode SimDeviceImpl::release(Address base, Bytes bytes) {
  const Lock lock(engine_->mutex);
  enter_to_give_back();
  const DeviceCode code = memory_.release(base, bytes);
  return code == DeviceCode::ok ? code : fail_memory(code);
}

DeviceCode SimDeviceImpl::map(Address at, Bytes bytes) {
  const Lock lock(engine_->mutex);
  if (const DeviceCode code = enter(FaultPoint::map); code != DeviceCode::ok) return code;
  SimPiece added;
  if (const DeviceCode code = memory_.map(at, bytes, added); code != DeviceCode::ok) return fail_memory(code);
  if (checks()) races_.allocate({.begin = added.memory, .bytes = added.bytes});
  return DeviceCode::ok;
}

// Memory that is gone must be done with; memory that lives on, done with as far as it went through this address. On a
// lost device nothing runs any more, so nothing is in flight.
void SimDeviceImpl::give_back(const std::vector<SimPiece>& pieces, std::uint16_t what) {
  for (const SimPiece& piece : pieces) {
    const RaceRange range{.begin = piece.memory, .bytes = piece.bytes, .view = piece.view()};
    if (piece.present && contents_tracked_) port_.contents.forget(piece.memory, piece.bytes);
    if (!checks() || port_.lost) continue;
    if (piece.present) {
      races_.free(range, {.what = what});
    } else {
      races_.retire_view(range, {.what = what});
    }
  }
}

DeviceCode SimDeviceImpl::unmap(Address at, Bytes bytes) {
  const Lock lock(engine_->mutex);
  enter_to_give_back();
  std::vector<SimPiece> dropped;
  if (const DeviceCode code = memory_.unmap(at, bytes, dropped); code != DeviceCode::ok) return fail_memory(code);
  give_back(dropped, names_.unmap);
  return DeviceCode::ok;
}

DeviceCode SimDeviceImpl::alias(Address at, Address source, Bytes bytes) {
  const Lock lock(engine_->mutex);
  if (const DeviceCode code = enter(FaultPoint::map); code != DeviceCode::ok) return code;
  if (!traits_.aliasing) return fail(DeviceCode::unsupported, "no aliasing on this device");
  const DeviceCode code = memory_.alias(at, source, bytes);
  return code == DeviceCode::ok ? code : fail_memory(code);
}

DeviceCode SimDeviceImpl::remap(Address at, Address source, Bytes bytes) {
  const Lock lock(engine_->mutex);
  if (const DeviceCode code = enter(FaultPoint::map); code != DeviceCode::ok) return code;
  std::vector<SimPiece> moved;
  if (const DeviceCode code = memory_.remap(at, source, bytes, moved); code != DeviceCode::ok) return fail_memory(code);
  for (SimPiece& piece : moved) piece.present = false;  // the memory stays; its old address goes
  give_back(moved, names_.remap);
  return DeviceCode::ok;
}

DeviceCode SimDeviceImpl::allocate_plain(Bytes bytes, Address& address) {
  const Lock lock(engine_->mutex);
  if (const DeviceCode code = enter(FaultPoint::allocate_plain); code != DeviceCode::ok) return code;
  if (const DeviceCode code = memory_.allocate_plain(bytes, address); code != DeviceCode::ok) return fail_memory(code);
  if (checks()) races_.allocate({.begin = address, .bytes = bytes});
  return DeviceCode::ok;
}

DeviceCode SimDeviceImpl::allocate_pinned(Bytes bytes, Address& address) {
  const Lock lock(engine_->mutex);
  if (const DeviceCode code = enter(FaultPoint::allocate_pinned); code != DeviceCode::ok) return code;
  if (const DeviceCode code = memory_.allocate_pinned(bytes, address); code != DeviceCode::ok) return fail_memory(code);
  if (checks()) races_.allocate({.begin = address, .bytes = bytes});
  return DeviceCode::ok;
}

DeviceCode SimDeviceImpl::free_whole(Address address, SimMemoryKind kind) {
  const Lock lock(engine_->mutex);
  enter_to_give_back();
  SimPiece freed;
  if (const DeviceCode code = memory_.free_whole(address, kind, freed); code != DeviceCode::ok)
    return fail_memory(code);
  give_back({freed}, kind == SimMemoryKind::plain ? names_.free_plain : names_.free_pinned);
  return DeviceCode::ok;
}

// ---- streams and events ----

DeviceCode SimDeviceImpl::create_stream(StreamRole role, StreamHandle& stream) {
  const Lock lock(engine_->mutex);
  if (const DeviceCode code = enter(FaultPoint::create_stream); code != DeviceCode::ok) return code;
  const auto kind = static_cast<std::size_t>(role);
  std::string name = kRoleNames[kind];
  if (++made_[kind] > 1) name += fmt::format("#{}", made_[kind]);
  const std::uint32_t index = engine_->add_stream(&port_, role, name);
  if (checks()) engine_->stream(index).actor = races_.add_stream(std::move(name));
  streams_.push_back(index);
  stream = StreamHandle{index + 1ULL};
  return DeviceCode::ok;
}

DeviceCode SimDeviceImpl::destroy_stream(StreamHandle handle) {
  Lock lock(engine_->mutex);
  std::uint32_t index = 0;
  SimStream* stream = find_stream(handle, index);
  if (stream == nullptr) return DeviceCode::invalid;
  const auto outcome = engine_->wait_for(lock, {.kind = Goal::Kind::stream, .index = index}, -1);
  if (outcome == SimEngine::Outcome::deadlock) return fail(DeviceCode::invalid, engine_->describe_blocked());
  if (checks()) races_.remove_stream(stream->actor);
  const SimFailure failure = port_.lost ? SimFailure{} : stream->failure;
  engine_->remove_stream(index);
  std::erase(streams_, index);
  if (!failure) return DeviceCode::ok;
  gone_failure_ = failure;
  return fail(failure.code, failure.text);
}

DeviceCode SimDeviceImpl::create_event(EventHandle& event) {
  const Lock lock(engine_->mutex);
  if (const DeviceCode code = enter(FaultPoint::create_event); code != DeviceCode::ok) return code;
  if (options_.event_limit > 0 && live_events_ >= options_.event_limit)
    return fail(DeviceCode::no_resource, fmt::format("all {} events are in use", options_.event_limit));
  std::size_t index = events_.size();
  if (free_events_.empty()) {
    events_.emplace_back();
  } else {
    index = free_events_.back();
    free_events_.pop_back();
  }
  ++live_events_;
  events_[index] = {.clock = checks() ? races_.add_event() : -1, .alive = true};
  event = EventHandle{index + 1};
  return DeviceCode::ok;
}

DeviceCode SimDeviceImpl::destroy_event(EventHandle handle) {
  const Lock lock(engine_->mutex);
  SimEvent* event = find_event(handle);
  if (event == nullptr) return DeviceCode::invalid;
  if (event->record != kNoSlot) engine_->drop_reference(event->record);
  if (checks()) races_.remove_event(event->clock);
  *event = {};
  --live_events_;
  free_events_.push_back(static_cast<std::size_t>(handle) - 1);
  return DeviceCode::ok;
}

DeviceCode SimDeviceImpl::record_event(EventHandle handle, StreamHandle on) {
  const Lock lock(engine_->mutex);
  if (const DeviceCode code = enter(FaultPoint::record_event); code != DeviceCode::ok) return code;
  std::uint32_t index = 0;
  SimEvent* event = find_event(handle);
  SimStream* stream = find_stream(on, index);
  if (event == nullptr || stream == nullptr) return DeviceCode::invalid;
  engine_->host_pause();
  if (event->record != kNoSlot) engine_->drop_reference(event->record);
  event->record = engine_->record(index);
  if (checks()) races_.record(event->clock, stream->actor);
  return DeviceCode::ok;
}

DeviceCode SimDeviceImpl::wait_event(StreamHandle on, EventHandle handle) {
  const Lock lock(engine_->mutex);
  if (const DeviceCode code = enter(); code != DeviceCode::ok) return code;
  std::uint32_t index = 0;
  SimEvent* event = find_event(handle);
  SimStream* stream = find_stream(on, index);
  if (event == nullptr || stream == nullptr) return DeviceCode::invalid;
  engine_->host_pause();
  if (event->record == kNoSlot) return DeviceCode::ok;
  engine_->wait(index, event->record);
  if (checks()) races_.wait(stream->actor, event->clock);
  return DeviceCode::ok;
}

DeviceCode SimDeviceImpl::query_event(EventHandle handle) {
  const Lock lock(engine_->mutex);
  if (port_.lost) return enter();  // otherwise a host that polls goes on polling
  const SimEvent* event = find_event(handle);
  if (event == nullptr) return DeviceCode::invalid;
  if (event->record == kNoSlot) return DeviceCode::ok;
  engine_->host_pause();
  if (engine_->record_at(event->record).time_ns < 0) {
    engine_->poll(options_.poll_ns);
    return DeviceCode::not_ready;
  }
  if (checks()) races_.host_knows_event(event->clock);
  return DeviceCode::ok;
}

// ---- synchronising ----

// Work that others submit while this host waits is not what it waited for: what it learns is settled when it begins.
std::vector<std::int32_t> SimDeviceImpl::snapshot_streams() {
  std::vector<std::int32_t> snapshots;
  if (checks())
    for (const std::uint32_t index : streams_)
      snapshots.push_back(races_.snapshot_stream(engine_->stream(index).actor));
  return snapshots;
}

void SimDeviceImpl::learn(const std::vector<std::int32_t>& snapshots, SimEngine::Outcome outcome) {
  for (const std::int32_t snapshot : snapshots) {
    if (outcome == SimEngine::Outcome::reached) races_.host_knows_event(snapshot);
    races_.remove_event(snapshot);
  }
}

DeviceCode SimDeviceImpl::after_waiting(SimEngine::Outcome outcome, const SimFailure& failure) {
  if (port_.lost) return enter();
  if (outcome == SimEngine::Outcome::timed_out) return fail(DeviceCode::not_ready, "timed out");
  if (outcome == SimEngine::Outcome::deadlock) return fail(DeviceCode::invalid, engine_->describe_blocked());
  return failure ? fail(failure.code, failure.text) : DeviceCode::ok;
}

DeviceCode SimDeviceImpl::synchronize_event(EventHandle handle, std::int64_t timeout_ns) {
  Lock lock(engine_->mutex);
  if (const DeviceCode code = enter(FaultPoint::synchronize); code != DeviceCode::ok) return code;
  const SimEvent* event = find_event(handle);
  if (event == nullptr) return DeviceCode::invalid;
  if (event->record == kNoSlot) return DeviceCode::ok;
  const std::uint32_t record = event->record;
  engine_->hold(record);
  std::vector<std::int32_t> snapshots;
  if (checks()) snapshots.push_back(races_.snapshot_event(event->clock));
  const auto outcome = engine_->wait_for(lock, {.kind = Goal::Kind::record, .index = record}, timeout_ns);
  learn(snapshots, outcome);
  const SimFailure failure = engine_->record_at(record).failure;
  engine_->drop_reference(record);
  return after_waiting(outcome, failure);
}

DeviceCode SimDeviceImpl::synchronize_stream(StreamHandle handle) {
  Lock lock(engine_->mutex);
  if (const DeviceCode code = enter(FaultPoint::synchronize); code != DeviceCode::ok) return code;
  std::uint32_t index = 0;
  SimStream* stream = find_stream(handle, index);
  if (stream == nullptr) return DeviceCode::invalid;
  std::vector<std::int32_t> snapshots;
  if (checks()) snapshots.push_back(races_.snapshot_stream(stream->actor));
  const auto outcome = engine_->wait_for(lock, {.kind = Goal::Kind::stream, .index = index}, -1);
  learn(snapshots, outcome);
  SimFailure failure;
  if (outcome == SimEngine::Outcome::reached) failure = std::exchange(stream->failure, {});
  return after_waiting(outcome, failure);
}

DeviceCode SimDeviceImpl::synchronize_device() {
  Lock lock(engine_->mutex);
  if (const DeviceCode code = enter(FaultPoint::synchronize); code != DeviceCode::ok) return code;
  const std::vector<std::int32_t> snapshots = snapshot_streams();
  const auto outcome = engine_->wait_for(lock, {.kind = Goal::Kind::port, .port = &port_}, -1);
  learn(snapshots, outcome);
  if (outcome != SimEngine::Outcome::reached) return after_waiting(outcome, {});
  SimFailure failure = std::exchange(gone_failure_, {});
  for (const std::uint32_t index : streams_) {
    SimFailure of_stream = std::exchange(engine_->stream(index).failure, {});
    if (of_stream) failure = std::move(of_stream);
  }
  return after_waiting(outcome, failure);
}

// ---- work ----

void SimDeviceImpl::touch(const SimStream& stream, Address at, Bytes bytes, AccessKind kind, RaceLabel label) {
  memory_.translate(at, bytes, pieces_);
  for (const SimPiece& piece : pieces_) touch_piece(stream.actor, piece, kind, label);
}

// The number of an absent piece may belong to memory that lives on behind another address, so it must not be looked up.
void SimDeviceImpl::touch_piece(RaceActor actor, const SimPiece& piece, AccessKind kind, RaceLabel label) {
  const RaceAccess access = kind == AccessKind::read ? RaceAccess::read : RaceAccess::write;
  if (piece.present) {
    races_.access(actor, {.begin = piece.memory, .bytes = piece.bytes, .view = piece.view()}, access, label);
  } else {
    races_.access_nothing(actor, {.begin = piece.address, .bytes = piece.bytes}, access, label);
  }
}

void SimDeviceImpl::add_touches(SimPayload& payload, const Touch& touch) {
  memory_.translate(touch.address, touch.bytes, pieces_);
  for (const SimPiece& piece : pieces_)
    payload.touches.push_back({.address = piece.address,
                               .memory = piece.memory,
                               .bytes = piece.bytes,
                               .place = touch.place + static_cast<Bytes>(piece.address - touch.address),
                               .seed = touch.seed,
                               .is_write = touch.kind == AccessKind::write,
                               .present = piece.present});
}

void SimDeviceImpl::mark_overwritten_reads(SimPayload& payload) const {
  const auto overlap = [](const SimTouch& a, const SimTouch& b) {
    return a.memory < b.memory + static_cast<Address>(b.bytes) && b.memory < a.memory + static_cast<Address>(a.bytes);
  };
  for (SimTouch& read : payload.touches)
    if (!read.is_write)
      read.look_again = std::none_of(payload.touches.begin(), payload.touches.end(),
                                     [&](const SimTouch& other) { return other.is_write && overlap(read, other); });
}

std::uint32_t SimDeviceImpl::payload_of(const Work& work) {
  contents_tracked_ |= work.verify;
  if (!work.verify && work.message.peer_rank < 0) return kNoSlot;
  const std::uint32_t slot = engine_->take_payload();
  SimPayload& payload = engine_->payload(slot);
  payload.message = work.message;
  if (!work.verify) return slot;
  for (const Touch& t : work.touches) add_touches(payload, t);
  mark_overwritten_reads(payload);
  return slot;
}

DeviceCode SimDeviceImpl::launch(StreamHandle on, const Work& work) {
  const Lock lock(engine_->mutex);
  SimFaults::Strike strike;
  if (const DeviceCode code = enter(FaultPoint::launch, &strike); code != DeviceCode::ok) return code;
  std::uint32_t index = 0;
  const SimStream* stream = find_stream(on, index);
  if (stream == nullptr) return DeviceCode::invalid;
  engine_->host_pause();
  if (checks()) {
    races_.begin_work(stream->actor);
    for (const Touch& t : work.touches)
      touch(*stream, t.address, t.bytes, t.kind, {.what = names_.launch, .id = work.id});
  }
  const bool is_message = work.message.peer_rank >= 0;
  const SimItemKind kind = !is_message            ? SimItemKind::launch
                           : work.message.is_send ? SimItemKind::send
                                                  : SimItemKind::receive;
  ++counted_.launches;
  engine_->submit(index, {.id = work.id,
                          .ns = work.estimate_ns + strike.stall_ns + (is_message ? 0 : options_.launch_ns),
                          .slot = payload_of(work),
                          .kind = kind,
                          .fails_with = strike.code});
  return DeviceCode::ok;
}

// The two address spaces do not overlap, so the direction can be told even where nothing is allocated. What is not
// allocated at all (any more) is let through: the race checker has more to say about it.
DeviceCode SimDeviceImpl::check_copy(Address to, Address from, Bytes bytes, CopyKind kind) const {
  if (bytes < 0) return fail(DeviceCode::invalid, fmt::format("copy of {} bytes", bytes));
  const bool to_host = kind == CopyKind::device_to_host, from_host = kind == CopyKind::host_to_device;
  if (memory_.is_pinned(to) != to_host || memory_.is_pinned(from) != from_host)
    return fail(DeviceCode::invalid, fmt::format("copy from {:#x} to {:#x}: not that direction", from, to));
  if (to_host == from_host || memory_.stays_inside(to_host ? to : from, bytes)) return DeviceCode::ok;
  return fail(DeviceCode::invalid,
              fmt::format("copy from {:#x} to {:#x}: {} B leave the pinned allocation", from, to, bytes));
}

std::int64_t SimDeviceImpl::copy_time(Bytes bytes, CopyKind kind) const {
  const Link on_device{.bytes_per_s = options_.device_copy_bytes_per_s};
  const Link& link = kind == CopyKind::device_to_host   ? options_.d2h
                     : kind == CopyKind::host_to_device ? options_.h2d
                                                        : on_device;
  const double transfer_ns = link.bytes_per_s > 0 ? static_cast<double>(bytes) / link.bytes_per_s * 1e9 : 0;
  return options_.copy_launch_ns + std::llround(link.latency_ns + transfer_ns);
}

DeviceCode SimDeviceImpl::copy(StreamHandle on, Address to, Address from, Bytes bytes, CopyKind kind, std::int64_t id) {
  const Lock lock(engine_->mutex);
  SimFaults::Strike strike;
  if (const DeviceCode code = enter(FaultPoint::copy, &strike); code != DeviceCode::ok) return code;
  std::uint32_t index = 0;
  const SimStream* stream = find_stream(on, index);
  if (stream == nullptr) return DeviceCode::invalid;
  if (const DeviceCode code = check_copy(to, from, bytes, kind); code != DeviceCode::ok) return code;
  engine_->host_pause();
  if (checks()) {
    races_.begin_work(stream->actor);
    touch(*stream, from, bytes, AccessKind::read, {.what = names_.copy, .id = id});
    touch(*stream, to, bytes, AccessKind::write, {.what = names_.copy, .id = id});
  }
  SimItem item{.id = id,
               .ns = copy_time(bytes, kind) + strike.stall_ns,
               .kind = SimItemKind::copy,
               .copy = kind,
               .fails_with = strike.code};
  if (contents_tracked_) {
    item.slot = engine_->take_payload();
    add_touches(engine_->payload(item.slot), {.address = from, .bytes = bytes, .kind = AccessKind::read});
    add_touches(engine_->payload(item.slot), {.address = to, .bytes = bytes, .kind = AccessKind::write});
  }
  ++counted_.copies[static_cast<std::size_t>(kind)];
  counted_.copied_bytes[static_cast<std::size_t>(kind)] += bytes;
  engine_->submit(index, item);
  return DeviceCode::ok;
}

std::int64_t SimDeviceImpl::mismatches(Mismatch& first) {
  const Lock lock(engine_->mutex);
  first = port_.first_mismatch;
  return port_.mismatches;
}

std::int64_t SimDeviceImpl::now_ns() {
  const Lock lock(engine_->mutex);
  return engine_->now_ns();
}

// ---- for tests and reports ----

void SimDeviceImpl::host_access(Address address, Bytes bytes, AccessKind kind, std::string_view label) {
  const Lock lock(engine_->mutex);
  memory_.translate(address, bytes, pieces_);
  for (const SimPiece& piece : pieces_) {
    if (kind == AccessKind::write && piece.present) port_.contents.forget(piece.memory, piece.bytes);
    if (checks()) touch_piece(RaceActor::host, piece, kind, {.what = races_.intern(label)});
  }
}

std::int64_t SimDeviceImpl::race_count() const {
  const Lock lock(engine_->mutex);
  return races_.count();
}

std::vector<RaceReport> SimDeviceImpl::races() const {
  const Lock lock(engine_->mutex);
  return races_.reports();
}

void SimDeviceImpl::clear_races() {
  const Lock lock(engine_->mutex);
  races_.clear_reports();
}

SimStatistics SimDeviceImpl::statistics() const {
  const Lock lock(engine_->mutex);
  SimStatistics result = counted_;
  const SimMemory::Usage& usage = memory_.usage();
  result.mapped_bytes = usage.mapped;
  result.plain_bytes = usage.plain;
  result.pinned_bytes = usage.pinned;
  result.peak_device_bytes = usage.peak_device;
  result.peak_pinned_bytes = usage.peak_pinned;
  result.first_start_ns = port_.first_start_ns;
  result.last_end_ns = port_.last_end_ns;
  for (const std::uint32_t index : streams_) {
    const SimStream& stream = engine_->stream(index);
    result.streams.push_back({StreamHandle{index + 1ULL}, stream.name, stream.works, stream.busy_ns});
  }
  return result;
}

void SimDeviceImpl::reset_statistics() {
  const Lock lock(engine_->mutex);
  counted_ = {};
  memory_.restart_peaks();
  port_.first_start_ns = port_.last_end_ns = -1;
  for (const std::uint32_t index : streams_) {
    engine_->stream(index).works = 0;
    engine_->stream(index).busy_ns = 0;
  }
}

std::vector<SimSpan> SimDeviceImpl::take_timeline() {
  const Lock lock(engine_->mutex);
  return std::exchange(port_.timeline, {});
}

void SimDeviceImpl::set_faults(std::vector<Fault> faults) {
  const Lock lock(engine_->mutex);
  faults_.set(std::move(faults));
}

std::string SimDeviceImpl::leaks() const {
  const Lock lock(engine_->mutex);
  std::string text = memory_.leaks();
  if (!streams_.empty()) text += fmt::format("{}{} streams", text.empty() ? "" : ", ", streams_.size());
  if (live_events_ > 0) text += fmt::format("{}{} events", text.empty() ? "" : ", ", live_events_);
  return text;
}

}  // namespace

std::unique_ptr<SimDevice> make_sim_device_in(std::shared_ptr<SimEngine> engine, const SimOptions& options) {
  return std::make_unique<SimDeviceImpl>(std::move(engine), options);
}

}  // namespace tidemark
