#pragma once
// Blocks made of what is left over. Where the device can show memory at a second address, a block need not lie in one
// piece: a *window* of fresh addresses shows the end of one granule (a free tail, up to the granule's end), whole
// idle granules from anywhere, and the start of another granule (a free head), and the block lies across them, e.g.
// 9 MiB = 1.3 MiB tail + 3 granules + 1.7 MiB head. So free granule ends, which no move can free because live
// blocks share the granule, serve large blocks, and peak reserved follows peak live.
//
// The pieces are not moved: each is a used range of the pool's space while the block lives and is freed there, with
// the block's death, when it is freed. No granule moves and nothing is reserved twice. A piece may be reused from home
// in stream order at once; the window remains mapped, so that the same block is made again without a device call when
// its pieces are free again. It is taken down before a granule it shows is moved or released (which is idle by then,
// and with it the dead block), and, oldest first, when kKept dead ones are cached.
//
// Cost: O(ranges + ends log ends), in the growth path only. Threads: none; the core lock.

#include <functional>
#include <memory>
#include <string>

#include "allocator/alias_window.h"
#include "allocator/offset_allocator.h"
#include "allocator/placement.h"
#include "allocator/stream_order.h"
#include "device/device.h"

namespace tidemark::allocator {

struct StitchPlan {
  MetadataVector<Stretch> pieces;  ///< in window order; empty if granules are missing
  Bytes missing_bytes = 0;         ///< whole granules that must be mapped first, anywhere
};

/// The pieces that need the fewest whole granules, with the two ends that are filled best.
[[nodiscard]] StitchPlan find_stitch(const OffsetAllocator& space, Bytes bytes, Bytes granule,
                                     const std::function<bool(const RangeInfo&)>& usable);

struct StitchedWindow {
  AliasWindow view;        ///< while the pool is suspended, it shows nothing
  Bytes window_bytes = 0;  ///< whole granules
  Bytes start = 0;         ///< of the block in the window
  Bytes bytes = 0;         ///< of the block
  RangeId address_range = kNoRange;
  MetadataVector<Stretch> pieces;
  MetadataVector<RangeId> ranges;  ///< of the pieces at home; empty while dead
  bool live = false;
  StreamSlot stream = {};  ///< of the death
  Epoch death = 0;
  std::uint64_t age = 0;
};

/// The windows of one pool. Their addresses are a range of their own, reserved with the first window.
class StitchedWindows {
 public:
  static constexpr std::size_t kKept = 64;  ///< dead windows that remain mapped

  StitchedWindows(Device& device, Bytes granule, Bytes address_space_bytes)
      : device_(device), granule_(granule), space_bytes_(round_up(address_space_bytes, granule)), space_(0, granule) {}

  /// A new window over the pieces, dead. nullptr: the device refused; nothing is left behind.
  /// `home`: address of offset 0 of the pool.
  [[nodiscard]] StitchedWindow* make(const MetadataVector<Stretch>& pieces, Bytes bytes, Address home);
  /// A dead window of that size for which `ready` holds.
  [[nodiscard]] StitchedWindow* find_dead(Bytes bytes, const std::function<bool(const StitchedWindow&)>& ready);
  /// Takes down dead windows over [offset, offset + bytes). False: one could not be.
  [[nodiscard]] bool detach(Bytes offset, Bytes bytes);
  /// Takes the oldest dead windows down until fewer than kKept are mapped; `over` tells whether the device is done with
  /// one.
  void limit(const std::function<bool(const StitchedWindow&)>& over);
  /// All, at the end.
  void release();

  // While the pool has no memory (mapped_pool_suspend.cc).
  /// Takes the dead windows down and lets the live ones show nothing. A window that the device would not unmap goes on
  /// showing what it did, until resume().
  void suspend();
  /// Every live window shows its pieces again, which are mapped. On failure none does.
  [[nodiscard]] DeviceCode resume(Address home);

  void bring_to_life(StitchedWindow& window, MetadataVector<RangeId> ranges);
  void bury(StitchedWindow& window, StreamSlot stream, Epoch death);  ///< REQUIRES: live
  /// The live window that a home range is a piece of; nullptr for ordinary ranges. O(1).
  [[nodiscard]] StitchedWindow* window_of(RangeId range) const {
    const auto index = static_cast<std::size_t>(range);
    return index < by_range_.size() ? by_range_[index] : nullptr;
  }
  /// The addresses reserved for windows; 0 before the first one.
  [[nodiscard]] Address base() const { return base_; }
  [[nodiscard]] Bytes space_bytes() const { return base_ == 0 ? 0 : space_bytes_; }
  [[nodiscard]] std::string validate(const OffsetAllocator& home) const;

 private:
  [[nodiscard]] bool take_down(StitchedWindow& window);
  [[nodiscard]] DeviceCode show(StitchedWindow& window, Address home);
  [[nodiscard]] bool ready_for(Bytes window_bytes);
  void note(RangeId range, StitchedWindow* window);

  Device& device_;
  Bytes granule_;
  Bytes space_bytes_;
  Address base_ = 0;
  OffsetAllocator space_;
  MetadataVector<std::unique_ptr<StitchedWindow>> windows_;
  MetadataVector<StitchedWindow*> by_range_;
  std::uint64_t age_ = 0;
};

}  // namespace tidemark::allocator
