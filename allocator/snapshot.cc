#include "allocator/snapshot.h"

#include <fmt/format.h>

#include <algorithm>

#include "allocator/caching_allocator_impl.h"

namespace tidemark::allocator {
namespace {

/// Adds one range to the segment that it lies in.
void add_range(SnapshotSegment& segment, const Shard& shard, const RangeInfo& range, StreamOrder& order) {
  const BlockPool& pool = shard.pool();
  const bool used = range.state == RangeState::used;
  SnapshotBlock block{.address = used ? pool.start_of(range) : pool.address_of(range.offset),
                      .size = used ? pool.size_of(range) : range.bytes};
  if (const BlockHeader* held = used ? shard.holder(range) : nullptr; held != nullptr) {
    const BlockState state = held->state();
    block.stream = order.handle_of(held->stream);
    block.owner = held->owner;
    if (state == BlockState::live) {
      block.state = SnapshotBlock::State::active_allocated;
      block.requested_size = held->requested_bytes;
      segment.allocated_size += block.size;
      segment.requested_size += block.requested_size;
    } else if (state == BlockState::parked) {
      block.state = SnapshotBlock::State::active_pending_free;
    }
    if (block.state != SnapshotBlock::State::inactive) segment.active_size += block.size;
  } else if (order.stream_count() > range.domain) {
    block.stream = order.handle_of(static_cast<StreamSlot>(range.domain));
  }
  if (segment.blocks.empty()) {
    segment.address = block.address;
    segment.stream = block.stream;
  }
  segment.total_size += block.size;
  segment.blocks.push_back(block);
}

/// One segment for every unbroken stretch with memory behind it; a live block counts whole, also where parts of it are
/// unmapped for a while. A stitched block is a segment of its own, at its window, and its pieces are left out where
/// they come from: every byte and every block appears once.
void collect_segments(const Shard& shard, StreamOrder& order, const SnapshotSegment& blank,
                      std::vector<SnapshotSegment>& segments) {
  const OffsetAllocator& space = shard.pool().space();
  bool open = false;
  for (RangeId id = space.first(); id != kNoRange; id = space.next(id)) {
    const RangeInfo range = space.info(id);
    if (range.state == RangeState::absent) {
      open = false;
      continue;
    }
    if (range.state == RangeState::used && shard.pool().is_stitched(id)) {
      open = false;
      if (shard.holder(range)->range == id) add_range(segments.emplace_back(blank), shard, range, order);
      continue;
    }
    if (!open) segments.push_back(blank);
    open = true;
    add_range(segments.back(), shard, range, order);
  }
}

}  // namespace

const char* name_of(TraceAction action) {
  switch (action) {
    case TraceAction::alloc:
      return "alloc";
    case TraceAction::free_requested:
      return "free_requested";
    case TraceAction::free_completed:
      return "free_completed";
    case TraceAction::segment_alloc:
      return "segment_alloc";
    case TraceAction::segment_free:
      return "segment_free";
    case TraceAction::segment_map:
      return "segment_map";
    case TraceAction::segment_unmap:
      return "segment_unmap";
    case TraceAction::snapshot:
      return "snapshot";
    case TraceAction::oom:
      return "oom";
  }
  return "unknown";
}

Snapshot CachingAllocator::snapshot() const {
  Snapshot snapshot;
  impl_->with_everything_locked([&] {
    const bool mapping = impl_->device.traits().mapping;
    for (std::size_t i = 0; i < impl_->locked_shards; ++i) {
      const SnapshotSegment blank{.device = impl_->options.device_index,
                                  .is_expandable = mapping && i != Impl::kPlainShard};
      collect_segments(*impl_->shards[i], impl_->order, blank, snapshot.segments);
    }
    const auto& options = impl_->options;
    snapshot.settings = {
        {"limit_bytes", fmt::format("{}", impl_->limit_bytes)},
        {"unit_bytes", fmt::format("{}", impl_->unit)},
        {"front_cache_bytes", fmt::format("{}", options.front_cache_bytes)},
        {"garbage_collection_threshold", fmt::format("{}", options.garbage_threshold)},
        {"expandable_segments", mapping ? "True" : "False"},
        {"pending_wait", options.pending_wait == PendingWait::host ? "host" : "stream"},
    };
  });
  std::sort(snapshot.segments.begin(), snapshot.segments.end(),
            [](const SnapshotSegment& a, const SnapshotSegment& b) { return a.address < b.address; });
  snapshot.trace = impl_->history.events();
  snapshot.trace_dropped = static_cast<std::int64_t>(impl_->history.dropped());
  return snapshot;
}

namespace {

/// In bytes. Of a lent block its holder counts the parts in use.
struct LiveBytes {
  Bytes own = 0, lent = 0;
};

/// Compares the ranges of a shard with their blocks; adds the live bytes.
std::string validate_blocks(const Shard& shard, LiveBytes& live) {
  const BlockPool& pool = shard.pool();
  const OffsetAllocator& space = pool.space();
  for (RangeId id = space.first(); id != kNoRange; id = space.next(id)) {
    const RangeInfo range = space.info(id);
    if (range.state != RangeState::used) continue;
    const std::string wrong = fmt::format("the range at {} and its block disagree", range.offset);
    const BlockHeader* block = shard.holder(range);
    if (block == nullptr) return wrong;
    if (block->range != id && pool.is_stitched(id) && pool.is_stitched(block->range)) continue;
    if (block->range != id || block->bytes != pool.size_of(range) || block->address() != pool.start_of(range) ||
        block->state() == BlockState::unused || block->shard != shard.index())
      return wrong;
    if (block->state() == BlockState::live) (block->is_lent ? live.lent : live.own) += block->bytes;
  }
  return {};
}

}  // namespace

std::string CachingAllocator::validate() const {
  std::string wrong;
  impl_->with_everything_locked([&] {
    LiveBytes live;
    for (std::size_t i = 0; i < impl_->locked_shards && wrong.empty(); ++i) {
      wrong = impl_->shards[i]->pool().validate();
      if (wrong.empty()) wrong = validate_blocks(*impl_->shards[i], live);
    }
    if (!wrong.empty()) return;
    const AllocatorStatistics now = impl_->statistics_locked();
    const Bytes counted = now.allocated_bytes.current;
    if (counted < live.own || counted > live.own + live.lent)
      wrong = fmt::format("{} bytes are live and {} lent, {} are counted", live.own, live.lent, counted);
    BlockSums credit;
    for (std::size_t i = 0; i < impl_->locked_shards; ++i) credit += impl_->shards[i]->credit.credit.get();
    const Bytes room = std::min(now.allocated_bytes.peak - now.allocated_bytes.current,
                                now.active_bytes.peak - now.active_bytes.current);
    if (wrong.empty() && credit.of[BlockSums::bytes] > room)
      wrong = fmt::format("credit of {} where peaks leave room for {}", credit.of[BlockSums::bytes], room);
  });
  return wrong;
}

}  // namespace tidemark::allocator
