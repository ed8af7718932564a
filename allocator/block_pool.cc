#include "allocator/block_pool.h"

#include <algorithm>

namespace tidemark::allocator {

std::optional<RangeInfo> BlockPool::take(Bytes bytes, StreamSlot stream, OffsetAllocator::Search search) {
  const auto domain = static_cast<FreeDomain>(stream);
  if (const RangeId range = space_.find_fit(bytes, domain, search); range != kNoRange) return cut(range, bytes);
  return take_from_others(bytes, stream, search);
}

RangeInfo BlockPool::cut(RangeId range, Bytes bytes) {
  return space_.carve(range, place_in(space_.info(range), bytes, grain_), bytes);
}

std::optional<RangeInfo> BlockPool::take_from_others(Bytes bytes, StreamSlot stream, OffsetAllocator::Search search) {
  constexpr int kFastVisits = 32;
  if (!space_.others_have_free(static_cast<FreeDomain>(stream))) return std::nullopt;
  const MetadataVector<Epoch> known = shared_.order.known_epochs(stream);
  const auto domains = static_cast<FreeDomain>(shared_.order.stream_count());
  for (FreeDomain domain = 0; domain < domains; ++domain) {
    if (domain == static_cast<FreeDomain>(stream)) continue;
    int visits = 0;
    bool found = false;
    const RangeId range = space_.find_free(domain, bytes, [&](const RangeInfo& candidate) {
      found = is_over(candidate, known);
      return found || (search == OffsetAllocator::Search::fast && ++visits >= kFastVisits);
    });
    if (!found) continue;
    ++cross_stream_reuses_;
    return cut(range, bytes);
  }
  return std::nullopt;
}

void BlockPool::change_reserved(Bytes by, TraceAction action, Address address, StreamSlot stream) {
  reserved_bytes_ += by;
  shared_.statistics.reserved_bytes.change(by);
  ++(by > 0 ? shared_.statistics.num_device_alloc : shared_.statistics.num_device_free);
  if (!shared_.history.on()) return;
  const bool known = shared_.order.stream_count() > static_cast<std::size_t>(stream);
  shared_.history.add({.action = action,
                       .address = address,
                       .size = by > 0 ? by : -by,
                       .stream = known ? shared_.order.handle_of(stream) : StreamHandle{},
                       .time_ns = shared_.device.now_ns()});
}

}  // namespace tidemark::allocator
