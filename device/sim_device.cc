#include <fmt/format.h>

#include <utility>

#include "device/sim_device_impl.h"

namespace tidemark {

std::unique_ptr<SimDevice> make_sim_device_in(std::shared_ptr<SimEngine> engine, const SimOptions& options);

SimDeviceImpl::SimDeviceImpl(std::shared_ptr<SimEngine> engine, const SimOptions& options)
    : engine_(std::move(engine)),
      options_(options),
      memory_({.capacity_bytes = options.capacity_bytes,
               .pinned_capacity_bytes = options.pinned_capacity_bytes,
               .granule_bytes = options.granule_bytes,
               .alignment_bytes = options.alignment_bytes}),
      races_(options.race_report_limit,
             options.report_unwritten ? RaceChecker::Unwritten::is_reported : RaceChecker::Unwritten::may_be_read) {
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
  for (const SimEvent& event : events_.slots())
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
  if (events_.alive() > 0) text += fmt::format("{}{} events", text.empty() ? "" : ", ", events_.alive());
  return text;
}

std::unique_ptr<SimDevice> make_sim_device_in(std::shared_ptr<SimEngine> engine, const SimOptions& options) {
  return std::make_unique<SimDeviceImpl>(std::move(engine), options);
}

}  // namespace tidemark
