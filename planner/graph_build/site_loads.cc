#include "planner/graph_build/site_loads.h"

#include <algorithm>
#include <vector>

#include "planner/graph_build/load_model.h"
#include "planner/graph_build/load_shape.h"

namespace tidemark::graph_build {

BuiltLoad built_load(const JobSpec& job, const Machine& machine, double load) {
  const Result<LoadShape> shape = load_shape(job, machine);
  if (!shape) return {};  // no experts: no site has a load
  const LoadShape& of = shape.value();
  load = of.fixed_load(load).value_or(load);
  BuiltLoad built{.own = of.with(load), .fullest = load};
  if (of.pads || job.expert_load.coefficient_of_variation <= 0) return built;
  const LoadModel model = load_model(job.expert_load);
  built.fullest = of.capacity > 0 ? mean_fullest_load(model, of.devices, of.most_load())
                                  : std::min(mean_fullest_load(model, of.devices), of.most_load());
  return built;
}

void set_load(Site& site, const BuiltLoad& load) {
  site.load = static_cast<float>(load.own.received);
  site.sent_load = static_cast<float>(load.own.sent);
  site.fullest_load = static_cast<float>(load.fullest);
}

void set_site_loads(Graph& graph, const std::function<BuiltLoad(const Site&)>& load_of) {
  std::vector<char> known(graph.sites.size(), 0);
  for (Storage& storage : graph.storages) {
    const StorageTemplate& shape = graph.storage_templates[row(storage.storage_template)];
    if (shape.routed_rows == 0 || storage.site == kNone<SiteId>) continue;
    Site& site = graph.sites[row(storage.site)];
    if (known[row(storage.site)] == 0) set_load(site, load_of(site));
    known[row(storage.site)] = 1;
    storage.bytes = storage_bytes(shape, site.loads());
  }
}

}  // namespace tidemark::graph_build
