#pragma once
// What is left of a packer's limits.

#include <cstdint>
#include <functional>
#include <utility>

namespace tidemark::layout {

class Effort {
 public:
  Effort(std::int64_t work, std::function<bool()> should_stop) : should_stop_(std::move(should_stop)), left_(work) {}

  void spend(std::int64_t units) {
    left_ -= units;
    unasked_ += units;
    if (unasked_ < kAskEvery || !should_stop_) return;
    unasked_ = 0;
    stopped_ = stopped_ || should_stop_();
  }
  [[nodiscard]] bool over() const { return stopped_ || left_ <= 0; }
  [[nodiscard]] std::int64_t left() const { return left_; }

 private:
  static constexpr std::int64_t kAskEvery = 300;
  std::function<bool()> should_stop_;
  std::int64_t left_ = 0;
  std::int64_t unasked_ = 0;
  bool stopped_ = false;
};

}  // namespace tidemark::layout
