#include "planner/ladder/dynamic_bound.h"

#include <algorithm>
#include <cmath>

#include "core/spare_host.h"

namespace tidemark::ladder {

std::int64_t DynamicBound::Row::extra(double load) const {
  const Bytes actual = routed_bytes(routed, load);
  return actual <= planned_bytes ? 0 : (actual + kPlanGranule - 1) / kPlanGranule - inside;
}

DynamicBound::DynamicBound(const Program& program) : row_of_(program.schedule.residencies.size(), -1) {
  rows_.reserve(program.routed.size());
  events_.reserve(2 * program.routed.size());
  for (const RoutedResidency& routed : program.routed) {
    const Residency& r = program.schedule.residencies[row(routed.residency)];
    const Bytes offset = program.layout.offset_of[row(routed.residency)];
    const auto index = static_cast<std::int32_t>(rows_.size());
    row_of_[row(routed.residency)] = index;
    rows_.push_back(
        {.routed = routed, .planned_bytes = r.bytes, .inside = granules_inside(offset, r.bytes, kPlanGranule).count});
    events_.push_back({.clock = r.acquire, .sign = 1, .row = index});
    events_.push_back({.clock = r.release, .sign = -1, .row = index});
  }
  region_ = dynamic_region(program.layout.arenas.front(), kPlanGranule).count;
  extra_.resize(rows_.size());
  std::sort(events_.begin(), events_.end());
}

void DynamicBound::add(const std::vector<Window>& windows) {
  const auto old = static_cast<std::ptrdiff_t>(events_.size());
  for (const Window& w : windows) {
    const std::int32_t index = row_of_[row(w.residency)];
    events_.push_back({.clock = w.from, .sign = -1, .row = index, .window = true});
    events_.push_back({.clock = w.until, .sign = 1, .row = index, .window = true});
  }
  std::sort(events_.begin() + old, events_.end());
  std::inplace_merge(events_.begin(), events_.begin() + old, events_.end());
}

void DynamicBound::remove(const std::vector<ResidencyId>& residencies) {
  std::vector<char> removed(rows_.size(), 0);
  for (const ResidencyId residency : residencies) removed[static_cast<std::size_t>(row_of_[row(residency)])] = 1;
  std::erase_if(events_, [&](const Event& e) { return e.window && removed[static_cast<std::size_t>(e.row)] != 0; });
}

std::optional<std::int32_t> DynamicBound::first_overflow(double load) const {
  for (std::size_t i = 0; i < rows_.size(); ++i) extra_[i] = rows_[i].extra(load);
  std::int64_t taken = 0;
  for (const Event& e : events_) {
    taken += e.sign * extra_[static_cast<std::size_t>(e.row)];
    if (e.sign > 0 && taken > region_) return e.clock;
  }
  return std::nullopt;
}

double DynamicBound::limit(double least) const {
  const auto load_of = [](std::int64_t step) { return static_cast<double>(step) / kSteps; };
  auto low = static_cast<std::int64_t>(std::floor(least * kSteps));  // carried, or below what is
  if (first_overflow(load_of(low + 1))) return least;
  auto high = static_cast<std::int64_t>(kMostLoad * kSteps) + 1;
  // Limits are mostly near the planned load: double the distance before halving it.
  for (std::int64_t stride = 64; low + stride < high; stride *= 2) {
    if (first_overflow(load_of(low + stride))) {
      high = low + stride;
      break;
    }
    low += stride;
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (first_overflow(load_of(middle)) ? high : low) = middle;
  }
  return std::max(least, load_of(low));
}

std::int64_t DynamicBound::extra(ResidencyId residency, double load) const {
  return rows_[static_cast<std::size_t>(row_of_[row(residency)])].extra(load);
}

Bytes DynamicBound::bytes(ResidencyId residency, double load) const {
  return routed_bytes(rows_[static_cast<std::size_t>(row_of_[row(residency)])].routed, load);
}

SpareHostBound::SpareHostBound(const Program& program) {
  const auto& residencies = program.schedule.residencies;
  std::int32_t storages = 0;
  for (const Residency& r : residencies) storages = std::max(storages, static_cast<std::int32_t>(r.storage) + 1);
  std::vector<std::int32_t> routed_of(static_cast<std::size_t>(storages), -1);
  for (std::size_t i = 0; i < program.routed.size(); ++i)
    routed_of[row(residencies[row(program.routed[i].residency)].storage)] = static_cast<std::int32_t>(i);
  for (const Residency& r : residencies) {
    const std::int32_t routed = routed_of[row(r.storage)];
    if (r.space != MemorySpace::host || routed < 0) continue;
    const auto index = static_cast<std::int32_t>(rows_.size());
    rows_.push_back({.routed = program.routed[static_cast<std::size_t>(routed)], .planned_bytes = r.bytes});
    events_.push_back({.clock = r.acquire, .sign = 1, .row = index});
    events_.push_back({.clock = r.release, .sign = -1, .row = index});
  }
  std::sort(events_.begin(), events_.end());
}

std::int64_t SpareHostBound::demand(double load) const {
  std::vector<std::int64_t> pieces(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i)
    pieces[i] = spare_pieces(rows_[i].planned_bytes, routed_bytes(rows_[i].routed, load));
  std::int64_t now = 0, most = 0;
  for (const Event& e : events_) {
    now += e.sign * pieces[static_cast<std::size_t>(e.row)];
    most = std::max(most, now);
  }
  return most;
}

}  // namespace tidemark::ladder
