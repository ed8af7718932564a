#include "planner/graph_build/site_loads.h"

#include <vector>

namespace tidemark::graph_build {

void set_site_loads(Graph& graph, const std::function<SiteLoad(const Site&)>& load_of) {
  std::vector<char> known(graph.sites.size(), 0);
  for (Storage& storage : graph.storages) {
    const StorageTemplate& shape = graph.storage_templates[row(storage.storage_template)];
    if (shape.routed_rows == 0 || storage.site == kNone<SiteId>) continue;
    Site& site = graph.sites[row(storage.site)];
    if (known[row(storage.site)] == 0) {
      const SiteLoad load = load_of(site);
      site.load = static_cast<float>(load.received);
      site.sent_load = static_cast<float>(load.sent);
    }
    known[row(storage.site)] = 1;
    storage.bytes = storage_bytes(shape, site.loads());
  }
}

}  // namespace tidemark::graph_build
