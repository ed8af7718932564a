#include "swap/dynamic_region.h"

#include <algorithm>
#include <numeric>

#include "allocator/give_back.h"
#include "core/dynamic_region.h"

namespace tidemark::swap {
namespace {

/// More windows than this are dropped between steps: their sets of granules do not come back.
constexpr std::size_t kManyWindows = 4096;

/// The granule in true size: that of plans, or the device's if it is coarser at this scale.
Bytes granule_for(const DeviceTraits& traits, std::int64_t scale) {
  return std::lcm(kPlanGranule, std::max<Bytes>(1, traits.granule_bytes) * scale);
}

GranulePool pool_of(const Arena& arena, Bytes granule) {
  const GranuleRange region = dynamic_region(arena, granule);
  return {region.first, region.count};
}

}  // namespace

DynamicRegion::DynamicRegion(Device& device, ArenaMemory& memory, const Arena& arena, ArenaId id, std::int64_t scale)
    : device_(device),
      memory_(memory),
      arena_(id),
      scale_(scale),
      aliasing_(device.traits().aliasing && memory.is_mapped(id)),
      plan_granule_(kPlanGranule),
      granule_(granule_for(device.traits(), scale)),
      pool_(pool_of(arena, granule_)),
      region_begin_(round_up(arena.height_bytes, arena.alignment_bytes * scale) / scale),
      blocks_(aliasing_ ? 0 : std::max<Bytes>(0, (arena.height_bytes + arena.dynamic_bytes) / scale - region_begin_),
              std::max<Bytes>(1, arena.alignment_bytes)) {}

DynamicRegion::~DynamicRegion() {
  for (auto& [parts, window] : windows_) drop(window);
}

DynamicRegion::Taken DynamicRegion::take(Bytes slot_offset, Bytes planned_bytes, Bytes actual_bytes,
                                         std::int32_t acquire, std::span<const GranuleRange> holes,
                                         OversizedStay& stay) {
  stay = {};
  return aliasing_ ? take_window(slot_offset, planned_bytes, actual_bytes, acquire, holes, stay)
                   : take_block(actual_bytes, acquire, stay);
}

DynamicRegion::Taken DynamicRegion::take_window(Bytes slot_offset, Bytes planned_bytes, Bytes actual_bytes,
                                                std::int32_t acquire, std::span<const GranuleRange> holes,
                                                OversizedStay& stay) {
  std::int64_t extra = extra_granules(slot_offset, planned_bytes, actual_bytes, granule_);
  const GranuleRange slot = granules_inside(slot_offset, planned_bytes, granule_);
  std::vector<std::int64_t> parts(static_cast<std::size_t>(slot.count));
  std::iota(parts.begin(), parts.end(), slot.first);
  for (const GranuleRange& hole : promises_limit() ? holes : std::span<const GranuleRange>{}) {
    for (std::int64_t g = hole.first; g < hole.first + hole.count && extra > 0; ++g, --extra) parts.push_back(g);
  }
  if (!pool_.take(extra, acquire, stay.granules)) return Taken::no_room;
  parts.insert(parts.end(), stay.granules.begin(), stay.granules.end());
  auto found = windows_.find(parts);
  if (found == windows_.end()) {
    Window window;
    if (!compose(parts, window)) {
      drop(window);
      pool_.give_back(stay.granules, acquire);
      stay = {};
      return Taken::device_failed;
    }
    found = windows_.emplace(std::move(parts), window).first;
  }
  stay.address = found->second.view.base;
  stay.extra_bytes = extra * granule_;
  return Taken::ok;
}

bool DynamicRegion::has_room(std::span<const Need> needs, std::int32_t acquire) {
  std::int64_t granules = 0;
  Bytes bytes = 0;
  for (const Need& need : needs) {
    std::int64_t extra = extra_granules(need.slot_offset, need.planned_bytes, need.actual_bytes, granule_);
    if (promises_limit())
      for (const GranuleRange& hole : need.holes) extra -= std::min(extra, hole.count);
    granules += extra;
    bytes += (need.actual_bytes + scale_ - 1) / scale_ + device_.traits().tail_pad_bytes;
  }
  if (aliasing_) return pool_.has(granules, acquire);
  free_blocks(acquire);
  return bytes <= blocks_.free_bytes();
}

void DynamicRegion::free_blocks(std::int32_t acquire) {
  std::erase_if(returning_, [&](const Returning& r) {
    if (r.release > acquire) return false;
    blocks_.free(r.block);
    return true;
  });
}

DynamicRegion::Taken DynamicRegion::take_block(Bytes actual_bytes, std::int32_t acquire, OversizedStay& stay) {
  free_blocks(acquire);
  const Bytes bytes = std::max<Bytes>(1, (actual_bytes + scale_ - 1) / scale_);
  const std::optional<allocator::RangeInfo> range =
      blocks_.allocate(bytes + device_.traits().tail_pad_bytes, 0, allocator::kDefaultDomain,
                       allocator::OffsetAllocator::Search::thorough);
  if (!range) return Taken::no_room;
  const Bytes offset = region_begin_ + range->offset;
  if (fails(memory_.map(arena_, offset, bytes + device_.traits().tail_pad_bytes))) {
    blocks_.free(range->id);
    return Taken::device_failed;
  }
  stay = {.address = memory_.at(arena_, offset), .extra_bytes = actual_bytes, .block = range->id};
  peak_block_bytes_ = std::max(peak_block_bytes_, blocks_.used_bytes());
  return Taken::ok;
}

/// Aliases runs of neighbouring granules at once.
bool DynamicRegion::compose(const std::vector<std::int64_t>& parts, Window& window) {
  const Bytes granule = granule_ / scale_;
  const Bytes bytes = static_cast<Bytes>(parts.size()) * granule;
  if (fails(device_.reserve(bytes, window.view.base))) return false;
  window.reserved = bytes;
  for (std::size_t i = 0; i < parts.size();) {
    std::size_t end = i + 1;
    while (end < parts.size() && parts[end] == parts[end - 1] + 1) ++end;
    const Bytes offset = parts[i] * granule, run = static_cast<Bytes>(end - i) * granule;
    if (fails(memory_.map(arena_, offset, run))) return false;
    if (fails(window.view.show(device_, memory_.at(arena_, offset), run))) return false;
    i = end;
  }
  return true;
}

void DynamicRegion::drop(Window& window) {
  window.view.hide(device_);
  if (window.reserved > 0) allocator::give_back([&] { return device_.release(window.view.base, window.reserved); });
}

void DynamicRegion::give_back(const OversizedStay& stay, std::int32_t release) {
  if (aliasing_)
    pool_.give_back(stay.granules, release);
  else
    returning_.push_back({.release = release, .block = stay.block});
}

void DynamicRegion::restart() {
  pool_.restart();
  for (const Returning& r : returning_) blocks_.free(r.block);
  returning_.clear();
  peak_block_bytes_ = blocks_.used_bytes();
  if (windows_.size() <= kManyWindows) return;
  for (auto& [parts, window] : windows_) drop(window);
  windows_.clear();
}

Bytes DynamicRegion::capacity_bytes() const {
  return aliasing_ ? pool_.count() * granule_ : blocks_.capacity() * scale_;
}

Bytes DynamicRegion::used_bytes() const {
  return aliasing_ ? pool_.in_use() * granule_ : blocks_.used_bytes() * scale_;
}

Bytes DynamicRegion::peak_bytes() const {
  return aliasing_ ? pool_.peak() * granule_ : peak_block_bytes_ * scale_;
}

}  // namespace tidemark::swap
