#include "integrations/c_api/plan_watch.h"

namespace tidemark::c_api {
namespace {

constexpr std::chrono::milliseconds kPause{10};

}  // namespace

void PlanWatch::tell(double share) {
  double before = share_.load(std::memory_order_relaxed);
  while (share > before && !share_.compare_exchange_weak(before, share, std::memory_order_relaxed)) {
  }
  ask();
}

bool PlanWatch::should_stop() {
  ask();
  return stop_.load(std::memory_order_relaxed);
}

void PlanWatch::ask() {
  if (stop_.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(asking_, std::try_to_lock);
  if (!lock.owns_lock() || stop_.load(std::memory_order_relaxed)) return;
  const Clock::time_point now = Clock::now();
  if (asked_ && now - *asked_ < kPause) return;
  asked_ = now;
  if (watch_(user_, share_.load(std::memory_order_relaxed)) != 0) stop_.store(true, std::memory_order_relaxed);
}

}  // namespace tidemark::c_api
