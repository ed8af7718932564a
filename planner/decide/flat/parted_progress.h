#pragma once
// One share of work done, told of parts of it that may be carried out at the same time.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace tidemark::decide::flat {

/// Parts count alike. REQUIRES: at least one. From any thread; `report` is called by one at a time, never with less
/// than before.
class PartedProgress {
 public:
  PartedProgress(std::function<void(double share)> report, std::size_t parts)
      : report_(std::move(report)), done_(parts) {}

  /// What part `i` tells its own share in [0, 1]; empty where nobody asks. This must outlive it.
  [[nodiscard]] std::function<void(double share)> part(std::size_t i) {
    if (!report_) return {};
    return [this, i](double share) { update(i, share); };
  }

 private:
  void update(std::size_t i, double share) {
    const std::scoped_lock lock(mutex_);
    if (share <= done_[i]) return;
    sum_ += share - done_[i];
    done_[i] = share;
    report_(std::min(1.0, sum_ / static_cast<double>(done_.size())));
  }

  std::mutex mutex_;
  std::function<void(double share)> report_;
  std::vector<double> done_;  ///< per part
  double sum_ = 0;
};

}  // namespace tidemark::decide::flat
