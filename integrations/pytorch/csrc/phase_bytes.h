// How much of the live memory was allocated in which phase of a step, and how it was when there was most of it.
//
// Thread rule: calls must not overlap; the allocator's lock is over all of them.

#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>

namespace tidemark_torch {

/// Of the process, set by the thread that runs the step.
enum class Phase : std::int32_t { none, forward, backward, optimizer, count };

class PhaseBytes {
 public:
  using ByPhase = std::array<std::int64_t, static_cast<std::size_t>(Phase::count)>;

  /// What is allocated from now on belongs to `phase`. Returns the phase before.
  Phase set(Phase phase) { return std::exchange(now_, phase); }

  void allocated(const void* block, std::int64_t bytes) {
    blocks_[block] = {bytes, now_};
    live_[index(now_)] += bytes;
    total_ += bytes;
    if (total_ <= peak_total_) return;
    peak_total_ = total_;
    peak_ = live_;
  }

  void released(const void* block) {
    const auto found = blocks_.find(block);
    if (found == blocks_.end()) return;
    live_[index(found->second.phase)] -= found->second.bytes;
    total_ -= found->second.bytes;
    blocks_.erase(found);
  }

  void reset_peak() {
    peak_total_ = total_;
    peak_ = live_;
  }

  /// Live bytes by phase when their sum was largest, since the last reset_peak().
  [[nodiscard]] ByPhase at_peak() const { return peak_; }

 private:
  struct Block {
    std::int64_t bytes;
    Phase phase;
  };

  static std::size_t index(Phase phase) { return static_cast<std::size_t>(phase); }

  std::unordered_map<const void*, Block> blocks_;
  ByPhase live_{}, peak_{};
  std::int64_t total_ = 0, peak_total_ = 0;
  Phase now_ = Phase::none;
};

}  // namespace tidemark_torch
