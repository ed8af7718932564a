#pragma once
// Two-level segregated fit over the offsets [0, capacity): which bytes of some memory are taken, with every record of
// it on the host. The memory itself is never touched and need not exist.
//
// The space is always cut completely into ranges, each used, free or absent, linked in address order. A free range
// belongs to a *domain* (for the caching allocator: the stream it was freed on) and carries a *stamp* (the point of
// that stream after which it is idle). Neighbours of one domain are merged at once, the stamp of the merged range is
// the larger one; ranges of different domains are not merged. Absent ranges (no memory behind them) merge among
// themselves and are never handed out by allocate().
//
// Cost. allocate, allocate_at within one range, free and the merging are O(1): two bit scans find the bin. Each domain
// has its own bins.
//
// Bounds. Sizes are rounded up to the unit, nothing else: internal waste is below one unit a block. Bins are exact up
// to 32 units; above, 32 bins to the power of two, so a bin spans at most 1/32 = 3.2 % of its size. The fast search
// looks at kProbes ranges of the request's own bin, then takes the first range of the next larger non-empty bin: it
// can miss only ranges that are less than 1/32 larger than the request; Search::thorough looks at that bin to its end
// and misses nothing. With M the largest and m the smallest live size, a first-fit of this kind never needs more than
// about peak * log2(M / m) address space (Robson); bench/allocator_bench and `tidemark replay` show what it does need.
//
// Failure leaves the state untouched: nodes are set aside before anything changes. std::bad_alloc of the metadata is
// thrown before the first change, too.
//
// Threads: none; the owner locks.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allocator/metadata_memory.h"
#include "core/bytes.h"

namespace tidemark::allocator {

/// One range of the space; valid while the range is used. Free ranges change their ids as they merge.
enum class RangeId : std::uint32_t {};
inline constexpr RangeId kNoRange = static_cast<RangeId>(0xFFFF'FFFFU);

/// Who may have a free range. Small dense numbers; bins exist per number.
using FreeDomain = std::uint32_t;
inline constexpr FreeDomain kDefaultDomain = 0;

enum class RangeState : std::uint8_t { used, free, absent };

struct RangeInfo {
  RangeId id = kNoRange;
  Bytes offset = 0;
  Bytes bytes = 0;
  RangeState state = RangeState::used;
  FreeDomain domain = kDefaultDomain;  ///< of a free range
  std::uint64_t stamp = 0;             ///< of a free range
  [[nodiscard]] Bytes end() const { return offset + bytes; }
};

class OffsetAllocator {
 public:
  enum class Search : std::uint8_t { fast, thorough };
  enum class Check : std::uint8_t {
    totals,  ///< O(1): sums
    links,   ///< O(ranges): the cut of the space, merging, bins
    full,    ///< links, and every bin walked
  };
  enum class Initial : std::uint8_t { free, absent };

  /// REQUIRES: unit > 0 (a power of two is quickest), capacity >= 0; capacity is rounded down to the unit.
  explicit OffsetAllocator(Bytes capacity, Bytes unit = 1, Initial initial = Initial::free);
  ~OffsetAllocator();
  OffsetAllocator(OffsetAllocator&&) noexcept;
  OffsetAllocator& operator=(OffsetAllocator&&) noexcept;

  /// A free range of the domain, cut to size; empty if none fits. `alignment` is a multiple of the unit and refers to
  /// the offset. REQUIRES: bytes > 0.
  [[nodiscard]] std::optional<RangeInfo> allocate(Bytes bytes, Bytes alignment = 0, FreeDomain domain = kDefaultDomain,
                                                  Search search = Search::fast);
  /// The range that allocate() would cut, for callers that choose the place in it (carve). kNoRange: none fits.
  [[nodiscard]] RangeId find_fit(Bytes bytes, FreeDomain domain = kDefaultDomain, Search search = Search::fast) const;
  /// [offset, offset + bytes) out of one free range, in O(1). REQUIRES: it lies in `free_range`, on the unit.
  [[nodiscard]] RangeInfo carve(RangeId free_range, Bytes offset, Bytes bytes);
  /// Exactly [offset, offset + bytes), rounded up to the unit, from free ranges of any domain; empty if a byte of it is
  /// used, absent or outside. O(ranges).
  [[nodiscard]] std::optional<RangeInfo> allocate_at(Bytes offset, Bytes bytes);
  /// Host memory for so many more ranges, so that what makes no more cannot fail for want of it.
  void reserve(std::size_t ranges) { reserve_books(ranges, kDefaultDomain); }
  /// The same, kept from all others until as many are put back: a call right behind put_back() that makes no more of
  /// them cannot fail, however much later it is.
  void set_aside(std::size_t ranges) {
    reserve_books(ranges, kDefaultDomain);
    aside_count_ += ranges;
  }
  /// REQUIRES: as many are set aside.
  void put_back(std::size_t ranges) { aside_count_ -= ranges; }
  /// Makes the bins of a domain, so that free() to it cannot fail.
  void prepare(FreeDomain domain) { reserve_books(0, domain); }
  /// Frees a used range for a domain. Returns the free range it ended up in.
  RangeId free(RangeId used, FreeDomain domain = kDefaultDomain, std::uint64_t stamp = 0);

  /// Marks [offset, offset + bytes) absent, or an absent one free again. False, and nothing changed, unless all of it
  /// is free (absent). O(ranges).
  [[nodiscard]] bool mark_absent(Bytes offset, Bytes bytes);
  [[nodiscard]] bool mark_present(Bytes offset, Bytes bytes, FreeDomain domain = kDefaultDomain,
                                  std::uint64_t stamp = 0);
  /// New space at the end.
  void grow(Bytes bytes, Initial initial = Initial::free, FreeDomain domain = kDefaultDomain);

  [[nodiscard]] Bytes capacity() const { return capacity_; }
  [[nodiscard]] Bytes unit() const { return unit_; }
  [[nodiscard]] Bytes used_bytes() const { return used_bytes_; }
  [[nodiscard]] Bytes free_bytes() const { return capacity_ - used_bytes_ - absent_bytes_; }
  [[nodiscard]] Bytes absent_bytes() const { return absent_bytes_; }
  /// Whether a domain other than this one has a free range. O(1).
  [[nodiscard]] bool others_have_free(FreeDomain domain) const;
  /// A lower bound within 1/32 of the largest free range of the domain, in O(1).
  [[nodiscard]] Bytes largest_free_bound(FreeDomain domain = kDefaultDomain) const;

  [[nodiscard]] RangeInfo info(RangeId range) const {
    const Node& node = nodes_[static_cast<std::uint32_t>(range)];
    return {.id = range,
            .offset = node.offset,
            .bytes = node.bytes,
            .state = node.state,
            .domain = node.domain,
            .stamp = node.stamp};
  }
  /// Ranges in address order; kNoRange at the ends.
  [[nodiscard]] RangeId first() const { return static_cast<RangeId>(first_); }
  [[nodiscard]] RangeId next(RangeId range) const {
    return static_cast<RangeId>(nodes_[static_cast<std::uint32_t>(range)].after);
  }
  /// kNoRange outside the space. O(ranges between it and the nearer of the two found last).
  [[nodiscard]] RangeId find(Bytes offset) const;
  /// The largest stamp that free() was ever given for the domain.
  [[nodiscard]] std::uint64_t latest_stamp(FreeDomain domain) const;
  /// Free ranges of one domain with at least `bytes`, smallest bins first, until `visit` answers true (returns that
  /// range). `visit` must not change the allocator.
  RangeId find_free(FreeDomain domain, Bytes bytes, const std::function<bool(const RangeInfo&)>& visit) const;

  /// Empty if all is well, else what is wrong.
  [[nodiscard]] std::string validate(Check check = Check::links) const;

 private:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFFU;
  static constexpr unsigned kSubBits = 5;
  static constexpr unsigned kSubBins = 1U << kSubBits;
  static constexpr unsigned kRows = 64 - kSubBits;
  static constexpr int kProbes = 8;

  struct Node {
    Bytes offset = 0;
    Bytes bytes = 0;
    std::uint64_t stamp = 0;
    std::uint32_t before = kNone;  ///< neighbours in address order
    std::uint32_t after = kNone;
    std::uint32_t bin_before = kNone;  ///< neighbours in the bin; of a spare node, the next spare one
    std::uint32_t bin_after = kNone;
    FreeDomain domain = 0;
    RangeState state = RangeState::used;
  };
  struct Bins;
  struct BinIndex {
    unsigned row, column;
  };

  [[nodiscard]] std::uint64_t units_of(Bytes bytes) const;  ///< rounded down
  [[nodiscard]] Bytes rounded(Bytes bytes) const { return static_cast<Bytes>(units_of(bytes + unit_ - 1)) * unit_; }
  [[nodiscard]] BinIndex bin_of(Bytes bytes) const;
  [[nodiscard]] const Bins* find_bins(FreeDomain domain) const;
  void reserve_books(std::size_t nodes, FreeDomain domain);
  std::uint32_t take_node();
  void drop_node(std::uint32_t n);
  void insert(std::uint32_t n);
  void remove(std::uint32_t n);
  std::uint32_t cut(std::uint32_t n, Bytes at);
  void absorb_after(std::uint32_t n);
  std::uint32_t isolate(std::uint32_t n, Bytes offset, Bytes bytes);
  std::uint32_t settle(std::uint32_t n);
  [[nodiscard]] bool mergeable(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] std::uint32_t best_of_bin(std::uint32_t head, Bytes bytes, int probes) const;
  [[nodiscard]] std::uint32_t fit_in(const Bins& bins, Bytes bytes, Search search) const;
  [[nodiscard]] std::uint32_t aligned_fit_in(const Bins& bins, Bytes bytes, Bytes alignment, Search search) const;
  /// The range that holds `offset` if all of [offset, offset + bytes) is in `state`.
  [[nodiscard]] std::uint32_t find_covered(Bytes offset, Bytes bytes, RangeState state) const;
  [[nodiscard]] RangeInfo use(std::uint32_t n, Bytes offset, Bytes bytes);
  [[nodiscard]] std::string validate_links() const;
  [[nodiscard]] std::string validate_bins() const;

  Bytes unit_ = 1;
  int unit_shift_ = 0;  ///< of a unit that is a power of two, else -1
  Bytes capacity_ = 0;
  Bytes used_bytes_ = 0;
  Bytes absent_bytes_ = 0;
  std::uint32_t first_ = kNone;
  std::uint32_t last_ = kNone;
  std::uint32_t spare_ = kNone;
  std::size_t spare_count_ = 0;
  std::size_t aside_count_ = 0;                                  ///< of the spare nodes and the room for new ones
  std::size_t free_count_ = 0;                                   ///< free ranges of all domains
  mutable std::array<std::uint32_t, 2> found_ = {kNone, kNone};  ///< by the last find() calls, perhaps gone since
  MetadataVector<Node> nodes_;
  std::vector<std::unique_ptr<Bins>> bins_;
};

}  // namespace tidemark::allocator
