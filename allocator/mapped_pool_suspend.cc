// A mapped pool without memory: its addresses stay, and what lives in it keeps its place in the books.

#include "allocator/mapped_pool_suspend.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "allocator/block_pool.h"
#include "allocator/give_back.h"

namespace tidemark::allocator {
namespace {

/// What of `from` lies in none of `holes`. Both by offset.
MetadataVector<Stretch> without(const MetadataVector<Stretch>& from, const MetadataVector<Stretch>& holes) {
  MetadataVector<Stretch> left;
  for (const Stretch& stretch : from) visit_without(stretch, holes, [&](const Stretch& part) { left.push_back(part); });
  return left;
}

/// Adds [from, to) at the end, joined with the last one where they touch or overlap.
void append(MetadataVector<Stretch>& stretches, Bytes from, Bytes to) {
  if (!stretches.empty()) {
    Stretch& last = stretches.back();
    from = std::max(from, last.offset);
    if (from <= last.offset + last.bytes) {
      last.bytes = std::max(to, last.offset + last.bytes) - last.offset;
      return;
    }
  }
  stretches.push_back({.offset = from, .bytes = to - from});
}

}  // namespace

/// The granules of `in` that hold a used range, or a part of one.
MetadataVector<Stretch> MappedPool::used_granules(const MetadataVector<Stretch>& in) const {
  MetadataVector<Stretch> used;
  for (RangeId id = space_.first(); id != kNoRange; id = space_.next(id)) {
    const RangeInfo range = space_.info(id);
    if (range.state == RangeState::used) append(used, range.offset / grain_ * grain_, round_up(range.end(), grain_));
  }
  return without(in, without(in, used));
}

void MappedPool::suspend() {
  if (suspended_) return;
  MetadataVector<Stretch> present;
  if (base_ != 0) visit_present([&](const Stretch& stretch) { present.push_back(stretch); });
  away_.reserve(present.size());
  suspended_ = true;
  windows_.suspend();
  for (const Stretch& stretch : present) {
    const Address at = address_of(stretch.offset);
    if (give_back([&] { return shared_.device.unmap(at, stretch.bytes); }) != DeviceCode::ok) continue;
    away_.push_back(stretch);
    change_reserved(-stretch.bytes, TraceAction::segment_unmap, at);
  }
}

/// What was freed meanwhile needs no memory any more.
void MappedPool::forget(const MetadataVector<Stretch>& idle) {
  space_.reserve(idle.size() * kRangesOfMark);
  for (const Stretch& stretch : idle) {
    const bool marked = space_.mark_absent(stretch.offset, stretch.bytes);
    assert(marked);
    static_cast<void>(marked);
  }
}

/// Takes the first `count` stretches away again; the device has just given them and takes them back.
void MappedPool::unmap_again(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    give_back([&] { return shared_.device.unmap(address_of(away_[i].offset), away_[i].bytes); });
}

DeviceCode MappedPool::resume(Bytes limit_bytes) {
  if (!suspended_) return DeviceCode::ok;
  MetadataVector<Stretch> needed = used_granules(away_);
  forget(without(away_, needed));
  away_ = std::move(needed);  // moved: it may be longer, and nothing may fail behind forget()
  Bytes need = 0;
  for (const Stretch& stretch : away_) need += stretch.bytes;
  if (reserved_bytes_ + need > limit_bytes) return DeviceCode::out_of_memory;
  for (std::size_t i = 0; i < away_.size(); ++i) {
    const DeviceCode code = shared_.device.map(address_of(away_[i].offset), away_[i].bytes);
    if (code == DeviceCode::ok) continue;
    unmap_again(i);
    return code;
  }
  if (const DeviceCode code = windows_.resume(base_); code != DeviceCode::ok) {
    unmap_again(away_.size());
    return code;
  }
  for (const Stretch& stretch : away_)
    change_reserved(stretch.bytes, TraceAction::segment_map, address_of(stretch.offset));
  away_.clear();
  suspended_ = false;
  return DeviceCode::ok;
}

}  // namespace tidemark::allocator
