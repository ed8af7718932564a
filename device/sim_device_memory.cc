#include <algorithm>

#include "device/sim_device_impl.h"

namespace tidemark {

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

}  // namespace tidemark
