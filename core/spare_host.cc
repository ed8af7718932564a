#include "core/spare_host.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "core/dynamic_region.h"

namespace tidemark {

std::int64_t spare_pieces(Bytes planned_bytes, Bytes actual_bytes) {
  return actual_bytes <= planned_bytes ? 0 : (actual_bytes - planned_bytes + kHostPiece - 1) / kHostPiece;
}

std::int64_t spare_host_room(const Layout& layout) {
  std::int64_t pieces = 0;
  for (const Arena& arena : layout.arenas)
    if (arena.space == MemorySpace::host)
      pieces += std::max<Bytes>(0, arena.capacity_bytes - arena.height_bytes - arena.dynamic_bytes) / kHostPiece;
  return pieces;
}

std::int64_t spare_host_demand(const Program& program, double load) {
  const Schedule& schedule = program.schedule;
  // All residencies of a storage have the same rows.
  std::unordered_map<std::int32_t, const RoutedResidency*> routed_of;
  for (const RoutedResidency& routed : program.routed)
    routed_of.emplace(static_cast<std::int32_t>(schedule.residencies[row(routed.residency)].storage), &routed);
  std::vector<std::int64_t> change(static_cast<std::size_t>(schedule.compute_tasks) * 2 + 2, 0);
  for (const Residency& r : schedule.residencies) {
    if (r.space != MemorySpace::host) continue;
    const auto found = routed_of.find(static_cast<std::int32_t>(r.storage));
    if (found == routed_of.end()) continue;
    const std::int64_t pieces = spare_pieces(r.bytes, routed_bytes(*found->second, load));
    change[static_cast<std::size_t>(r.acquire)] += pieces;
    change[static_cast<std::size_t>(r.release)] -= pieces;
  }
  std::int64_t now = 0, most = 0;
  for (const std::int64_t c : change) {
    now += c;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace tidemark
