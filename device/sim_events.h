#pragma once
// The events of a simulated device, by handle. A handle is used again after remove(). Threads: the caller serialises.

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "device/sim_ring.h"

namespace tidemark {

struct SimEvent {
  std::uint32_t record = kNoSlot;  ///< of the engine, the latest; kNoSlot: never recorded
  std::int32_t clock = -1;         ///< in the race checker; -1: races are not checked
  bool alive = false;
};

class SimEvents {
 public:
  [[nodiscard]] std::int64_t alive() const { return alive_; }
  [[nodiscard]] const std::vector<SimEvent>& slots() const { return slots_; }  ///< those that are not alive as well

  [[nodiscard]] EventHandle add(std::int32_t clock) {
    std::size_t index = slots_.size();
    if (free_.empty()) {
      slots_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    ++alive_;
    slots_[index] = {.clock = clock, .alive = true};
    return EventHandle{index + 1};
  }
  /// Null: no such event. Good until the next add().
  [[nodiscard]] SimEvent* find(EventHandle handle) {
    const auto index = static_cast<std::uint64_t>(handle) - 1;
    return index < slots_.size() && slots_[index].alive ? &slots_[index] : nullptr;
  }
  /// REQUIRES: find(handle) finds it.
  void remove(EventHandle handle) {
    const std::size_t index = static_cast<std::size_t>(handle) - 1;
    slots_[index] = {};
    --alive_;
    free_.push_back(index);
  }

 private:
  std::vector<SimEvent> slots_;
  std::vector<std::size_t> free_;
  std::int64_t alive_ = 0;
};

}  // namespace tidemark
