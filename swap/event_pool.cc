#include "swap/event_pool.h"

#include <algorithm>

#include "allocator/give_back.h"

namespace tidemark::swap {

EventPool::~EventPool() {
  for (const EventHandle event : all_) allocator::give_back([&] { return device_.destroy_event(event); });
}

DeviceCode EventPool::acquire(EventHandle& event) {
  if (free_.empty()) {
    const std::int64_t limit = device_.traits().event_limit;
    if (limit > 0 && static_cast<std::int64_t>(all_.size()) >= limit) return DeviceCode::no_resource;
    EventHandle created{};
    if (const DeviceCode code = device_.create_event(created); code != DeviceCode::ok) return code;
    all_.push_back(created);
    free_.push_back(created);
  }
  event = free_.back();
  free_.pop_back();
  peak_ = std::max(peak_, in_use());
  return DeviceCode::ok;
}

}  // namespace tidemark::swap
