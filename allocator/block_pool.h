#pragma once
// The store of a shard: an offset space and the memory behind it. Free ranges belong to the stream they were freed on
// (the domain is its slot, the stamp its death epoch; 0: idle).
//
// Two kinds: MappedPool puts granules of one reserved address range behind what is used, PlainPool lines plain segments
// up in the offset space. Errors leave the pool valid; what was already mapped remains as free memory.
// Threads: the shard's lock; grow(), trim() and gather(), which also count, the core lock besides. reserved_bytes() is
// safe under either.

#include <cstdint>
#include <optional>

#include "allocator/history.h"
#include "allocator/offset_allocator.h"
#include "allocator/placement.h"
#include "allocator/statistics.h"
#include "allocator/stitching.h"
#include "allocator/stream_order.h"

namespace tidemark::allocator {

/// How far a pool may grow, in bytes reserved by this pool.
struct GrowthBudget {
  Bytes wanted_bytes = 0;  ///< beyond it idle memory is used up first
  Bytes limit_bytes = 0;   ///< beyond it nothing is taken from the device
};

class BlockPool {
 public:
  struct Shared {
    Device& device;
    StreamOrder& order;
    AllocatorStatistics& statistics;
    History& history;
    Bytes unit;
  };

  virtual ~BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// A range that `stream` may use: of its own, else of another stream that is known to be in order. Fast looks at a
  /// few, thorough at all.
  [[nodiscard]] std::optional<RangeInfo> take(Bytes bytes, StreamSlot stream, OffsetAllocator::Search search);
  /// The same by joining neighbours of several streams, and with more memory where that does not do.
  [[nodiscard]] virtual DeviceCode grow(Bytes bytes, StreamSlot stream, const GrowthBudget& budget,
                                        std::optional<RangeInfo>& range) = 0;
  /// Releases idle memory to the device until at most `keep_bytes` are reserved. Returns the bytes released.
  virtual Bytes trim(Bytes keep_bytes) = 0;
  /// Moves idle granules together, where the pool has granules; see CachingAllocator::defragment().
  virtual Bytes gather(StreamSlot, Bytes) { return 0; }
  /// Releases everything; the device is idle. For the end.
  virtual void release() = 0;
  [[nodiscard]] virtual Address address_of(Bytes offset) const = 0;
  /// The range of addresses that the pool reserved and that holds this one; of no bytes if there is none.
  struct AddressRange {
    Address base = 0;
    Bytes bytes = 0;
  };
  [[nodiscard]] virtual AddressRange reserved_around(Address) const { return {}; }

  /// Without memory until it is mapped again: take() finds nothing.
  [[nodiscard]] bool is_suspended() const { return suspended_; }
  /// After this give() to the stream cannot fail.
  void prepare(StreamSlot stream) { space_.prepare(static_cast<FreeDomain>(stream)); }
  /// A used range, or all pieces of the stitched block whose first one it is.
  virtual void give(RangeId range, StreamSlot stream, Epoch stamp) {
    (void)space_.free(range, static_cast<FreeDomain>(stream), stamp);
  }
  /// Where the block in a used range starts, and its size: those of the whole where the range is but a piece.
  [[nodiscard]] virtual Address start_of(const RangeInfo& range) const { return address_of(range.offset); }
  [[nodiscard]] virtual Bytes size_of(const RangeInfo& range) const { return range.bytes; }
  [[nodiscard]] virtual bool is_stitched(RangeId) const { return false; }
  [[nodiscard]] const OffsetAllocator& space() const { return space_; }
  [[nodiscard]] Bytes reserved_bytes() const { return reserved_bytes_; }
  /// How often take() found a range that another stream had freed.
  [[nodiscard]] std::int64_t cross_stream_reuses() const { return cross_stream_reuses_; }
  /// Free bytes in granules or segments that hold used ranges too. O(ranges).
  [[nodiscard]] virtual Bytes split_bytes() const = 0;
  [[nodiscard]] virtual std::string validate() const { return space_.validate(OffsetAllocator::Check::full); }

 protected:
  /// `grain`: what goes to and from the device as one.
  BlockPool(const Shared& shared, Bytes grain)
      : shared_(shared), grain_(grain), space_(0, shared.unit, OffsetAllocator::Initial::absent) {}

  /// Whether a free range died before what is known, a list of epochs by slot.
  [[nodiscard]] static bool is_over(const RangeInfo& range, const MetadataVector<Epoch>& known) {
    return range.stamp == 0 || (range.domain < known.size() && known[range.domain] >= range.stamp);
  }
  /// Ranges that OffsetAllocator's mark_absent() or mark_present() makes at most. There is room for them before the
  /// device is asked: what it has done is in the books, whatever the host's memory.
  static constexpr std::size_t kRangesOfMark = 2;
  void change_reserved(Bytes by, TraceAction action, Address address, StreamSlot stream = {});

  Shared shared_;
  Bytes grain_;
  OffsetAllocator space_;
  Bytes reserved_bytes_ = 0;
  bool suspended_ = false;

 private:
  [[nodiscard]] RangeInfo cut(RangeId range, Bytes bytes);
  [[nodiscard]] std::optional<RangeInfo> take_from_others(Bytes bytes, StreamSlot stream,
                                                          OffsetAllocator::Search search);

  std::int64_t cross_stream_reuses_ = 0;
};

class MappedPool : public BlockPool {
 public:
  MappedPool(const Shared& shared, Bytes address_space_bytes);

  [[nodiscard]] DeviceCode grow(Bytes bytes, StreamSlot stream, const GrowthBudget& budget,
                                std::optional<RangeInfo>& range) override;
  Bytes trim(Bytes keep_bytes) override;
  void release() override;
  [[nodiscard]] Address address_of(Bytes offset) const override { return base_ + static_cast<Address>(offset); }
  [[nodiscard]] AddressRange reserved_around(Address address) const override;
  void give(RangeId range, StreamSlot stream, Epoch stamp) override;
  [[nodiscard]] Address start_of(const RangeInfo& range) const override;
  [[nodiscard]] Bytes size_of(const RangeInfo& range) const override;
  [[nodiscard]] bool is_stitched(RangeId range) const override { return windows_.window_of(range) != nullptr; }
  [[nodiscard]] Bytes split_bytes() const override;
  [[nodiscard]] std::string validate() const override;
  Bytes gather(StreamSlot stream, Bytes bytes) override;

  // Memory that is unmapped, and mapped again at the same addresses (mapped_pool_suspend.cc), for
  // CachingAllocator::suspend().
  /// Unmaps everything, live blocks included. What the device refuses to unmap remains mapped. REQUIRES: nothing that
  /// touches it is in flight, and no block is in a cache; from here to resume() nothing is allocated.
  void suspend();
  /// Maps what holds a used range. On failure nothing has changed.
  [[nodiscard]] DeviceCode resume(Bytes limit_bytes);

  // Whole granules of a live block without memory (mapped_pool_parts.cc), for CachingAllocator::unmap_part().
  /// Takes the memory from behind [offset, offset + bytes), which keeps its place in the books; 0: the device does not
  /// take it, or it is not made of granules with memory. REQUIRES: inside one used range that is not stitched; nothing
  /// that touches it is in flight.
  Bytes unmap_part(Bytes offset, Bytes bytes);
  /// Memory behind that again, or behind its first `bytes`: what is left begins behind them. REQUIRES: a part without
  /// memory begins there, as large at least.
  [[nodiscard]] DeviceCode map_part(Bytes offset, Bytes bytes, StreamSlot stream);
  /// What is without memory so, by offset.
  [[nodiscard]] const MetadataVector<Stretch>& unmapped_parts() const { return parts_; }

 private:
  using Usable = std::function<bool(const RangeInfo&)>;

  [[nodiscard]] DeviceCode reserve_range();
  [[nodiscard]] std::optional<RangeInfo> stitch(Bytes bytes, StreamSlot stream, const GrowthBudget& budget,
                                                const Placement& place, const Usable& usable);
  [[nodiscard]] bool map_anywhere(Bytes bytes, StreamSlot stream);
  [[nodiscard]] std::optional<RangeInfo> occupy(StitchedWindow& window, StreamSlot stream);
  [[nodiscard]] bool are_usable(const StitchedWindow& window, const Usable& usable) const;
  [[nodiscard]] DeviceCode supply(const Placement& place, Bytes bytes, StreamSlot stream, const GrowthBudget& budget);
  Bytes harvest(MetadataVector<Stretch>& missing, const Placement& place, Bytes bytes, Bytes wanted, StreamSlot stream);
  [[nodiscard]] DeviceCode move_granules(Bytes to, Bytes from, Bytes bytes, StreamSlot stream);
  [[nodiscard]] DeviceCode map(MetadataVector<Stretch>& missing, StreamSlot stream);
  [[nodiscard]] MetadataVector<Stretch> idle_granules(Bytes keep, Bytes keep_bytes) const;
  /// visit(Stretch) for every unbroken run of granules with memory behind them. Takes no host memory.
  template <class Visit>
  void visit_present(const Visit& visit) const;
  [[nodiscard]] MetadataVector<Stretch> used_granules(const MetadataVector<Stretch>& in) const;
  void forget(const MetadataVector<Stretch>& idle);
  void forget_parts(const RangeInfo& gone);
  void unmap_again(std::size_t count);

  Bytes address_space_bytes_;
  Address base_ = 0;
  StitchedWindows windows_;
  MetadataVector<Stretch> away_;   ///< while suspended: present in the books, without memory; by offset
  MetadataVector<Stretch> parts_;  ///< of live blocks: the same, whether suspended or not
};

class PlainPool : public BlockPool {
 public:
  explicit PlainPool(const Shared& shared);

  [[nodiscard]] DeviceCode grow(Bytes bytes, StreamSlot stream, const GrowthBudget& budget,
                                std::optional<RangeInfo>& range) override;
  Bytes trim(Bytes keep_bytes) override;
  void release() override;
  [[nodiscard]] Address address_of(Bytes offset) const override;
  [[nodiscard]] Bytes split_bytes() const override;

 private:
  static constexpr Bytes kPage = 2 * kMiB;            ///< segments are whole pages of the offset space
  static constexpr Bytes kMediumSegment = 20 * kMiB;  ///< for requests above 1 MiB and below half of it

  struct Segment {
    Bytes offset = 0;
    Bytes bytes = 0;  ///< 0: released
    Address address = 0;
  };
  [[nodiscard]] DeviceCode add_segment(Bytes bytes, StreamSlot stream, Segment& segment);
  [[nodiscard]] Bytes place_for(Bytes bytes);
  [[nodiscard]] bool is_idle(const Segment& segment) const;
  [[nodiscard]] bool is_free(const Segment& segment) const;

  MetadataVector<Segment> segments_;
  MetadataVector<std::uint32_t> segment_of_page_;
};

}  // namespace tidemark::allocator
