#include "allocator/statistics.h"

#include <algorithm>

#include "allocator/caching_allocator_impl.h"

namespace tidemark::allocator {

std::vector<NamedStatistic> name_statistics(const AllocatorStatistics& s) {
  std::vector<NamedStatistic> named;
  const auto add = [&](const std::string& name, const Counter& counter) {
    named.push_back({name + ".all.current", counter.current});
    named.push_back({name + ".all.peak", counter.peak});
    named.push_back({name + ".all.allocated", counter.total_up});
    named.push_back({name + ".all.freed", counter.total_down});
  };
  add("active", s.active);
  add("active_bytes", s.active_bytes);
  add("allocated_bytes", s.allocated_bytes);
  add("allocation", s.allocation);
  add("inactive_split_bytes", s.inactive_split_bytes);
  add("requested_bytes", s.requested_bytes);
  add("reserved_bytes", s.reserved_bytes);
  add("segment", s.segment);
  for (const auto& [name, value] : {std::pair<const char*, std::int64_t>{"num_alloc_retries", s.num_alloc_retries},
                                    {"num_device_alloc", s.num_device_alloc},
                                    {"num_device_free", s.num_device_free},
                                    {"num_ooms", s.num_ooms},
                                    {"front_hits", s.front_hits},
                                    {"remote_frees", s.remote_frees},
                                    {"remaps", s.remaps},
                                    {"harvested_granules", s.harvested_granules},
                                    {"cross_stream_reuses", s.cross_stream_reuses},
                                    {"events_recorded", s.events_recorded},
                                    {"host_waits", s.host_waits},
                                    {"stream_waits", s.stream_waits},
                                    {"pending_bytes", s.pending_bytes},
                                    {"cached_bytes", s.cached_bytes},
                                    {"limit_bytes", s.limit_bytes}}) {
    named.push_back({name, value});
  }
  return named;
}

/// The counters with what is computed on demand. Under all locks.
AllocatorStatistics CachingAllocator::Impl::statistics_locked() {
  (void)raise_peaks();  // some call may not have come to it yet
  Bytes split = 0;
  BlockSums up, down;
  AllocatorStatistics now = counted;
  for (std::size_t i = 0; i < locked_shards; ++i) {
    const Shard& shard = *shards[i];
    up += shard.credit.up.get();
    down += shard.credit.down.get();
    now.front_hits += shard.front_hits();
    now.remote_frees += shard.remote_frees;
    now.cross_stream_reuses += shard.pool().cross_stream_reuses();
    split += shard.pool().split_bytes();
  }
  const auto fill = [&](Counter& counter, BlockSums::Sum sum, const BlockSums& peak, std::int64_t kept_back) {
    counter = {.current = up.of[sum] - down.of[sum] + kept_back,
               .peak = peak.of[sum],
               .total_up = up.of[sum],
               .total_down = down.of[sum] - kept_back};
  };
  fill(now.allocated_bytes, BlockSums::bytes, peaks, 0);
  fill(now.requested_bytes, BlockSums::requested_bytes, peaks, 0);
  fill(now.allocation, BlockSums::blocks, peaks, 0);
  fill(now.active_bytes, BlockSums::bytes, active_peaks, parked.of[BlockSums::bytes]);
  fill(now.active, BlockSums::blocks, active_peaks, parked.of[BlockSums::blocks]);
  counted.inactive_split_bytes.change(split - counted.inactive_split_bytes.current);
  now.inactive_split_bytes = counted.inactive_split_bytes;
  now.pending_bytes = parked.of[BlockSums::bytes];
  // Not below 0 while suspended, when blocks have no memory.
  now.cached_bytes = std::max<Bytes>(now.reserved_bytes.current - now.active_bytes.current, 0);
  now.limit_bytes = limit_bytes;
  return now;
}

AllocatorStatistics CachingAllocator::statistics() const {
  AllocatorStatistics statistics;
  impl_->with_everything_locked([&] { statistics = impl_->statistics_locked(); });
  return statistics;
}

void CachingAllocator::reset_peaks() {
  impl_->with_everything_locked([&] {
    impl_->peaks = impl_->active_peaks = {};
    (void)impl_->raise_peaks();
    for (std::size_t i = 0; i < impl_->locked_shards; ++i) impl_->shards[i]->credit.credit.clear();
    for (Counter* counter :
         {&impl_->counted.reserved_bytes, &impl_->counted.inactive_split_bytes, &impl_->counted.segment})
      counter->reset_peak();
  });
}

}  // namespace tidemark::allocator
