#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "device/sim_device_impl.h"

namespace tidemark {

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

std::int64_t SimDeviceImpl::copy_time(Bytes bytes, CopyKind kind, std::int64_t id) const {
  if (id == kOutsideStep) return 0;
  const bool in_list = id >= 0 && id < static_cast<std::int64_t>(options_.copies.size());
  if (const GivenCopyTime given = in_list ? options_.copies[static_cast<std::size_t>(id)] : GivenCopyTime{};
      given.bytes > 0)
    return std::llround(static_cast<double>(given.ns) * static_cast<double>(bytes) / static_cast<double>(given.bytes));
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
               .ns = copy_time(bytes, kind, id) + strike.stall_ns,
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

}  // namespace tidemark
