// Parts of a live block without memory: whole granules that its holder does not use for a while.

#include <algorithm>
#include <cassert>

#include "allocator/block_pool.h"

namespace tidemark::allocator {

Bytes MappedPool::unmap_part(Bytes offset, Bytes bytes) {
  const bool is_whole = bytes > 0 && offset % grain_ == 0 && bytes % grain_ == 0;
  const auto behind = std::ranges::upper_bound(parts_, offset, {}, &Stretch::offset);
  const bool is_mapped = (behind == parts_.begin() || std::prev(behind)->offset + std::prev(behind)->bytes <= offset) &&
                         (behind == parts_.end() || offset + bytes <= behind->offset);
  if (suspended_ || !is_whole || !is_mapped) return 0;
  const auto place = parts_.insert(behind, {.offset = offset, .bytes = bytes});
  try {
    space_.set_aside(kRangesOfMark);  // so that the block's end cannot fail
  } catch (...) {
    parts_.erase(place);
    throw;
  }
  if (!windows_.detach(offset, bytes) || shared_.device.unmap(address_of(offset), bytes) != DeviceCode::ok) {
    parts_.erase(place);
    space_.put_back(kRangesOfMark);
    return 0;
  }
  change_reserved(-bytes, TraceAction::segment_unmap, address_of(offset));
  return bytes;
}

DeviceCode MappedPool::map_part(Bytes offset, Bytes bytes, StreamSlot stream) {
  const auto part = std::ranges::find(parts_, offset, &Stretch::offset);
  assert(part != parts_.end() && bytes <= part->bytes && bytes % grain_ == 0);
  const DeviceCode code = shared_.device.map(address_of(offset), bytes);
  if (code != DeviceCode::ok) return code;
  part->offset += bytes;
  part->bytes -= bytes;
  if (part->bytes == 0) {
    parts_.erase(part);
    space_.put_back(kRangesOfMark);
  }
  change_reserved(bytes, TraceAction::segment_map, address_of(offset), stream);
  return code;
}

/// Of a range that was just freed. Cannot fail: there is room in the books since unmap_part().
void MappedPool::forget_parts(const RangeInfo& gone) {
  std::erase_if(parts_, [&](const Stretch& part) {
    if (part.offset < gone.offset || part.offset >= gone.end()) return false;
    space_.put_back(kRangesOfMark);
    const bool marked = space_.mark_absent(part.offset, part.bytes);
    assert(marked);
    static_cast<void>(marked);
    return true;
  });
}

}  // namespace tidemark::allocator
