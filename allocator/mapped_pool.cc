#include <fmt/format.h>

#include <algorithm>

#include "allocator/block_pool.h"

namespace tidemark {

MappedPool::MappedPool(const Shared& shared, Bytes address_space_bytes)
    : BlockPool(shared, shared.device.traits().granule_bytes),
      address_space_bytes_(round_up(address_space_bytes, grain_)) {}

/// Once; a smaller range is better than none.
DeviceCode MappedPool::reserve_range() {
  if (base_ != 0) return DeviceCode::ok;
  Bytes bytes = address_space_bytes_;
  DeviceCode code = shared_.device.reserve(bytes, base_);
  for (int tries = 0; code == DeviceCode::out_of_memory && tries < 4; ++tries) {
    bytes = round_up(bytes / 2, grain_);
    code = shared_.device.reserve(bytes, base_);
  }
  if (code != DeviceCode::ok) return code;
  space_.grow(bytes, OffsetAllocator::Initial::absent);
  shared_.statistics.segment.change(1);
  return DeviceCode::ok;
}

DeviceCode MappedPool::grow(Bytes bytes, StreamSlot stream, const GrowthBudget& budget,
                            std::optional<RangeInfo>& range) {
  if (const DeviceCode code = reserve_range(); code != DeviceCode::ok) return code;
  const auto known = shared_.order.known_epochs(stream);
  const auto place = find_placement(space_, bytes, grain_, [&](const RangeInfo& free) { return is_over(free, known); });
  if (!place) return DeviceCode::out_of_memory;
  if (const DeviceCode code = supply(*place, bytes, stream, budget); code != DeviceCode::ok) return code;
  range = space_.allocate_at(place->offset, bytes);
  return DeviceCode::ok;
}

/// Puts memory behind the missing granules of a place: idle ones beyond the wanted size, then new ones, and idle ones
/// again if the device refuses.
DeviceCode MappedPool::supply(const Placement& place, Bytes bytes, StreamSlot stream, const GrowthBudget& budget) {
  Bytes need = place.missing_bytes;
  if (need == 0) return DeviceCode::ok;
  auto missing = missing_stretches(space_, place.offset, bytes, grain_);
  const Bytes beyond = round_up(std::max<Bytes>(reserved_bytes_ + need - budget.wanted_bytes, 0), grain_);
  need -= harvest(missing, place, bytes, std::min(need, beyond), stream);
  if (need == 0) return DeviceCode::ok;
  if (reserved_bytes_ + need > budget.limit_bytes) {
    need -= harvest(missing, place, bytes, need, stream);
    if (need > 0 && reserved_bytes_ + need > budget.limit_bytes) return DeviceCode::out_of_memory;
  }
  DeviceCode code = map(missing, stream);
  if (code != DeviceCode::out_of_memory) return code;
  Bytes left = 0;
  for (const Stretch& stretch : missing) left += stretch.bytes;
  return harvest(missing, place, bytes, left, stream) == left ? DeviceCode::ok : code;
}

MetadataVector<Stretch> MappedPool::idle_granules(Bytes keep, Bytes keep_bytes) const {
  const auto completed = shared_.order.completed_epochs();
  return idle_stretches(space_, grain_, keep, keep_bytes,
                        [&](const RangeInfo& range) { return is_over(range, completed); });
}

/// Moves up to `wanted` bytes of idle granules to the missing places, from the back, and returns how many.
Bytes MappedPool::harvest(MetadataVector<Stretch>& missing, const Placement& place, Bytes bytes, Bytes wanted,
                          StreamSlot stream) {
  Bytes done = 0;
  if (wanted <= 0) return done;
  for (const Stretch& source : idle_granules(place.offset, bytes)) {
    Bytes taken = 0;
    while (taken < source.bytes && done < wanted && !missing.empty()) {
      Stretch& hole = missing.back();
      const Bytes piece = std::min({source.bytes - taken, hole.bytes, wanted - done});
      if (move_granules(hole.offset + hole.bytes - piece, source.offset + taken, piece, stream) != DeviceCode::ok) {
        return done;
      }
      taken += piece;
      done += piece;
      hole.bytes -= piece;
      if (hole.bytes == 0) missing.pop_back();
    }
    if (done == wanted) break;
  }
  return done;
}

DeviceCode MappedPool::move_granules(Bytes to, Bytes from, Bytes bytes, StreamSlot stream) {
  const DeviceCode code = shared_.device.remap(address_of(to), address_of(from), bytes);
  if (code != DeviceCode::ok) return code;
  const bool marked =
      space_.mark_absent(from, bytes) && space_.mark_present(to, bytes, static_cast<FreeDomain>(stream));
  assert(marked);
  static_cast<void>(marked);
  ++shared_.statistics.remaps;
  shared_.statistics.harvested_granules += bytes / grain_;
  if (shared_.history.on()) {
    const std::int64_t now = shared_.device.now_ns();
    const StreamHandle handle = shared_.order.handle_of(stream);
    shared_.history.add({.action = TraceAction::segment_unmap,
                         .address = address_of(from),
                         .size = bytes,
                         .stream = handle,
                         .time_ns = now});
    shared_.history.add({.action = TraceAction::segment_map,
                         .address = address_of(to),
                         .size = bytes,
                         .stream = handle,
                         .time_ns = now});
  }
  return DeviceCode::ok;
}

/// New memory for what is missing; what was filled is taken off the list.
DeviceCode MappedPool::map(MetadataVector<Stretch>& missing, StreamSlot stream) {
  for (; !missing.empty(); missing.pop_back()) {
    const Stretch hole = missing.back();
    const DeviceCode code = shared_.device.map(address_of(hole.offset), hole.bytes);
    if (code != DeviceCode::ok) return code;
    const bool marked = space_.mark_present(hole.offset, hole.bytes, static_cast<FreeDomain>(stream));
    assert(marked);
    static_cast<void>(marked);
    change_reserved(hole.bytes, TraceAction::segment_map, address_of(hole.offset), stream);
  }
  return DeviceCode::ok;
}

Bytes MappedPool::trim(Bytes keep_bytes) {
  Bytes gone = 0;
  const auto stretches = idle_granules(0, 0);
  for (auto stretch = stretches.rbegin(); stretch != stretches.rend() && reserved_bytes_ > keep_bytes; ++stretch) {
    const Bytes bytes = std::min(stretch->bytes, round_up(reserved_bytes_ - keep_bytes, grain_));
    const Bytes offset = stretch->offset + stretch->bytes - bytes;
    if (shared_.device.unmap(address_of(offset), bytes) != DeviceCode::ok) break;
    const bool marked = space_.mark_absent(offset, bytes);
    assert(marked);
    static_cast<void>(marked);
    change_reserved(-bytes, TraceAction::segment_unmap, address_of(offset));
    gone += bytes;
  }
  return gone;
}

Bytes MappedPool::gather(StreamSlot stream, Bytes bytes) {
  if (bytes == 0) {
    for (const Stretch& stretch : idle_granules(0, 0)) bytes += stretch.bytes;
  }
  bytes = round_up(bytes, grain_);
  if (bytes == 0) return 0;
  const auto completed = shared_.order.completed_epochs();
  const auto place =
      find_placement(space_, bytes, grain_, [&](const RangeInfo& range) { return is_over(range, completed); });
  if (!place) return 0;
  const GrowthBudget nothing_new{.wanted_bytes = 0, .limit_bytes = reserved_bytes_};
  if (supply(*place, bytes, stream, nothing_new) != DeviceCode::ok) return 0;
  const auto range = space_.allocate_at(place->offset, bytes);  // joins what several streams left behind
  if (!range) return 0;
  give(range->id, stream, 0);
  return bytes;
}

void MappedPool::release() {
  if (base_ == 0) return;
  for (RangeId id = space_.first(); id != kNoRange; id = space_.next(id)) {
    RangeInfo range = space_.info(id);
    if (range.state == RangeState::absent) continue;
    Bytes end = range.end();
    for (; space_.next(id) != kNoRange && space_.info(space_.next(id)).state != RangeState::absent;) {
      id = space_.next(id);
      end = space_.info(id).end();
    }
    (void)shared_.device.unmap(address_of(range.offset), end - range.offset);  // at the end nobody is left to tell
  }
  (void)shared_.device.release(base_, space_.capacity());
  base_ = 0;
}

Bytes MappedPool::split_bytes() const {
  Bytes split = 0;
  for (RangeId id = space_.first(); id != kNoRange; id = space_.next(id)) {
    const RangeInfo range = space_.info(id);
    if (range.state != RangeState::free) continue;
    const Bytes from = round_up(range.offset, grain_), to = range.end() / grain_ * grain_;
    split += range.bytes - std::max<Bytes>(to - from, 0);
  }
  return split;
}

std::string MappedPool::validate() const {
  if (std::string text = BlockPool::validate(); !text.empty()) return text;
  for (RangeId id = space_.first(); id != kNoRange; id = space_.next(id)) {
    const RangeInfo range = space_.info(id);
    if (range.state == RangeState::absent && (range.offset % grain_ != 0 || range.bytes % grain_ != 0)) {
      return fmt::format("absent range at {} is not made of granules", range.offset);
    }
  }
  const Bytes present = space_.capacity() - space_.absent_bytes();
  return present == reserved_bytes_ ? std::string{} : "reserved bytes differ from what is present";
}

}  // namespace tidemark
