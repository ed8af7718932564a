#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "device/sim_device_impl.h"

namespace tidemark {

namespace {

constexpr std::array<const char*, kStreamRoleCount> kRoleNames = {"compute", "intra_comm", "inter_comm", "send",
                                                                  "receive", "d2h",        "h2d"};

}  // namespace

// ---- by handle ----

SimStream* SimDeviceImpl::find_stream(StreamHandle handle, std::uint32_t& index) const {
  index = static_cast<std::uint32_t>(static_cast<std::uint64_t>(handle)) - 1;
  if (std::find(streams_.begin(), streams_.end(), index) == streams_.end()) {
    fail(DeviceCode::invalid, fmt::format("no stream {}", static_cast<std::uint64_t>(handle)));
    return nullptr;
  }
  return &engine_->stream(index);
}

SimEvent* SimDeviceImpl::find_event(EventHandle handle) {
  if (SimEvent* event = events_.find(handle); event != nullptr) return event;
  fail(DeviceCode::invalid, fmt::format("no event {}", static_cast<std::uint64_t>(handle)));
  return nullptr;
}
// ---- streams ----

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

// ---- events ----

DeviceCode SimDeviceImpl::create_event(EventHandle& event) {
  const Lock lock(engine_->mutex);
  if (const DeviceCode code = enter(FaultPoint::create_event); code != DeviceCode::ok) return code;
  if (options_.event_limit > 0 && events_.alive() >= options_.event_limit)
    return fail(DeviceCode::no_resource, fmt::format("all {} events are in use", options_.event_limit));
  event = events_.add(checks() ? races_.add_event() : -1);
  return DeviceCode::ok;
}

DeviceCode SimDeviceImpl::destroy_event(EventHandle handle) {
  const Lock lock(engine_->mutex);
  SimEvent* event = find_event(handle);
  if (event == nullptr) return DeviceCode::invalid;
  if (event->record != kNoSlot) engine_->drop_reference(event->record);
  if (checks()) races_.remove_event(event->clock);
  events_.remove(handle);
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

}  // namespace tidemark
