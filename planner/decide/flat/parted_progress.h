#pragma once
// One share of work done, told of parts of it that may be carried out at the same time.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace tidemark::decide::flat {

/// REQUIRES: at least one part. From any thread; `report` is called by one at a time, never with less than before.
class PartedProgress {
 public:
  /// Parts count alike.
  PartedProgress(std::function<void(double share)> report, std::size_t parts)
      : PartedProgress(std::move(report), std::vector<double>(parts, 1 / static_cast<double>(parts))) {}
  /// `shares`: of the whole, per part; together 1.
  PartedProgress(std::function<void(double share)> report, std::vector<double> shares)
      : report_(std::move(report)), share_(std::move(shares)), done_(share_.size()) {}

  /// What part `i` tells its own share in [0, 1]; empty where nobody asks. This must outlive it.
  [[nodiscard]] std::function<void(double share)> part(std::size_t i) {
    if (!report_) return {};
    return [this, i](double share) { update(i, share); };
  }

 private:
  void update(std::size_t i, double share) {
    const std::scoped_lock lock(mutex_);
    if (share <= done_[i]) return;
    done_[i] = share;
    double sum = 0;
    for (std::size_t part = 0; part < done_.size(); ++part) sum += share_[part] * done_[part];
    told_ = std::max(told_, std::min(1.0, sum));
    report_(told_);
  }

  std::mutex mutex_;
  std::function<void(double share)> report_;
  const std::vector<double> share_;  ///< per part, of the whole
  std::vector<double> done_;         ///< ... of its own
  double told_ = 0;
};

}  // namespace tidemark::decide::flat
