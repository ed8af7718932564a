#pragma once
// What a simulated stream has to do: its items, in order.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "device/device.h"

namespace tidemark {

enum class SimItemKind : std::uint8_t { launch, copy, record, wait, send, receive };
inline constexpr std::uint32_t kNoSlot = UINT32_MAX;

struct SimItem {
  std::int64_t id = -1;
  std::int64_t ns = 0;
  std::uint32_t slot = kNoSlot;  ///< record, wait: of records; otherwise of payloads, kNoSlot: none
  SimItemKind kind = SimItemKind::launch;
  CopyKind copy = CopyKind::device_to_host;
  DeviceCode fails_with = DeviceCode::ok;
};

/// First in, first out, grows by doubling.
class SimRing {
 public:
  [[nodiscard]] bool empty() const { return head_ == tail_; }
  [[nodiscard]] std::size_t size() const { return tail_ - head_; }
  [[nodiscard]] SimItem& front() { return items_[head_ & mask()]; }
  void pop() { ++head_; }
  void push(const SimItem& item) {
    if (size() == items_.size()) grow();
    items_[tail_++ & mask()] = item;
  }
  void clear() { head_ = tail_ = 0; }

 private:
  [[nodiscard]] std::size_t mask() const { return items_.size() - 1; }
  void grow() {
    std::vector<SimItem> larger(std::max<std::size_t>(16, 2 * items_.size()));
    const std::size_t count = size();
    for (std::size_t i = 0; i < count; ++i) larger[i] = items_[(head_ + i) & mask()];
    items_ = std::move(larger);
    head_ = 0;
    tail_ = count;
  }

  std::vector<SimItem> items_;
  std::size_t head_ = 0, tail_ = 0;
};

}  // namespace tidemark
