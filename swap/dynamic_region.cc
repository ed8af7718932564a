#include "swap/dynamic_region.h"

#include <algorithm>

#include "allocator/give_back.h"

namespace tidemark::swap {
namespace {

/// More windows than this are dropped between steps: their sets of granules do not come back.
constexpr std::size_t kManyWindows = 4096;

GranulePool pool_of(const Arena& arena) {
  const GranuleRange region = dynamic_region(arena, kPlanGranule);
  return {region.first, region.count};
}

}  // namespace

DynamicRegion::DynamicRegion(Device& device, ArenaMemory& memory, const Program& program, ArenaId id,
                             std::int64_t scale)
    : device_(device),
      memory_(memory),
      arena_(id),
      scale_(scale),
      granule_(kPlanGranule),
      windows_possible_(device.traits().aliasing && memory.is_mapped(id) &&
                        kPlanGranule % (std::max<Bytes>(1, device.traits().granule_bytes) * scale) == 0),
      pool_(pool_of(program.layout.arenas[row(id)])) {
  if (windows_possible_) gaps_ = plan_gaps(program, id, granule_);
}

DynamicRegion::~DynamicRegion() {
  for (auto& [parts, composed] : windows_) drop(composed);
}

DynamicRegion::Taken DynamicRegion::take(const Slot& slot, Bytes actual_bytes, std::int32_t from,
                                         RoutedWindow& window) {
  if (!windows_possible_) return Taken::no_room;
  return compose_window(slot, extra_granules(slot.offset, slot.bytes, actual_bytes, granule_), from, window);
}

DynamicRegion::Taken DynamicRegion::take_most(const Slot& slot, Bytes most_bytes, std::int32_t from,
                                              RoutedWindow& window) {
  if (!windows_possible_) return Taken::no_room;
  const std::int64_t inside = granules_inside(slot.offset, slot.bytes, granule_).count;
  const std::int64_t wanted = (most_bytes + granule_ - 1) / granule_ - inside;
  const std::int64_t extra = std::min(wanted, pool_.available(from, slot.release));
  if ((inside + extra) * granule_ <= slot.bytes) return Taken::no_room;
  return compose_window(slot, extra, from, window);
}

DynamicRegion::Taken DynamicRegion::compose_window(const Slot& slot, std::int64_t extra, std::int32_t from,
                                                   RoutedWindow& window) {
  window = {};
  if (!pool_.take(extra, from, slot.release, window.extra)) return Taken::no_room;
  const GranuleRange inside = granules_inside(slot.offset, slot.bytes, granule_);
  std::vector<GranuleRange> parts;
  if (inside.count > 0) parts.push_back(inside);
  for (const GranulePool::Run& run : window.extra) parts.push_back(run.granules);
  auto found = windows_.find(parts);
  if (found == windows_.end()) {
    Composed composed;
    if (!compose(parts, composed)) {
      drop(composed);
      pool_.give_back(window.extra, from);
      window = {};
      return Taken::device_failed;
    }
    found = windows_.emplace(std::move(parts), composed).first;
  }
  window.address = found->second.view.base;
  window.bytes = found->second.reserved * scale_;
  return Taken::ok;
}

/// Aliases runs of neighbouring granules at once.
bool DynamicRegion::compose(const std::vector<GranuleRange>& parts, Composed& composed) {
  const Bytes granule = granule_ / scale_;
  Bytes bytes = 0;
  for (const GranuleRange& part : parts) bytes += part.count * granule;
  if (fails(device_.reserve(bytes, composed.view.base))) return false;
  composed.reserved = bytes;
  for (const GranuleRange& part : parts) {
    const Bytes offset = part.first * granule, run = part.count * granule;
    if (fails(memory_.map(arena_, offset, run))) return false;
    if (fails(composed.view.show(device_, memory_.at(arena_, offset), run))) return false;
  }
  return true;
}

void DynamicRegion::drop(Composed& composed) {
  composed.view.hide(device_);
  if (composed.reserved > 0)
    allocator::give_back([&] { return device_.release(composed.view.base, composed.reserved); });
}

void DynamicRegion::give_back(const RoutedWindow& window, std::int32_t release) {
  pool_.give_back(window.extra, release);
}

void DynamicRegion::lend(const Slot& slot, Bytes filled) {
  if (!windows_possible_ || filled >= slot.bytes) return;
  pool_.lend(granules_inside(slot.offset + filled, slot.bytes - filled, granule_), slot.acquire, slot.release);
}

void DynamicRegion::restart() {
  pool_.restart();
  for (const PlanGap& gap : gaps_) pool_.lend(gap.units, gap.from, gap.until);
  if (windows_.size() <= kManyWindows) return;
  for (auto& [parts, composed] : windows_) drop(composed);
  windows_.clear();
}

}  // namespace tidemark::swap
