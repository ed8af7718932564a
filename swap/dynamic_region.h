#pragma once
// Room for routed storages whose rows are not as many as planned, by the rule of core/dynamic_region.h: what is too
// large for its slot gets a window of addresses of its own, and what leaves its slot in part or whole lends the rest.
//
// Granules get memory when first taken. Windows are kept and found again by what they are made of. Where the device
// cannot show one granule at two addresses, or only coarser ones than plans count on, there are no windows: what
// exceeds its slot runs in chunks (core/row_sections.h).
//
// Everything is in true sizes; addresses are scaled. A refusal changes nothing.
//
// Threads: none. Cost: O(granules) for a new window, O(log) otherwise.

#include <cstdint>
#include <map>
#include <vector>

#include "allocator/alias_window.h"
#include "core/dynamic_region.h"
#include "core/layout.h"
#include "device/device.h"
#include "swap/arena_memory.h"
#include "swap/granule_pool.h"
#include "swap/plan_gaps.h"

namespace tidemark::swap {

/// A storage outside its slot.
struct RoutedWindow {
  Address address = 0;
  Bytes bytes = 0;  ///< of the window, true size
  std::vector<GranulePool::Run> extra;
  [[nodiscard]] std::int64_t extra_granules() const {
    std::int64_t count = 0;
    for (const GranulePool::Run& run : extra) count += run.granules.count;
    return count;
  }
};

class DynamicRegion {
 public:
  enum class Taken : std::uint8_t { ok, no_room, device_failed };

  /// Of the program's arena `id`. `maps`: whether the device shows granules of it at other addresses.
  DynamicRegion(Device& device, ArenaMemory& memory, const Program& program, ArenaId id, std::int64_t scale);
  ~DynamicRegion();
  DynamicRegion(const DynamicRegion&) = delete;
  DynamicRegion& operator=(const DynamicRegion&) = delete;

  /// A slot and what stands in it, from half-step `acquire` until `release`.
  struct Slot {
    Bytes offset = 0, bytes = 0;
    std::int32_t acquire = 0, release = 0;
  };
  /// A window of at least `actual_bytes`, for half-steps [from, slot.release). REQUIRES: actual_bytes > slot.bytes;
  /// from ascends from call to call.
  [[nodiscard]] Taken take(const Slot& slot, Bytes actual_bytes, std::int32_t from, RoutedWindow& window);
  /// The largest window up to `most_bytes` that there is room for; no_room: none is larger than the slot.
  [[nodiscard]] Taken take_most(const Slot& slot, Bytes most_bytes, std::int32_t from, RoutedWindow& window);
  /// Every task that touches the window is ordered before half-step `release`.
  void give_back(const RoutedWindow& window, std::int32_t release);
  /// Others may have what of the slot is behind its first `filled` bytes while it stands.
  void lend(const Slot& slot, Bytes filled);
  /// A new step; nothing is in flight. Drops windows if there are very many.
  void restart();

  [[nodiscard]] bool has_windows() const { return windows_possible_; }
  [[nodiscard]] Bytes granule() const { return granule_; }
  [[nodiscard]] Bytes peak_bytes() const { return pool_.peak() * granule_; }
  /// Of the last failure of the device.
  [[nodiscard]] DeviceCode code() const { return code_; }

 private:
  struct Composed {
    allocator::AliasWindow view;
    Bytes reserved = 0;
  };
  Taken compose_window(const Slot& slot, std::int64_t extra, std::int32_t from, RoutedWindow& window);
  [[nodiscard]] bool compose(const std::vector<GranuleRange>& parts, Composed& composed);
  void drop(Composed& composed);
  [[nodiscard]] bool fails(DeviceCode code) {
    if (code != DeviceCode::ok) code_ = code;
    return code != DeviceCode::ok;
  }

  Device& device_;
  ArenaMemory& memory_;
  ArenaId arena_;
  std::int64_t scale_;
  Bytes granule_;  ///< true size
  bool windows_possible_;
  GranulePool pool_;
  std::vector<PlanGap> gaps_;
  std::map<std::vector<GranuleRange>, Composed> windows_;  ///< by granules of the arena, in order
  DeviceCode code_ = DeviceCode::ok;
};

}  // namespace tidemark::swap
