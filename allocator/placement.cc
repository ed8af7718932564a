#include "allocator/placement.h"

#include <algorithm>
#include <tuple>

namespace tidemark::allocator {
namespace {

// Granules are powers of two: no division in the path of every allocation.
constexpr Bytes align_down(Bytes bytes, Bytes granule) {
  return bytes & -granule;
}
constexpr Bytes align_up(Bytes bytes, Bytes granule) {
  return align_down(bytes + granule - 1, granule);
}

constexpr Bytes touched(Bytes offset, Bytes bytes, Bytes granule) {
  return align_up(offset + bytes, granule) - align_down(offset, granule);
}

/// One unbroken run of usable ranges and the best place in it.
class Run {
 public:
  Run(Bytes bytes, Bytes granule) : bytes_(bytes), granule_(granule) {}

  void add(const RangeInfo& range) {
    ranges_.push_back(range);
    any_absent_ |= range.state == RangeState::absent;
  }
  void clear() {
    ranges_.clear();
    any_absent_ = false;
  }

  /// Compares every place in the run with the best so far.
  void consider(std::optional<Placement>& best, Bytes& best_length) const {
    if (ranges_.empty()) return;
    const Bytes start = ranges_.front().offset, end = ranges_.back().end(), length = end - start;
    if (length < bytes_) return;
    const auto offer = [&](std::size_t near, Bytes offset) {
      const Placement place{
          .offset = offset,
          .missing_bytes = missing_near(near, offset),
          .touched_bytes = align_down(bytes_, granule_) == bytes_ ? touched(offset, bytes_, granule_) : 0};
      const auto key = [](const Placement& p, const Bytes& run) {
        return std::tie(p.missing_bytes, p.touched_bytes, run, p.offset);
      };
      if (best && key(*best, best_length) <= key(place, length)) return;
      best = place;
      best_length = length;
    };
    // With memory behind all of it no place is better than the first, unless whole granules are wanted.
    if (!any_absent_ && align_down(bytes_, granule_) != bytes_) return offer(0, start);
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (ranges_[i].offset + bytes_ <= end) offer(i, ranges_[i].offset);
      if (ranges_[i].end() - bytes_ >= start) offer(i, ranges_[i].end() - bytes_);
      const Bytes bound = align_up(ranges_[i].offset, granule_);
      if (bound < ranges_[i].end() && bound + bytes_ <= end) offer(i, bound);
    }
  }

 private:
  /// Missing granules of a place that touches range `near`.
  [[nodiscard]] Bytes missing_near(std::size_t near, Bytes offset) const {
    Bytes missing = 0;
    const auto touch = [&](const RangeInfo& range) {
      if (range.state != RangeState::absent) return;
      const Bytes from = std::max(range.offset, align_down(offset, granule_));
      missing += std::min(range.end(), align_up(offset + bytes_, granule_)) - from;
    };
    for (std::size_t i = near; i < ranges_.size() && ranges_[i].offset < offset + bytes_; ++i) touch(ranges_[i]);
    for (std::size_t i = near; i-- > 0 && ranges_[i].end() > offset;) touch(ranges_[i]);
    return missing;
  }

  Bytes bytes_;
  Bytes granule_;
  MetadataVector<RangeInfo> ranges_;
  bool any_absent_ = false;
};

}  // namespace

Bytes place_in(const RangeInfo& range, Bytes bytes, Bytes granule) {
  const Bytes front = range.offset, back = range.end() - bytes, bound = align_up(front, granule);
  Bytes best = front;
  const auto key = [&](Bytes offset) {
    // Whole granules of the range that the block spoils by touching them.
    const Bytes from = std::max(align_down(offset, granule), bound);
    const Bytes to = std::min(align_up(offset + bytes, granule), align_down(range.end(), granule));
    return std::tuple(std::max<Bytes>(to - from, 0),
                      align_down(bytes, granule) == bytes ? touched(offset, bytes, granule) : 0);
  };
  if (key(back) < key(best)) best = back;
  if (bound + bytes <= range.end() && key(bound) < key(best)) best = bound;
  return best;
}

std::optional<Placement> find_placement(const OffsetAllocator& space, Bytes bytes, Bytes granule,
                                        const std::function<bool(const RangeInfo&)>& usable) {
  std::optional<Placement> best;
  Bytes best_length = 0;
  Run run(bytes, granule);
  for (RangeId id = space.first(); id != kNoRange; id = space.next(id)) {
    const RangeInfo range = space.info(id);
    if (range.state == RangeState::absent || (range.state == RangeState::free && usable(range))) {
      run.add(range);
      continue;
    }
    run.consider(best, best_length);
    run.clear();
  }
  run.consider(best, best_length);
  return best;
}

MetadataVector<Stretch> missing_stretches(const OffsetAllocator& space, Bytes offset, Bytes bytes, Bytes granule) {
  MetadataVector<Stretch> stretches;
  const Bytes from = align_down(offset, granule), to = align_up(offset + bytes, granule);
  for (RangeId id = space.find(from); id != kNoRange; id = space.next(id)) {
    const RangeInfo range = space.info(id);
    if (range.offset >= to) break;
    if (range.state != RangeState::absent) continue;
    const Bytes start = std::max(from, range.offset);
    stretches.push_back({.offset = start, .bytes = std::min(to, range.end()) - start});
  }
  return stretches;
}

MetadataVector<Stretch> idle_stretches(const OffsetAllocator& space, Bytes granule, Bytes keep, Bytes keep_bytes,
                                       const std::function<bool(const RangeInfo&)>& idle) {
  MetadataVector<Stretch> stretches;
  const auto add = [&](Bytes start, Bytes end) {
    start = align_up(start, granule);
    end = align_down(end, granule);
    if (start < end) stretches.push_back({.offset = start, .bytes = end - start});
  };
  const Bytes keep_from = align_down(keep, granule), keep_to = align_up(keep + keep_bytes, granule);
  Bytes from = 0, to = 0;  // idle neighbours of several domains, joined
  const auto flush = [&] {
    add(from, keep_bytes > 0 ? std::min(to, std::max(keep_from, from)) : to);
    if (keep_bytes > 0 && to > keep_to) add(std::max(from, keep_to), to);
  };
  for (RangeId id = space.first(); id != kNoRange; id = space.next(id)) {
    const RangeInfo range = space.info(id);
    if (range.state != RangeState::free || !idle(range)) continue;
    if (range.offset != to) {
      flush();
      from = range.offset;
    }
    to = range.end();
  }
  flush();
  std::sort(stretches.begin(), stretches.end(), [](const Stretch& a, const Stretch& b) {
    return std::tie(a.bytes, a.offset) < std::tie(b.bytes, b.offset);
  });
  return stretches;
}

}  // namespace tidemark::allocator
