#include <algorithm>
#include <cassert>

#include "allocator/block_pool.h"
#include "allocator/give_back.h"

namespace tidemark::allocator {

PlainPool::PlainPool(const Shared& shared) : BlockPool(shared, kPage) {}

DeviceCode PlainPool::grow(Bytes bytes, StreamSlot stream, const GrowthBudget& budget,
                           std::optional<RangeInfo>& range) {
  const auto known = shared_.order.known_epochs(stream);
  const auto joined = find_placement(space_, bytes, kPage, [&](const RangeInfo& free) { return is_over(free, known); });
  if (joined && joined->missing_bytes == 0) {
    range = space_.allocate_at(joined->offset, bytes);
    return DeviceCode::ok;
  }
  const Bytes exact = round_up(bytes, kPage);
  const Bytes roomy = bytes > kMiB && bytes < kMediumSegment / 2 ? kMediumSegment : exact;
  Segment segment;
  DeviceCode code = DeviceCode::out_of_memory;
  for (const Bytes size : {roomy, exact}) {
    if (reserved_bytes_ + size > budget.limit_bytes) trim(std::max<Bytes>(budget.limit_bytes - size, 0));
    if (reserved_bytes_ + size > budget.limit_bytes) continue;
    code = add_segment(size, stream, segment);
    if (code != DeviceCode::out_of_memory) break;
  }
  if (code == DeviceCode::ok) range = space_.allocate_at(segment.offset, bytes);
  return code;
}

/// A vacant place with a page of nothing on both sides, so that ranges of two segments never merge.
Bytes PlainPool::place_for(Bytes bytes) {
  for (RangeId id = space_.first(); id != kNoRange; id = space_.next(id)) {
    const RangeInfo range = space_.info(id);
    if (range.state == RangeState::absent && range.bytes >= bytes + 2 * kPage) return range.offset + kPage;
  }
  const Bytes offset = space_.capacity() + kPage;
  segment_of_page_.resize(static_cast<std::size_t>((offset + bytes + kPage) / kPage),
                          0);  // may fail, so it comes first
  space_.grow(bytes + 2 * kPage, OffsetAllocator::Initial::absent);
  return offset;
}

DeviceCode PlainPool::add_segment(Bytes bytes, StreamSlot stream, Segment& segment) {
  segment = {.offset = place_for(bytes), .bytes = bytes};
  space_.reserve(kRangesOfMark);
  auto place = std::find_if(segments_.begin(), segments_.end(), [](const Segment& old) { return old.bytes == 0; });
  if (place == segments_.end()) place = segments_.insert(place, Segment{});
  const DeviceCode code = shared_.device.allocate_plain(bytes, segment.address);
  if (code != DeviceCode::ok) return code;
  *place = segment;
  const auto index = static_cast<std::uint32_t>(place - segments_.begin());
  for (Bytes at = segment.offset; at < segment.offset + bytes; at += kPage) {
    segment_of_page_[static_cast<std::size_t>(at / kPage)] = index;
  }
  const bool marked = space_.mark_present(segment.offset, bytes, static_cast<FreeDomain>(stream));
  assert(marked);
  static_cast<void>(marked);
  shared_.statistics.segment.change(1);
  change_reserved(bytes, TraceAction::segment_alloc, segment.address, stream);
  return DeviceCode::ok;
}

Address PlainPool::address_of(Bytes offset) const {
  const Segment& segment = segments_[segment_of_page_[static_cast<std::size_t>(offset / kPage)]];
  return segment.address + static_cast<Address>(offset - segment.offset);
}

bool PlainPool::is_free(const Segment& segment) const {
  for (RangeId id = space_.find(segment.offset); id != kNoRange; id = space_.next(id)) {
    const RangeInfo range = space_.info(id);
    if (range.offset >= segment.offset + segment.bytes) break;
    if (range.state == RangeState::used) return false;
  }
  return true;
}

bool PlainPool::is_idle(const Segment& segment) const {
  const auto completed = shared_.order.completed_epochs();
  for (RangeId id = space_.find(segment.offset); id != kNoRange; id = space_.next(id)) {
    const RangeInfo range = space_.info(id);
    if (range.offset >= segment.offset + segment.bytes) break;
    if (range.state == RangeState::used || !is_over(range, completed)) return false;
  }
  return true;
}

Bytes PlainPool::trim(Bytes keep_bytes) {
  Bytes gone = 0;
  for (Segment& segment : segments_) {
    if (reserved_bytes_ <= keep_bytes) break;
    if (segment.bytes == 0 || !is_idle(segment)) continue;
    space_.reserve(kRangesOfMark);
    if (shared_.device.free_plain(segment.address) != DeviceCode::ok) break;
    const bool marked = space_.mark_absent(segment.offset, segment.bytes);
    assert(marked);
    static_cast<void>(marked);
    shared_.statistics.segment.change(-1);
    change_reserved(-segment.bytes, TraceAction::segment_free, segment.address);
    gone += segment.bytes;
    segment.bytes = 0;
  }
  return gone;
}

void PlainPool::release() {
  for (Segment& segment : segments_) {
    // At the end nobody is left to tell.
    if (segment.bytes > 0) give_back([&] { return shared_.device.free_plain(segment.address); });
    segment.bytes = 0;
  }
}

Bytes PlainPool::split_bytes() const {
  Bytes split = 0;
  for (const Segment& segment : segments_) {
    if (segment.bytes == 0 || is_free(segment)) continue;
    for (RangeId id = space_.find(segment.offset); id != kNoRange; id = space_.next(id)) {
      const RangeInfo range = space_.info(id);
      if (range.offset >= segment.offset + segment.bytes) break;
      if (range.state == RangeState::free) split += range.bytes;
    }
  }
  return split;
}

}  // namespace tidemark::allocator
