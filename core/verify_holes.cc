// Holes that routed storages stand in beyond their planned size (core/hole_granules.h): nobody else is there, and with
// them the dynamic region suffices.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/dispatch_section.h"
#include "core/dynamic_region.h"
#include "core/hole_granules.h"
#include "core/verify_parts.h"

namespace tidemark::verify {
namespace {

Found wrong(std::string detail) {
  return Violation{.rule = Violation::Rule::contingency, .detail = std::move(detail)};
}

/// A stay in granules [first, last) for half-steps [begin, end): planned, or in a hole.
struct Stand {
  std::int32_t begin = 0, end = 0;
  std::int64_t first = 0, last = 0;
  std::int32_t residency = -1;
  bool in_hole = false;
};

std::vector<Stand> stands_in_holes(const Program& program, const HoleGranules& holes) {
  std::vector<Stand> stands;
  for (std::size_t s = 0; s < holes.stays().size(); ++s) {
    const RoutedStay& stay = holes.stays()[s];
    const ResidencyId residency = program.routed[static_cast<std::size_t>(stay.routed)].residency;
    for (const GranuleRange& run : holes.of(s))
      stands.push_back({.begin = stay.begin,
                        .end = stay.end,
                        .first = run.first,
                        .last = run.first + run.count,
                        .residency = static_cast<std::int32_t>(residency),
                        .in_hole = true});
  }
  return stands;
}

/// And chunks of sections, which stand where the plan has nothing at the time.
void add_planned(const Program& program, std::vector<Stand>& stands) {
  const std::vector<std::int32_t> from = in_use_from(program);
  for (const BufferUse& use : buffer_uses(program))
    stands.push_back({.begin = use.from,
                      .end = use.until,
                      .first = use.offset / kPlanGranule,
                      .last = (use.offset + use.bytes - 1) / kPlanGranule + 1,
                      .residency = static_cast<std::int32_t>(use.residency)});
  for (std::size_t r = 0; r < program.schedule.residencies.size(); ++r) {
    const Residency& stay = program.schedule.residencies[r];
    if (program.layout.arena_of[r] != id_of<ArenaId>(0) || stay.bytes == 0) continue;
    const Bytes offset = program.layout.offset_of[r];
    stands.push_back({.begin = from[r],
                      .end = stay.release,
                      .first = offset / kPlanGranule,
                      .last = (offset + stay.bytes - 1) / kPlanGranule + 1,
                      .residency = static_cast<std::int32_t>(r)});
  }
}

// In order of begin, so that two meet in a granule if the earlier one ends after the later one begins. Granules between
// neighbouring edges of holes are in the same holes.
Found check_apart(const Program& program, const HoleGranules& holes) {
  std::vector<Stand> stands = stands_in_holes(program, holes);
  if (stands.empty()) return {};
  std::vector<std::int64_t> edges{0};
  for (const Stand& stand : stands) edges.insert(edges.end(), {stand.first, stand.last});
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  add_planned(program, stands);
  std::stable_sort(stands.begin(), stands.end(), [](const Stand& a, const Stand& b) { return a.begin < b.begin; });
  struct Until {
    std::int32_t end = 0;
    std::int32_t hole_end = 0;
  };
  std::vector<Until> until(edges.size());
  const std::int64_t whole = program.layout.arenas.front().height_bytes / kPlanGranule;
  for (const Stand& stand : stands) {
    if (stand.in_hole && (stand.first < 0 || stand.last > whole))
      return wrong(fmt::format("residency {} stands in a hole above the height", stand.residency));
    const auto above = std::upper_bound(edges.begin(), edges.end(), stand.first) - edges.begin();
    for (auto e = static_cast<std::size_t>(above) - 1; e + 1 < edges.size() && edges[e] < stand.last; ++e) {
      if ((stand.in_hole ? until[e].end : until[e].hole_end) > stand.begin)
        return wrong(fmt::format("residency {} meets another in granule {}, which one of them has as a hole",
                                 stand.residency, std::max(edges[e], stand.first)));
      until[e].end = std::max(until[e].end, stand.end);
      if (stand.in_hole) until[e].hole_end = std::max(until[e].hole_end, stand.end);
    }
  }
  return {};
}

}  // namespace

Found check_holes(const Program& program) {
  const double limit = program.contingency_limit_f;
  const std::int64_t region = dynamic_region(program.layout.arenas.front(), kPlanGranule).count;
  std::vector<std::int64_t> demand = dynamic_demand(program, limit);
  HoleGranules holes(program);
  (void)holes.assign(limit);
  if (Found found = check_apart(program, holes)) return found;
  // What stands in holes need not be in the region.
  std::vector<std::int64_t> change(demand.size() + 1, 0);
  for (std::size_t s = 0; s < holes.stays().size(); ++s) {
    const RoutedStay& stay = holes.stays()[s];
    const RoutedResidency& routed = program.routed[static_cast<std::size_t>(stay.routed)];
    const std::size_t r = row(routed.residency);
    const std::int64_t most = extra_granules(program.layout.offset_of[r], program.schedule.residencies[r].bytes,
                                             routed_bytes(routed, limit), kPlanGranule);
    std::int64_t granules = 0;
    for (const GranuleRange& run : holes.of(s)) granules += run.count;
    if (granules > most)
      return wrong(fmt::format("residency {} stands in {} granules of holes, it lacks {}", r, granules, most));
    change[static_cast<std::size_t>(stay.begin)] += granules;
    change[static_cast<std::size_t>(stay.end)] -= granules;
  }
  std::int64_t in_holes = 0;
  for (std::size_t t = 0; t < demand.size(); ++t) {
    in_holes += change[t];
    demand[t] -= in_holes;
  }
  const auto most = std::ranges::max_element(demand);
  if (*most <= region) return {};
  return wrong(
      fmt::format("at expert load {} up to {} granules of the dynamic region are taken at half-step {}, which has {}",
                  limit, *most, most - demand.begin(), region));
}

}  // namespace tidemark::verify
