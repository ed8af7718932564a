#include "allocator/snapshot.h"

#include <fmt/format.h>

#include <algorithm>

#include "allocator/caching_allocator_impl.h"

namespace tidemark {
namespace {

/// Adds one range to the segment that it lies in.
void add_range(SnapshotSegment& segment, const BlockPool& pool, const RangeInfo& range, StreamOrder& order) {
  const bool used = range.state == RangeState::used;
  SnapshotBlock block{.address = used ? pool.start_of(range) : pool.address_of(range.offset),
                      .size = used ? pool.size_of(range) : range.bytes};
  if (used) {
    const BlockHeader& held = *pool.holder(range.id);
    const BlockState state = held.state.load(std::memory_order_acquire);
    block.stream = order.handle_of(held.stream);
    block.owner = held.owner;
    if (state == BlockState::live) {
      block.state = SnapshotBlock::State::active_allocated;
      block.requested_size = held.requested_bytes;
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

/// One segment for every unbroken stretch with memory behind it. A stitched block is a segment of its own, at its
/// window, and its pieces are left out where they come from: every byte and every block appears once.
std::vector<SnapshotSegment> collect_segments(const BlockPool& pool, StreamOrder& order, int device, bool expandable) {
  std::vector<SnapshotSegment> segments;
  const OffsetAllocator& space = pool.space();
  bool open = false;
  for (RangeId id = space.first(); id != kNoRange; id = space.next(id)) {
    const RangeInfo range = space.info(id);
    if (range.state == RangeState::absent) {
      open = false;
      continue;
    }
    if (range.state == RangeState::used && pool.is_stitched(id)) {
      open = false;
      if (pool.holder(id)->range != id) continue;
      add_range(segments.emplace_back(SnapshotSegment{.device = device, .is_expandable = expandable}), pool, range,
                order);
      continue;
    }
    if (!open) segments.push_back({.device = device, .is_expandable = expandable});
    open = true;
    add_range(segments.back(), pool, range, order);
  }
  return segments;
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
    for (std::size_t i = 0; i < 2; ++i) {
      if (impl_->owned[i] == nullptr) continue;
      const bool expandable = impl_->owned[i].get() == impl_->mapped;
      auto segments = collect_segments(*impl_->owned[i], impl_->order, impl_->options.device_index, expandable);
      std::move(segments.begin(), segments.end(), std::back_inserter(snapshot.segments));
    }
    const auto& options = impl_->options;
    snapshot.settings = {
        {"limit_bytes", fmt::format("{}", impl_->limit_bytes)},
        {"unit_bytes", fmt::format("{}", impl_->unit)},
        {"front_cache_bytes", fmt::format("{}", options.front_cache_bytes)},
        {"garbage_collection_threshold", fmt::format("{}", options.garbage_threshold)},
        {"expandable_segments", impl_->mapped != nullptr ? "True" : "False"},
        {"pending_wait", options.pending_wait == PendingWait::host ? "host" : "stream"},
    };
  });
  std::sort(snapshot.segments.begin(), snapshot.segments.end(),
            [](const SnapshotSegment& a, const SnapshotSegment& b) { return a.address < b.address; });
  snapshot.trace = impl_->history.events();
  snapshot.trace_dropped = static_cast<std::int64_t>(impl_->history.dropped());
  return snapshot;
}

std::string CachingAllocator::validate() const {
  std::string wrong;
  impl_->with_everything_locked([&] {
    Bytes live = 0;
    for (const auto& pool : impl_->owned) {
      if (pool == nullptr || !wrong.empty()) continue;
      wrong = pool->validate();
      const OffsetAllocator& space = pool->space();
      for (RangeId id = space.first(); id != kNoRange && wrong.empty(); id = space.next(id)) {
        const RangeInfo range = space.info(id);
        if (range.state != RangeState::used) continue;
        const BlockHeader* block = pool->holder(id);
        if (block != nullptr && block->range != id && pool->is_stitched(id) && pool->is_stitched(block->range))
          continue;
        if (block == nullptr || block->range != id || block->bytes != pool->size_of(range) ||
            block->address != pool->start_of(range) || impl_->map.find(block->address) != block) {
          wrong = fmt::format("the range at {} and its block disagree", range.offset);
        } else if (block->state.load() == BlockState::live) {
          live += block->bytes;
        }
      }
    }
    if (wrong.empty() && live != impl_->counted.allocated_bytes.current) {
      wrong = fmt::format("{} bytes are live, {} are counted", live, impl_->counted.allocated_bytes.current);
    }
  });
  return wrong;
}

}  // namespace tidemark
