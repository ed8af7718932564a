#include "integrations/run/load_change.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemark::run {
namespace {

/// Number of the first op of every site; -1: it has none.
std::vector<std::int64_t> first_ops(const Graph& graph) {
  std::vector<std::int64_t> first(graph.sites.size(), -1);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const SiteId site = graph.ops[i].site;
    if (site != kNone<SiteId> && first[row(site)] < 0) first[row(site)] = static_cast<std::int64_t>(i);
  }
  return first;
}

struct LastSite {
  const plan::RankPlan* rank = nullptr;
  SiteId site = kNone<SiteId>;
  std::int64_t op = -1;
};

/// The last site of any rank that has storages whose size follows the load.
LastSite last_routed_site(std::span<const plan::RankPlan> ranks) {
  LastSite last;
  for (const plan::RankPlan& rank : ranks) {
    const std::vector<std::int64_t> first = first_ops(rank.graph);
    for (const RoutedResidency& routed : rank.program.routed)
      if (first[row(routed.site)] > last.op) last = {.rank = &rank, .site = routed.site, .op = first[row(routed.site)]};
  }
  return last;
}

}  // namespace

std::vector<graph_build::BuiltLoad> loads_of(const plan::RankPlan& rank, const LoadChange& change) {
  const std::vector<std::int64_t> first = first_ops(rank.graph);
  std::vector<graph_build::BuiltLoad> loads;
  for (std::size_t s = 0; s < first.size(); ++s) {
    const Site& site = rank.graph.sites[s];
    loads.push_back(
        first[s] >= 0 && first[s] >= change.from_op
            ? graph_build::BuiltLoad{.own = change.load, .fullest = change.load.received}
            : graph_build::BuiltLoad{.own = site.loads(), .fullest = static_cast<double>(site.fullest_load)});
  }
  return loads;
}

Status check_load_change(std::span<const plan::RankPlan> ranks, const LoadChange& change) {
  const LastSite last = last_routed_site(ranks);
  if (last.rank == nullptr)
    return bad_input(
        "--load, --load-rise: nothing in the ranks that run depends on the expert load; none has routed storages");
  if (change.from_op <= last.op) return {};
  const Site& site = last.rank->graph.sites[row(last.site)];
  return bad_input(fmt::format(
      "--load-rise: no expert layer begins at op {} or later, so nothing would rise; the last one begins at "
      "op {} of rank {} (layer {}, micro-batch {}), which has ops 0 to {}",
      change.from_op, last.op, last.rank->figures.rank, site.layer, site.micro_batch, last.rank->graph.ops.size() - 1));
}

}  // namespace tidemark::run
