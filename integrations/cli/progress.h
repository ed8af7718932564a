#pragma once
// A bar on stderr for work that takes more than a second. Drawn on a terminal only, wiped when the work is over.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace tidemark::cli {

class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;

  /// `drawn` false: never prints anything. `now` is asked once for the beginning and at each update, by any thread.
  Progress(std::string label, bool drawn, Now now = Clock::now);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Once, before any update: from the second second on, the bar and the seconds that have passed are drawn each
  /// second, also while no part of the work is done. By a thread of its own, which ends with this; without one nothing
  /// is lost.
  void watch(int total);
  /// Before a line of another kind on the same stream.
  void wipe();
  /// From any thread.
  void update(int done, int total);
  /// In [0, 1], as `37/100`. From any thread; draws where the whole percent is above all before.
  void update_share(double share);

 private:
  /// REQUIRES: mutex_ is held.
  void draw();

  std::string label_;
  bool drawn_;
  bool visible_ = false;
  Now now_;
  Clock::time_point begin_ = now_();
  std::atomic<int> percent_{0};  ///< the highest of update_share
  std::mutex mutex_;             ///< guards what follows, visible_ and the stream
  int done_ = 0, total_ = 1;
  bool is_watched_ = false;
  std::condition_variable_any wake_;
  std::jthread watcher_;
};

/// `planning [#####.....] 5/10`. REQUIRES: total >= 1.
[[nodiscard]] std::string progress_line(const std::string& label, int done, int total);

}  // namespace tidemark::cli
