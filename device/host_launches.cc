#include "device/host_launches.h"

#include <thread>

#include "device/pattern.h"

namespace tidemark {
namespace {

using Clock = HostLaunches::Clock;

constexpr auto kWakeUp = std::chrono::microseconds(100);  ///< how late a sleep may end; the rest is spun

void* pointer_to(Address address) {
  return reinterpret_cast<void*>(address);
}

/// Sleeps most of the time and spins the end of it, so that estimates are met to a microsecond.
void pass_until(Clock::time_point end) {
  if (end - Clock::now() > kWakeUp) std::this_thread::sleep_until(end - kWakeUp);
  while (Clock::now() < end) {
  }
}

}  // namespace

void HostLaunches::run(const HostLaunch& launch, Clock::time_point end) {
  // All reads before any write: work in place finds the old version.
  for (const Touch& touch : launch.touches) {
    if (touch.kind == AccessKind::read) check(launch.id, touch);
  }
  for (const Touch& touch : launch.touches) {
    if (touch.kind == AccessKind::write) fill_pattern(pointer_to(touch.address), touch.bytes, touch.seed, touch.place);
  }
  if (launch.takes.count() > 0) pass_until(end);
}

void HostLaunches::check(std::int64_t work_id, const Touch& touch) {
  if (holds_pattern(pointer_to(touch.address), touch.bytes, touch.seed, touch.place)) return;
  const std::lock_guard lock(mutex_);
  if (mismatches_++ > 0) return;
  first_ = {.work_id = work_id, .address = touch.address, .bytes = touch.bytes, .expected_seed = touch.seed};
}

std::int64_t HostLaunches::mismatches(Mismatch& first) {
  const std::lock_guard lock(mutex_);
  first = first_;
  return mismatches_;
}

}  // namespace tidemark
