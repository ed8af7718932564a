#include "allocator/statistics.h"

#include "allocator/caching_allocator_impl.h"

namespace tidemark {

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
  Bytes split = 0;
  for (const auto& pool : owned) split += pool == nullptr ? 0 : pool->split_bytes();
  counted.inactive_split_bytes.change(split - counted.inactive_split_bytes.current);
  AllocatorStatistics now = counted;
  now.pending_bytes = pending.parked_bytes();
  now.cached_bytes = now.reserved_bytes.current - now.allocated_bytes.current - now.pending_bytes;
  now.limit_bytes = limit_bytes;
  now.active_bytes.current = now.allocated_bytes.current + now.pending_bytes;
  now.active_bytes.total_up = now.allocated_bytes.total_up;
  now.active_bytes.total_down = now.active_bytes.total_up - now.active_bytes.current;
  now.active = now.allocation;
  now.active.current += static_cast<std::int64_t>(pending.parked_count());
  now.active.peak = std::max(now.active.peak, now.active.current);
  return now;
}

AllocatorStatistics CachingAllocator::statistics() const {
  AllocatorStatistics statistics;
  impl_->with_everything_locked([&] { statistics = impl_->statistics_locked(); });
  return statistics;
}

void CachingAllocator::reset_peaks() {
  impl_->with_everything_locked([&] {
    AllocatorStatistics& counted = impl_->counted;
    for (Counter* counter : {&counted.requested_bytes, &counted.allocated_bytes, &counted.reserved_bytes,
                             &counted.inactive_split_bytes, &counted.allocation, &counted.segment}) {
      counter->reset_peak();
    }
    counted.active_bytes.peak = counted.allocated_bytes.current + impl_->pending.parked_bytes();
  });
}

}  // namespace tidemark
