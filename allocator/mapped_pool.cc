#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "allocator/block_pool.h"
#include "allocator/give_back.h"
#include "allocator/mapped_pool_suspend.h"

namespace tidemark::allocator {

MappedPool::MappedPool(const Shared& shared, Bytes address_space_bytes)
    : BlockPool(shared, shared.device.traits().granule_bytes),
      address_space_bytes_(round_up(address_space_bytes, grain_)),
      windows_(shared.device, grain_, address_space_bytes_) {}

/// Once; a smaller range is better than none.
DeviceCode MappedPool::reserve_range() {
  if (base_ != 0) return DeviceCode::ok;
  space_.reserve(1);  // so that growing it, once the device has given the range, cannot fail
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
  const Usable usable = [&](const RangeInfo& free) { return is_over(free, known); };
  const auto place = find_placement(space_, bytes, grain_, usable);
  if (!place) return DeviceCode::out_of_memory;
  range = stitch(bytes, stream, budget, *place, usable);
  if (range) return DeviceCode::ok;
  if (const DeviceCode code = supply(*place, bytes, stream, budget); code != DeviceCode::ok) return code;
  range = space_.allocate_at(place->offset, bytes);
  return DeviceCode::ok;
}

/// The block in a window over left-over pieces, where that takes less new memory than the best place in one piece.
/// Anything the device refuses here leaves the ordinary way open.
std::optional<RangeInfo> MappedPool::stitch(Bytes bytes, StreamSlot stream, const GrowthBudget& budget,
                                            const Placement& place, const Usable& usable) {
  if (!shared_.device.traits().aliasing || grain_ % shared_.unit != 0 || 2 * bytes <= grain_) return std::nullopt;
  if (place.missing_bytes == 0 || reserved_bytes_ + place.missing_bytes <= budget.wanted_bytes) return std::nullopt;
  Bytes price = place.missing_bytes;
  for (const Stretch& idle : idle_granules(place.offset, bytes)) price -= idle.bytes;
  if (price <= 0) return std::nullopt;
  StitchedWindow* cached =
      windows_.find_dead(bytes, [&](const StitchedWindow& window) { return are_usable(window, usable); });
  if (cached != nullptr) return occupy(*cached, stream);
  StitchPlan plan = find_stitch(space_, bytes, grain_, usable);
  if (plan.missing_bytes >= price || reserved_bytes_ + plan.missing_bytes > budget.limit_bytes) return std::nullopt;
  if (plan.missing_bytes > 0) {
    if (!map_anywhere(plan.missing_bytes, stream)) return std::nullopt;
    plan = find_stitch(space_, bytes, grain_, usable);
  }
  if (plan.pieces.empty()) return std::nullopt;
  const auto completed = shared_.order.completed_epochs();
  windows_.limit([&](const StitchedWindow& window) {
    const auto slot = static_cast<std::size_t>(window.stream);
    return slot < completed.size() && completed[slot] >= window.death;
  });
  StitchedWindow* window = windows_.make(plan.pieces, bytes, base_);
  if (window == nullptr) return std::nullopt;
  ++shared_.statistics.stitched_windows;
  return occupy(*window, stream);
}

/// New granules at the first addresses that are free.
bool MappedPool::map_anywhere(Bytes bytes, StreamSlot stream) {
  MetadataVector<Stretch> holes;
  for (RangeId id = space_.first(); id != kNoRange && bytes > 0; id = space_.next(id)) {
    const RangeInfo range = space_.info(id);
    if (range.state != RangeState::absent) continue;
    holes.push_back({.offset = range.offset, .bytes = std::min(range.bytes, bytes)});
    bytes -= holes.back().bytes;
  }
  return bytes == 0 && map(holes, stream) == DeviceCode::ok;
}

bool MappedPool::are_usable(const StitchedWindow& window, const Usable& usable) const {
  for (const Stretch& piece : window.pieces) {
    for (RangeId id = space_.find(piece.offset); id != kNoRange; id = space_.next(id)) {
      const RangeInfo range = space_.info(id);
      if (range.offset >= piece.offset + piece.bytes) break;
      if (range.state != RangeState::free || !usable(range)) return false;
    }
  }
  return true;
}

/// Takes the pieces of a window, all of which the stream may use.
std::optional<RangeInfo> MappedPool::occupy(StitchedWindow& window, StreamSlot stream) {
  MetadataVector<RangeId> ranges;
  try {
    ranges.reserve(window.pieces.size());
    for (const Stretch& piece : window.pieces) {
      const auto taken = space_.allocate_at(piece.offset, piece.bytes);
      assert(taken);
      ranges.push_back(taken->id);
    }
    windows_.bring_to_life(window, ranges);
  } catch (...) {
    for (const RangeId range : ranges) BlockPool::give(range, stream, shared_.order.death_epoch(stream));
    throw;
  }
  RangeInfo whole = space_.info(ranges.front());
  whole.bytes = window.bytes;
  return whole;
}

void MappedPool::give(RangeId range, StreamSlot stream, Epoch stamp) {
  StitchedWindow* window = windows_.window_of(range);
  if (window == nullptr) {
    const RangeInfo gone = space_.info(range);
    BlockPool::give(range, stream, stamp);
    return forget_parts(gone);
  }
  for (const RangeId piece : window->ranges) BlockPool::give(piece, stream, stamp);
  windows_.bury(*window, stream, stamp);
}

BlockPool::AddressRange MappedPool::reserved_around(Address address) const {
  const AddressRange whole{.base = base_, .bytes = space_.capacity()};
  if (address - whole.base < static_cast<Address>(whole.bytes)) return whole;
  return {.base = windows_.base(), .bytes = windows_.space_bytes()};
}

Address MappedPool::start_of(const RangeInfo& range) const {
  const StitchedWindow* window = windows_.window_of(range.id);
  return window == nullptr ? address_of(range.offset) : window->view.base + static_cast<Address>(window->start);
}

Bytes MappedPool::size_of(const RangeInfo& range) const {
  const StitchedWindow* window = windows_.window_of(range.id);
  return window == nullptr ? range.bytes : window->bytes;
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
  space_.reserve(2 * kRangesOfMark);
  if (!windows_.detach(from, bytes)) return DeviceCode::no_resource;
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
    space_.reserve(kRangesOfMark);
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
  if (suspended_) return gone;  // the rest goes with resume()
  const auto stretches = idle_granules(0, 0);
  for (auto stretch = stretches.rbegin(); stretch != stretches.rend() && reserved_bytes_ > keep_bytes; ++stretch) {
    const Bytes bytes = std::min(stretch->bytes, round_up(reserved_bytes_ - keep_bytes, grain_));
    const Bytes offset = stretch->offset + stretch->bytes - bytes;
    space_.reserve(kRangesOfMark);
    if (!windows_.detach(offset, bytes) || shared_.device.unmap(address_of(offset), bytes) != DeviceCode::ok) break;
    const bool marked = space_.mark_absent(offset, bytes);
    assert(marked);
    static_cast<void>(marked);
    change_reserved(-bytes, TraceAction::segment_unmap, address_of(offset));
    gone += bytes;
  }
  return gone;
}

Bytes MappedPool::gather(StreamSlot stream, Bytes bytes) {
  if (suspended_) return 0;
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
  windows_.release();
  // At the end nobody is left to tell.
  visit_present([&](const Stretch& stretch) {
    give_back([&] { return shared_.device.unmap(address_of(stretch.offset), stretch.bytes); });
  });
  give_back([&] { return shared_.device.release(base_, space_.capacity()); });
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
  if (std::string text = windows_.validate(space_); !text.empty()) return text;
  for (RangeId id = space_.first(); id != kNoRange; id = space_.next(id)) {
    const RangeInfo range = space_.info(id);
    if (range.state == RangeState::absent && (range.offset % grain_ != 0 || range.bytes % grain_ != 0)) {
      return fmt::format("absent range at {} is not made of granules", range.offset);
    }
  }
  Bytes present = space_.capacity() - space_.absent_bytes();
  for (const auto* unmapped : {&away_, &parts_})
    for (const Stretch& stretch : *unmapped) present -= stretch.bytes;
  return present == reserved_bytes_ ? std::string{} : "reserved bytes differ from what is present";
}

}  // namespace tidemark::allocator
