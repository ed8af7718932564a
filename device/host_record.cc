#include "device/host_record.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tidemark {
namespace {

constexpr std::int64_t kLongestWaitNs = 1'000'000'000'000'000'000;  ///< 30 years; more would overflow the clock

}  // namespace

void HostRecord::complete(HostFailure failure) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
  complete_.store(true, std::memory_order_release);
  changed_.notify_all();
}

bool HostRecord::await(std::int64_t timeout_ns) const {
  if (is_complete()) return true;
  std::unique_lock lock(mutex_);
  const auto done = [this] { return is_complete(); };
  if (timeout_ns >= 0)
    return changed_.wait_for(lock, std::chrono::nanoseconds(std::min(timeout_ns, kLongestWaitNs)), done);
  changed_.wait(lock, done);
  return true;
}

}  // namespace tidemark
