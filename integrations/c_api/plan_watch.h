#pragma once
// A caller's watch over a search that has many threads: a plain C function, which need not be safe to call from two
// threads at once nor quick, so it is called by one thread at a time, whichever, and a hundred times a second at most.
// No thread waits for it: one that finds another one asking, or asks too soon, goes by what was said last.

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>

#include "include/tidemark/tidemark.h"

namespace tidemark::c_api {

/// From any thread, all of it. Invariant: the shares that the watch is told never fall, and once it says stop it is not
/// called again and the answer stays yes.
class PlanWatch {
 public:
  /// REQUIRES: `watch` is not NULL, and neither it nor what it is called with plans or unloads the library.
  PlanWatch(tidemark_plan_watch watch, void* user) : watch_(watch), user_(user) {}
  PlanWatch(const PlanWatch&) = delete;
  PlanWatch& operator=(const PlanWatch&) = delete;

  /// `share` of the search is done, in [0, 1]; less than before counts for nothing. Calls the watch where it is time.
  void tell(double share);
  /// Calls the watch where it is time; the first time, it is.
  [[nodiscard]] bool should_stop();

 private:
  using Clock = std::chrono::steady_clock;
  void ask();

  const tidemark_plan_watch watch_;
  void* const user_;
  std::mutex asking_;                       ///< held while the watch is called
  std::optional<Clock::time_point> asked_;  ///< guarded by asking_
  std::atomic<double> share_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace tidemark::c_api
