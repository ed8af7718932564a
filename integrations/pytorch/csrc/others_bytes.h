// What threads other than that of a step hold of its memory, as those of a communication library do, at most.
//
// Thread rule: calls must not overlap; the allocator's lock is over all of them.

#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <unordered_map>
#include <utility>

namespace tidemark_torch {

class OthersBytes {
 public:
  /// The calling thread is the step's.
  void begin() {
    end();
    own_ = std::this_thread::get_id();
  }
  void end() {
    own_ = {};
    blocks_.clear();
    live_ = peak_ = 0;
  }

  void allocated(const void* block, std::int64_t bytes) {
    if (own_ == std::thread::id{} || own_ == std::this_thread::get_id()) return;
    blocks_[block] = bytes;
    live_ += bytes;
    peak_ = std::max(peak_, live_);
  }

  void released(const void* block) {
    const auto found = blocks_.find(block);
    if (found == blocks_.end()) return;
    live_ -= found->second;
    blocks_.erase(found);
  }

  /// The most that was live at once since the last time.
  [[nodiscard]] std::int64_t take_peak() { return std::exchange(peak_, live_); }

 private:
  std::thread::id own_;  // none: nothing is counted
  std::unordered_map<const void*, std::int64_t> blocks_;
  std::int64_t live_ = 0, peak_ = 0;
};

}  // namespace tidemark_torch
