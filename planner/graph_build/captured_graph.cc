#include "planner/graph_build/captured_graph.h"

#include <algorithm>
#include <utility>

namespace tidemark::graph_build {
namespace {

constexpr SiteId kSite = static_cast<SiteId>(0);

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

bool may_run_again(CapturedGraphBuilder::Recompute kind) {
  using Kind = CapturedGraphBuilder::Recompute;
  return kind == Kind::pure || kind == Kind::random || kind == Kind::collective;
}

void add_storage(Graph& graph, StorageTemplate row, OpId held_until) {
  const Bytes bytes = row.fixed_bytes;
  graph.storages.push_back({.storage_template = id_of<StorageTemplateId>(graph.storage_templates.size()),
                            .site = kSite,
                            .expected_bytes = bytes,
                            .bytes = bytes,
                            .held_until = held_until});
  graph.storage_templates.push_back(std::move(row));
}

}  // namespace

std::int32_t CapturedGraphBuilder::add(StorageRow storage) {
  storages_.push_back(std::move(storage));
  return static_cast<std::int32_t>(storages_.size()) - 1;
}

std::int32_t CapturedGraphBuilder::add(OpRow op) {
  ops_.push_back(std::move(op));
  return static_cast<std::int32_t>(ops_.size()) - 1;
}

std::vector<CapturedGraphBuilder::Writers> CapturedGraphBuilder::count_writers() const {
  std::vector<Writers> writers(storages_.size());
  for (const OpRow& op : ops_) {
    for (const std::int32_t s : op.reads) {
      if (!writers[at(s)].touched) writers[at(s)].read_first = true;
      writers[at(s)].touched = true;
    }
    for (const std::int32_t s : op.writes) {
      ++writers[at(s)].count;
      writers[at(s)].touched = true;
    }
  }
  return writers;
}

void CapturedGraphBuilder::add_storages(Graph& graph, const std::vector<Writers>& writers) {
  for (std::size_t s = 0; s < storages_.size(); ++s) {
    StorageRow& row = storages_[s];
    // What nothing touches counts if something holds it, and is there all the time then.
    const bool held = row.lasting || row.held_until >= 0;
    add_storage(graph,
                {.name = std::move(row.name),
                 .module_path = std::move(row.module),
                 .role = row.role,
                 .fixed_bytes = row.bytes,
                 .swappable = row.swappable,
                 .initial = writers[s].touched ? writers[s].read_first : held,
                 .lasting = row.lasting,
                 .given_copies = row.copies},
                row.held_until < 0 ? kNone<OpId> : static_cast<OpId>(row.held_until));
  }
}

void CapturedGraphBuilder::add_op(Graph& graph, std::size_t op, std::int32_t transient,
                                  const std::vector<Writers>& writers, std::vector<std::int32_t>& versions) {
  OpRow& row = ops_[op];
  const auto id = id_of<OpTemplateId>(op);
  const std::size_t recipes = graph.recipes.size();
  if (may_run_again(row.recompute) && !row.writes.empty() && std::ranges::all_of(row.writes, [&](std::int32_t s) {
        return writers[at(s)].count == 1 && !writers[at(s)].read_first;
      })) {
    Recipe recipe{.name = row.name,
                  .outputs = row.writes,
                  .sources = row.reads,
                  .steps = {{.op = id, .reads = row.reads, .writes = row.writes}},
                  .needs_random_state = row.recompute == Recompute::random,
                  .collective = row.recompute == Recompute::collective};
    if (transient >= 0) {
      recipe.transients = {transient};
      recipe.steps.front().writes.push_back(transient);
    }
    graph.recipes.push_back(std::move(recipe));
  }
  graph.ops.push_back(
      {.op_template = id, .site = kSite, .first_access = static_cast<std::int32_t>(graph.accesses.size())});
  for (const std::int32_t s : row.reads)
    graph.accesses.push_back({.storage = static_cast<StorageId>(s), .version = versions[at(s)]});
  for (const std::int32_t s : row.writes)
    graph.accesses.push_back(
        {.storage = static_cast<StorageId>(s), .version = ++versions[at(s)], .kind = AccessKind::write});
  if (transient >= 0)
    graph.accesses.push_back({.storage = static_cast<StorageId>(transient), .version = 1, .kind = AccessKind::write});
  graph.op_templates.push_back({.name = std::move(row.name),
                                .phase = row.phase,
                                .cost = {.kind = WorkKind::given, .given = static_cast<double>(row.cost)},
                                .collective = graph.recipes.size() > recipes && row.recompute == Recompute::collective,
                                .told = row.told});
}

Graph CapturedGraphBuilder::build() && {
  Graph graph{.given_costs = costs_};
  const std::vector<Writers> writers = count_writers();
  std::vector<std::int32_t> versions(storages_.size(), 0);
  add_storages(graph, writers);
  for (std::size_t v = 0; v < ops_.size(); ++v) {
    std::int32_t transient = -1;
    if (ops_[v].transient_bytes > 0) {
      transient = static_cast<std::int32_t>(graph.storages.size());
      add_storage(graph,
                  {.name = ops_[v].name + ".workspace",
                   .module_path = ops_[v].module,
                   .role = StorageRole::temporary,
                   .fixed_bytes = ops_[v].transient_bytes,
                   .swappable = false},
                  kNone<OpId>);
    }
    add_op(graph, v, transient, writers, versions);
  }
  graph.blocks = {{.name = "step",
                   .first_storage_template = id_of<StorageTemplateId>(0),
                   .storage_count = static_cast<std::int32_t>(graph.storages.size()),
                   .first_recipe = id_of<RecipeId>(0),
                   .recipe_count = static_cast<std::int32_t>(graph.recipes.size())}};
  graph.sites = {{.block = id_of<BlockId>(0), .first_storage = id_of<StorageId>(0)}};
  return graph;
}

}  // namespace tidemark::graph_build
