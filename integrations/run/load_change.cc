#include "integrations/run/load_change.h"

namespace tidemark {

std::vector<double> loads_of(const RankPlan& rank, const LoadChange& change) {
  const Graph& graph = rank.graph;
  std::vector<double> loads;
  for (const Site& site : graph.sites) loads.push_back(static_cast<double>(site.load));
  std::vector<char> met(graph.sites.size(), 0);
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const SiteId site = graph.ops[i].site;
    if (site == kNone<SiteId> || met[row(site)] != 0) continue;
    met[row(site)] = 1;
    if (static_cast<std::int64_t>(i) >= change.from_op) loads[row(site)] = change.load;
  }
  return loads;
}

}  // namespace tidemark
