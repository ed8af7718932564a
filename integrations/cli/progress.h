#pragma once
// A bar on stderr for work that takes more than a second. Drawn on a terminal only, wiped when the work is over.

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

namespace tidemark::cli {

class Progress {
 public:
  /// `drawn` false: never prints anything.
  Progress(std::string label, bool drawn);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// From any thread.
  void update(int done, int total);
  /// In [0, 1], as `37/100`. From any thread; draws where the whole percent is above all before.
  void update_share(double share);

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  bool drawn_;
  bool visible_ = false;
  Clock::time_point begin_ = Clock::now();
  std::atomic<int> percent_{0};  ///< the highest of update_share
  std::mutex mutex_;             ///< guards visible_ and the stream
};

/// `planning [#####.....] 5/10`. REQUIRES: total >= 1.
[[nodiscard]] std::string progress_line(const std::string& label, int done, int total);

}  // namespace tidemark::cli
