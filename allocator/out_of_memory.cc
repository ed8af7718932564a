// Who holds the memory, and what would help.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "allocator/caching_allocator_impl.h"

namespace tidemark::allocator {
namespace {

constexpr std::size_t kHolders = 8;

std::string advice(const OutOfMemory& oom) {
  if (oom.requested_bytes > oom.limit_bytes) return "The request alone is larger than the limit.";
  const Bytes wanted = round_up(oom.requested_bytes, oom.granule_bytes);
  const bool limit_binds = oom.limit_bytes - oom.reserved_bytes < wanted && oom.device_free_bytes >= wanted;
  if (!limit_binds && oom.device_code == DeviceCode::out_of_memory && oom.foreign_bytes > oom.limit_bytes / 20 &&
      oom.foreign_bytes >= oom.requested_bytes) {
    return fmt::format("Memory that is not of this allocator would do: look at what else holds {}.",
                       format_bytes(oom.foreign_bytes));
  }
  if (oom.cached_bytes >= oom.requested_bytes) {
    return std::string("Free memory would do, but it lies in pieces smaller than a granule, between live blocks: ") +
           (limit_binds ? "a higher limit, fewer small long-lived blocks, or allocating them first, would help."
                        : "fewer small long-lived blocks, or allocating them first, would help.");
  }
  if (limit_binds) return "The device has room: a higher limit would do.";
  const Bytes room = std::clamp<Bytes>(oom.limit_bytes - oom.reserved_bytes, 0, oom.device_free_bytes);
  return fmt::format("{} more is needed: keep less, swap or recompute more.",
                     format_bytes(std::max<Bytes>(oom.requested_bytes - oom.cached_bytes - room, 0)));
}

}  // namespace

std::string OutOfMemory::text() const {
  std::string text = fmt::format(
      "Out of device memory: tried to allocate {} on stream {:#x}. The device has {}, of which {} free; {} is held by "
      "others. This allocator may reserve {} and has {}: {} in live blocks, {} pending, {} cached (largest free range "
      "{}).",
      format_bytes(requested_bytes), static_cast<std::uint64_t>(stream), format_bytes(device_total_bytes),
      format_bytes(device_free_bytes), format_bytes(foreign_bytes), format_bytes(limit_bytes),
      format_bytes(reserved_bytes), format_bytes(allocated_bytes), format_bytes(pending_bytes),
      format_bytes(cached_bytes), format_bytes(largest_free_bytes));
  if (!holders.empty()) text += " Largest holders:";
  for (const Holder& holder : holders) {
    text += fmt::format(" {} {} ({} of {} on stream {:#x});", format_bytes(holder.bytes), holder.name, holder.count,
                        format_bytes(holder.block_bytes), static_cast<std::uint64_t>(holder.stream));
  }
  if (!holders.empty()) text.back() = '.';
  return text + ' ' + advice(*this);
}

std::string CachingAllocator::Impl::name_owner(std::uint32_t owner) const {
  try {
    if (options.owner_name) return options.owner_name(owner);
  } catch (...) {  // a report without names beats none
  }
  return fmt::format("owner {}", owner);
}

/// The device and the caller's own code are asked without any lock.
OutOfMemory CachingAllocator::Impl::report() {
  OutOfMemory report;
  MemoryInfo memory;
  if (device.memory_info(memory) != DeviceCode::ok) memory = {};
  report.device_total_bytes = memory.total_bytes;
  report.device_free_bytes = memory.free_bytes;
  with_everything_locked([&] { report_locked(report); });
  for (auto& holder : report.holders) holder.name = name_owner(holder.owner);
  return report;
}

/// All but the names, with what the device said filled in.
void CachingAllocator::Impl::report_locked(OutOfMemory& report) {
  report.limit_bytes = limit_bytes;
  report.granule_bytes = device.traits().granule_bytes;
  const AllocatorStatistics now = statistics_locked();
  report.allocated_bytes = now.allocated_bytes.current;
  report.pending_bytes = now.pending_bytes;
  report.reserved_bytes = now.reserved_bytes.current;
  report.cached_bytes = now.cached_bytes;
  report.foreign_bytes =
      std::max<Bytes>(report.device_total_bytes - report.device_free_bytes - report.reserved_bytes, 0);
  report.device_code = last_refusal;

  std::map<std::tuple<std::uint32_t, Bytes, StreamSlot>, std::int64_t> counts;
  for (std::size_t i = 0; i < locked_shards; ++i) {
    const OffsetAllocator& space = shards[i]->pool().space();
    for (RangeId id = space.first(); id != kNoRange; id = space.next(id)) {
      const RangeInfo range = space.info(id);
      if (range.state == RangeState::free) report.largest_free_bytes = std::max(report.largest_free_bytes, range.bytes);
      if (range.state != RangeState::used) continue;
      const BlockHeader* block = shards[i]->holder(range);
      if (block->range != id) continue;  // a further piece of a stitched block
      if (block->state() != BlockState::live) continue;
      ++counts[{block->owner, block->bytes, block->stream}];
    }
  }
  for (const auto& [key, count] : counts) {
    const auto& [owner, bytes, stream] = key;
    report.holders.push_back({.owner = owner,
                              .stream = order.handle_of(stream),
                              .block_bytes = bytes,
                              .count = count,
                              .bytes = bytes * count});
  }
  std::stable_sort(report.holders.begin(), report.holders.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  if (report.holders.size() > kHolders) report.holders.resize(kHolders);
}

OutOfMemory CachingAllocator::report() const {
  return impl_->report();
}

}  // namespace tidemark::allocator
