#pragma once
// Serves routed storages that are larger than their slot, by the rule of core/dynamic_region.h.
//
// With aliasing: a window of addresses of its own, made of the slot's whole granules, of holes of the plan that are the
// stay's own (core/hole_granules.h), and of extra granules of the dynamic region. Granules get memory when first taken.
// Windows are kept and found again by what they are made of. Without aliasing: one contiguous block of the region holds
// the whole storage and its slot stands empty. That needs more room and can fragment, so the contingency limit is not
// promised then (promises_limit()).
//
// Everything is in true sizes; addresses are scaled. A refusal changes nothing.
//
// Threads: none. Cost: O(granules) for a new window, O(log) otherwise.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "allocator/alias_window.h"
#include "allocator/offset_allocator.h"
#include "core/dynamic_region.h"
#include "core/layout.h"
#include "device/device.h"
#include "swap/arena_memory.h"
#include "swap/granule_pool.h"

namespace tidemark::swap {

/// One stay of an oversized storage.
struct OversizedStay {
  Address address = 0;
  Bytes extra_bytes = 0;                           ///< of the dynamic region, true size
  std::vector<std::int64_t> granules;              ///< with aliasing
  allocator::RangeId block = allocator::kNoRange;  ///< without
};

class DynamicRegion {
 public:
  enum class Taken : std::uint8_t { ok, no_room, device_failed };

  DynamicRegion(Device& device, ArenaMemory& memory, const Arena& arena, ArenaId id, std::int64_t scale);
  ~DynamicRegion();
  DynamicRegion(const DynamicRegion&) = delete;
  DynamicRegion& operator=(const DynamicRegion&) = delete;

  /// A place for `actual_bytes` from half-step `acquire` on. REQUIRES: actual_bytes > planned_bytes; acquire ascends.
  /// `holes`: granules of kPlanGranule that are the stay's own; used where the region keeps the plan's promise.
  [[nodiscard]] Taken take(Bytes slot_offset, Bytes planned_bytes, Bytes actual_bytes, std::int32_t acquire,
                           std::span<const GranuleRange> holes, OversizedStay& stay);
  void give_back(const OversizedStay& stay, std::int32_t release);
  /// What take() is to be asked for.
  struct Need {
    Bytes slot_offset = 0, planned_bytes = 0, actual_bytes = 0;
    std::span<const GranuleRange> holes;
  };
  /// Whether take() would find room for all of these at `acquire`, one after the other; without aliasing, whether there
  /// are bytes enough, which need not be in one piece. REQUIRES: as take().
  [[nodiscard]] bool has_room(std::span<const Need> needs, std::int32_t acquire);
  /// A new step; nothing is in flight. Drops windows if there are very many.
  void restart();

  [[nodiscard]] bool promises_limit() const { return aliasing_ && granule_ == plan_granule_; }
  [[nodiscard]] bool aliasing() const { return aliasing_; }
  [[nodiscard]] Bytes granule() const { return granule_; }
  [[nodiscard]] Bytes capacity_bytes() const;
  [[nodiscard]] Bytes used_bytes() const;
  [[nodiscard]] Bytes peak_bytes() const;
  /// Of the last failure of the device.
  [[nodiscard]] DeviceCode code() const { return code_; }

 private:
  struct Window {
    allocator::AliasWindow view;
    Bytes reserved = 0;
  };
  struct Returning {
    std::int32_t release = 0;
    allocator::RangeId block = allocator::kNoRange;
  };
  Taken take_window(Bytes slot_offset, Bytes planned_bytes, Bytes actual_bytes, std::int32_t acquire,
                    std::span<const GranuleRange> holes, OversizedStay& stay);
  Taken take_block(Bytes actual_bytes, std::int32_t acquire, OversizedStay& stay);
  void free_blocks(std::int32_t acquire);
  [[nodiscard]] bool compose(const std::vector<std::int64_t>& parts, Window& window);
  void drop(Window& window);
  [[nodiscard]] bool fails(DeviceCode code) {
    if (code != DeviceCode::ok) code_ = code;
    return code != DeviceCode::ok;
  }

  Device& device_;
  ArenaMemory& memory_;
  ArenaId arena_;
  std::int64_t scale_;
  bool aliasing_;
  Bytes plan_granule_, granule_;  ///< true size
  GranulePool pool_;
  std::map<std::vector<std::int64_t>, Window> windows_;  ///< by granules of the arena, in order
  Bytes region_begin_ = 0;                               ///< scaled; for blocks
  allocator::OffsetAllocator blocks_;
  std::vector<Returning> returning_;
  Bytes peak_block_bytes_ = 0;
  DeviceCode code_ = DeviceCode::ok;
};

}  // namespace tidemark::swap
