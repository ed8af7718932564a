#include "core/dynamic_region.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/dispatch_section.h"

namespace tidemark {

GranuleRange granules_inside(Bytes offset, Bytes bytes, Bytes granule) {
  const std::int64_t first = (offset + granule - 1) / granule;
  const std::int64_t end = (offset + bytes) / granule;
  return {.first = first, .count = std::max<std::int64_t>(0, end - first)};
}

GranuleRange dynamic_region(const Arena& arena, Bytes granule) {
  return granules_inside(arena.height_bytes, arena.dynamic_bytes, granule);
}

std::int64_t extra_granules(Bytes offset, Bytes planned_bytes, Bytes actual_bytes, Bytes granule) {
  if (actual_bytes <= planned_bytes) return 0;
  return (actual_bytes + granule - 1) / granule - granules_inside(offset, planned_bytes, granule).count;
}

Bytes routed_bytes(const RoutedResidency& routed, double load) {
  return storage_bytes(
      {.fixed_bytes = routed.fixed_bytes, .routed_rows = routed.rows, .routed_row_bytes = routed.row_bytes}, load);
}

std::vector<std::int32_t> compute_clock(const Schedule& schedule) {
  std::vector<std::int32_t> clock(schedule.tasks.size());
  std::int32_t before = 0;
  for (std::size_t t = 0; t < clock.size(); ++t) {
    clock[t] = before;
    if (schedule.tasks[t].lane == Lane::compute) ++before;
  }
  return clock;
}

namespace {

/// Granules taken of the dynamic region, as changes at half-steps.
class Demand {
 public:
  Demand(const Program& program, double load, Bytes granule)
      : program_(program),
        clock_(compute_clock(program.schedule)),
        change_(static_cast<std::size_t>(program.schedule.compute_tasks) * 2 + 2, 0),
        extra_(program.schedule.residencies.size(), 0) {
    for (const RoutedResidency& routed : program.routed)
      extra_[row(routed.residency)] = granules(routed.residency, routed_bytes(routed, load), granule);
    for (const RoutedResidency& routed : program.routed)
      add(stay(routed.residency).acquire, stay(routed.residency).release, extra_[row(routed.residency)]);
    for (const Contingency& c : program.contingencies) {
      const std::int64_t kept = std::min(extra_[row(c.residency)], granules(c.residency, c.trigger_bytes, granule));
      add(2 * clock_[row(c.release_at)], 2 * clock_[row(c.prefetch_at)] + 1, kept - extra_[row(c.residency)]);
    }
  }

  /// Inside storages take nothing, kept ones theirs from the section's begin on.
  void run_in_chunks() {
    std::vector<std::int32_t> from(extra_.size());
    for (std::size_t r = 0; r < from.size(); ++r) from[r] = program_.schedule.residencies[r].acquire;
    for (const DispatchSection& section : program_.sections) {
      const SectionParts parts = parts_of(program_.schedule, buffers_of(program_, section), clock_);
      for (const ResidencyId r : parts.inside) add(stay(r).acquire, stay(r).release, -extra_[row(r)]);
      for (const ResidencyId r : parts.kept) {
        if (from[row(r)] <= parts.begin) continue;
        add(parts.begin, from[row(r)], extra_[row(r)]);
        from[row(r)] = parts.begin;
      }
    }
  }

  /// Where a section in chunks takes more than whole: what it takes early, less what it does without.
  void run_either_way() {
    for (const DispatchSection& section : program_.sections) {
      const SectionParts parts = parts_of(program_.schedule, buffers_of(program_, section), clock_);
      std::int32_t end = parts.begin;
      for (const ResidencyId r : parts.kept)
        if (extra_[row(r)] > 0) end = std::max(end, stay(r).acquire);
      for (std::int32_t at = parts.begin; at < end; ++at) add(at, at + 1, std::max<std::int64_t>(0, more(parts, at)));
    }
  }

  std::vector<std::int64_t> sums() && {
    for (std::size_t t = 1; t < change_.size(); ++t) change_[t] += change_[t - 1];
    change_.pop_back();
    return std::move(change_);
  }

 private:
  [[nodiscard]] const Residency& stay(ResidencyId r) const { return program_.schedule.residencies[row(r)]; }
  [[nodiscard]] std::int64_t granules(ResidencyId r, Bytes actual, Bytes granule) const {
    return extra_granules(program_.layout.offset_of[row(r)], stay(r).bytes, actual, granule);
  }
  void add(std::int32_t from, std::int32_t until, std::int64_t granules) {
    change_[static_cast<std::size_t>(from)] += granules;
    change_[static_cast<std::size_t>(until)] -= granules;
  }
  [[nodiscard]] std::int64_t more(const SectionParts& parts, std::int32_t at) const {
    std::int64_t granules = 0;
    for (const ResidencyId r : parts.kept) granules += at < stay(r).acquire ? extra_[row(r)] : 0;
    for (const ResidencyId r : parts.inside)
      granules -= stay(r).acquire <= at && at < stay(r).release ? extra_[row(r)] : 0;
    return granules;
  }

  const Program& program_;
  std::vector<std::int32_t> clock_;
  std::vector<std::int64_t> change_;
  std::vector<std::int64_t> extra_;  ///< per residency
};

}  // namespace

std::vector<std::int64_t> dynamic_demand(const Program& program, double load, Bytes granule) {
  Demand demand(program, load, granule);
  demand.run_either_way();
  return std::move(demand).sums();
}

std::vector<std::int64_t> collective_demand(const Program& program, double load, Bytes granule) {
  Demand demand(program, load, granule);
  demand.run_in_chunks();
  return std::move(demand).sums();
}

}  // namespace tidemark
