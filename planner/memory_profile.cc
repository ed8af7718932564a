#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/held_span.h"
#include "planner/planner.h"

namespace tidemark::plan {
namespace {

using RoleBytes = std::array<Bytes, kStorageRoleCount>;

std::string name_of(const StorageTemplate& storage) {
  return storage.module_path.empty() ? storage.name : storage.module_path + "." + storage.name;
}

/// Adds up storages by (template, chunk, layer).
class ContributorTable {
 public:
  explicit ContributorTable(const Graph& graph) : graph_(graph) {}

  void add(StorageId storage, Bytes bytes) {
    const Site& site = graph_.site_of(storage);
    Sum& sum = sums_[{graph_.storages[row(storage)].storage_template, site.chunk, site.layer}];
    sum.bytes += bytes;
    ++sum.count;
  }

  /// Largest first; equal ones in the order of template, chunk and layer.
  [[nodiscard]] std::vector<Contributor> list() const {
    std::vector<Contributor> result;
    for (const auto& [key, sum] : sums_) {
      const StorageTemplate& storage = graph_.storage_templates[row(std::get<0>(key))];
      result.push_back({.name = name_of(storage),
                        .layer = std::get<2>(key),
                        .chunk = std::get<1>(key),
                        .count = sum.count,
                        .bytes = sum.bytes,
                        .role = storage.role});
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const Contributor& a, const Contributor& b) { return a.bytes > b.bytes; });
    return result;
  }

 private:
  struct Sum {
    std::int64_t count = 0;
    Bytes bytes = 0;
  };
  const Graph& graph_;
  std::map<std::tuple<StorageTemplateId, std::int32_t, std::int32_t>, Sum> sums_;
};

}  // namespace

MemoryProfile memory_profile(const Graph& graph, const Schedule& schedule) {
  // Changes per half-step, then one running sum; a position without a change is left out.
  const std::size_t positions = 2 * static_cast<std::size_t>(schedule.compute_tasks) + 1;
  std::vector<RoleBytes> change(positions, RoleBytes{});
  std::vector<bool> changed(positions, false);
  for (const Residency& residency : schedule.residencies) {
    const HeldSpan span = held_span(residency, schedule.compute_tasks);
    if (residency.space != MemorySpace::device || span.begin >= span.end) continue;
    const auto role = static_cast<std::size_t>(graph.template_of(residency.storage).role);
    const auto begin = static_cast<std::size_t>(span.begin), end = static_cast<std::size_t>(span.end);
    change[begin][role] += residency.bytes;
    changed[begin] = true;
    if (end == positions) continue;  // lasts: held until the next step begins
    change[end][role] -= residency.bytes;
    changed[end] = true;
  }
  MemoryProfile profile;
  RoleBytes held{};
  for (std::size_t position = 0; position < positions; ++position) {
    if (!changed[position]) continue;
    for (std::size_t role = 0; role < kStorageRoleCount; ++role) held[role] += change[position][role];
    profile.clock.push_back(static_cast<std::int32_t>(position));
    profile.bytes.push_back(held);
  }
  return profile;
}

Bytes proven_least_bytes(const RankPlan& plan) {
  return std::max(plan.figures.least_live_bytes, plan.liveness.working_set_bytes);
}

std::vector<Contributor> contributors_at(const Graph& graph, const Liveness& liveness, OpId op) {
  const auto index = static_cast<std::int32_t>(op);
  ContributorTable table(graph);
  for (std::size_t s = 0; s < liveness.ranges.size(); ++s) {
    const LiveRange& range = liveness.ranges[s];
    if (range.begin <= index && index < range.end) table.add(id_of<StorageId>(s), graph.storages[s].bytes);
  }
  return table.list();
}

std::vector<Contributor> contributors_at(const Graph& graph, const Schedule& schedule, std::int32_t clock) {
  ContributorTable table(graph);
  for (const Residency& residency : schedule.residencies) {
    const bool is_held = held_span(residency, schedule.compute_tasks).holds(clock);
    if (is_held && residency.space == MemorySpace::device) table.add(residency.storage, residency.bytes);
  }
  return table.list();
}

}  // namespace tidemark::plan
