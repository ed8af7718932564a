#include "integrations/formats/graph_columns.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "integrations/formats/field_ranges.h"
#include "integrations/formats/int_column.h"

namespace tidemark::formats {
namespace {

constexpr std::array<std::string_view, 3> kUnitWords = {"ns", "joule", "one"};
constexpr std::int64_t kMostQuanta = std::int64_t{1} << 50;  // of an op or a copy, as of a task

using Values = std::vector<std::int64_t>;

/// What a storage says in small numbers, as bits of one.
constexpr std::int64_t kSwappable = 1, kInitial = 2, kLasting = 4, kCopies = 8, kAllStorageBits = 15;
constexpr std::int64_t kRandom = 1, kCollective = 2, kAllRecipeBits = 3;

template <class Rows, class Get>
void column(JsonText& json, std::string_view name, const Rows& rows, Get get, Coding coding = Coding::plain) {
  Values values;
  values.reserve(rows.size());
  for (const auto& one : rows) values.push_back(static_cast<std::int64_t>(get(one)));
  json.line();
  json.key(name);
  append_column(json.raw(), values, coding);
}

std::int64_t bits_of(const StorageTemplate& s) {
  return (s.swappable ? kSwappable : 0) | (s.initial ? kInitial : 0) | (s.lasting ? kLasting : 0) |
         (s.given_copies ? kCopies : 0);
}

void write_copies(JsonText& json, const Graph& graph) {
  std::vector<GivenCopies> copies;
  for (const StorageTemplate& s : graph.storage_templates)
    if (s.given_copies) copies.push_back(*s.given_copies);
  json.line();
  json.key("copies");
  json.open_object();
  column(json, "out_link", copies, [](const GivenCopies& c) { return c.out.link; });
  column(json, "out_compute", copies, [](const GivenCopies& c) { return c.out.compute; });
  column(json, "in_link", copies, [](const GivenCopies& c) { return c.in.link; });
  column(json, "in_compute", copies, [](const GivenCopies& c) { return c.in.compute; });
  json.close_object();
}

/// Accesses of each op, transients included.
Values access_counts(const Graph& graph) {
  Values counts;
  for (std::size_t op = 0; op < graph.ops.size(); ++op)
    counts.push_back(static_cast<std::int64_t>(graph.accesses_of(id_of<OpId>(op)).size()));
  return counts;
}

Values untold_ops(const Graph& graph) {
  Values untold;
  for (std::size_t op = 0; op < graph.op_templates.size(); ++op)
    if (!graph.op_templates[op].told) untold.push_back(static_cast<std::int64_t>(op));
  return untold;
}

/// Storages from the first transient of a recipe on: all of them are transients.
std::int64_t count_transients(const Graph& graph) {
  auto first = static_cast<std::int64_t>(graph.storages.size());
  for (const Recipe& recipe : graph.recipes)
    for (const std::int32_t local : recipe.transients) first = std::min<std::int64_t>(first, local);
  return static_cast<std::int64_t>(graph.storages.size()) - first;
}

class GraphReader {
 public:
  GraphReader(const JsonNode& node, const GraphOutline& outline) : node_(node), outline_(outline) {}

  Graph read() {
    if (outline_.blocks.size() != 1 || outline_.sites.size() != 1)
      node_.wrong("stands with a step of one block and one site");
    graph_.given_costs.unit = static_cast<GivenCosts::Unit>(node_.at("cost_unit").word(kUnitWords));
    graph_.given_costs.quantum = node_.at("cost_quantum").number({.least = 1e-300, .most = 1e300});
    if (node_.clean()) read_storages();
    if (node_.clean()) read_ops();
    if (node_.clean()) read_recipes();
    if (!node_.clean()) return {};
    graph_.blocks = {{.name = outline_.blocks.front().name,
                      .first_storage_template = id_of<StorageTemplateId>(0),
                      .storage_count = static_cast<std::int32_t>(graph_.storages.size()),
                      .first_recipe = id_of<RecipeId>(0),
                      .recipe_count = static_cast<std::int32_t>(graph_.recipes.size())}};
    graph_.sites = outline_.sites;
    return std::move(graph_);
  }

 private:
  void read_storages() {
    const std::size_t count = outline_.storage_templates.size();
    const auto ops = static_cast<std::int64_t>(outline_.op_templates.size());
    const Values bytes = node_.at("bytes").column(count, 0, kMostPlanBytes);
    const Values bits = node_.at("storage_bits").column(count, 0, kAllStorageBits);
    const Values held = node_.at("held_until").column(count, -1, ops - 1);
    if (!node_.clean()) return;
    const JsonNode copies = node_.at("copies");
    const auto with_copies =
        static_cast<std::size_t>(std::ranges::count_if(bits, [](std::int64_t b) { return (b & kCopies) != 0; }));
    const auto cost = [&](std::string_view name) { return copies.at(name).column(with_copies, 0, kMostQuanta); };
    const Values out_link = cost("out_link"), out_compute = cost("out_compute"), in_link = cost("in_link"),
                 in_compute = cost("in_compute");
    if (!node_.clean()) return;
    std::size_t next = 0;
    for (std::size_t s = 0; s < count; ++s) {
      const GraphOutline::StorageName& name = outline_.storage_templates[s];
      StorageTemplate of{.name = name.name,
                         .module_path = name.module_path,
                         .role = name.role,
                         .fixed_bytes = bytes[s],
                         .swappable = (bits[s] & kSwappable) != 0,
                         .initial = (bits[s] & kInitial) != 0,
                         .lasting = (bits[s] & kLasting) != 0};
      if ((bits[s] & kCopies) != 0) {
        of.given_copies = GivenCopies{.out = {.link = out_link[next], .compute = out_compute[next]},
                                      .in = {.link = in_link[next], .compute = in_compute[next]}};
        ++next;
      }
      graph_.storage_templates.push_back(std::move(of));
      graph_.storages.push_back({.storage_template = id_of<StorageTemplateId>(s),
                                 .site = id_of<SiteId>(0),
                                 .expected_bytes = bytes[s],
                                 .bytes = bytes[s],
                                 .held_until = static_cast<OpId>(static_cast<std::int32_t>(held[s]))});
    }
  }

  void read_ops() {
    const std::size_t count = outline_.op_templates.size();
    const auto storages = static_cast<std::int64_t>(graph_.storages.size());
    const Values cost = node_.at("cost").column(count, 0, kMostQuanta);
    const Values accesses = node_.at("accesses").column(count, 0, 2 * storages);
    if (!node_.clean()) return;
    std::size_t total = 0;
    for (const std::int64_t n : accesses) total += static_cast<std::size_t>(n);
    const Values storage = node_.at("access_storage").column(total, 0, storages - 1);
    const Values kind = node_.at("access_kind").column(total, 0, 1);
    const Values untold = node_.has("untold")
                              ? node_.at("untold").column(JsonNode::kAnyCount, 0, static_cast<std::int64_t>(count) - 1)
                              : Values{};
    if (!node_.clean()) return;
    std::vector<std::int32_t> version(graph_.storages.size(), 0);
    std::size_t next = 0;
    for (std::size_t v = 0; v < count; ++v) {
      const GraphOutline::OpName& name = outline_.op_templates[v];
      graph_.op_templates.push_back({.name = name.name,
                                     .lane = name.lane,
                                     .phase = name.phase,
                                     .cost = {.kind = WorkKind::given, .given = static_cast<double>(cost[v])}});
      graph_.ops.push_back({.op_template = id_of<OpTemplateId>(v),
                            .site = id_of<SiteId>(0),
                            .first_access = static_cast<std::int32_t>(next)});
      for (const std::size_t end = next + static_cast<std::size_t>(accesses[v]); next < end; ++next) {
        const auto s = static_cast<std::size_t>(storage[next]);
        const bool writes = kind[next] != 0;
        if (writes) ++version[s];
        graph_.accesses.push_back({.storage = id_of<StorageId>(s),
                                   .version = version[s],
                                   .kind = writes ? AccessKind::write : AccessKind::read});
      }
    }
    for (const std::int64_t op : untold) graph_.op_templates[static_cast<std::size_t>(op)].told = false;
  }

  void read_recipes() {
    const std::size_t count = outline_.recipes.size();
    const auto ops = static_cast<std::int64_t>(graph_.ops.size());
    const Values op = node_.at("recipe_op").column(count, 0, ops - 1);
    const Values bits = node_.at("recipe_bits").column(count, 0, kAllRecipeBits);
    const auto transients = node_.at("transients").integer(0, static_cast<std::int64_t>(graph_.storages.size()));
    if (!node_.clean()) return;
    const auto first = static_cast<std::int64_t>(graph_.storages.size()) - transients;
    for (std::size_t r = 0; r < count; ++r) {
      const auto id = id_of<OpTemplateId>(static_cast<std::size_t>(op[r]));
      Recipe recipe{.name = outline_.recipes[r],
                    .needs_random_state = (bits[r] & kRandom) != 0,
                    .collective = (bits[r] & kCollective) != 0};
      Recipe::Step step{.op = id};
      for (const Access& access : graph_.accesses_of(static_cast<OpId>(static_cast<std::int32_t>(op[r])))) {
        const auto local = static_cast<std::int32_t>(access.storage);
        const bool writes = access.kind == AccessKind::write;
        (writes ? step.writes : step.reads).push_back(local);
        (!writes ? recipe.sources : local < first ? recipe.outputs : recipe.transients).push_back(local);
      }
      graph_.op_templates[row(id)].collective = recipe.collective;
      recipe.steps = {std::move(step)};
      graph_.recipes.push_back(std::move(recipe));
    }
  }

  const JsonNode& node_;
  const GraphOutline& outline_;
  Graph graph_;
};

}  // namespace

void write_graph(JsonText& json, const Graph& graph) {
  json.open_object();
  json.key("cost_unit");
  json.value(kUnitWords[static_cast<std::size_t>(graph.given_costs.unit)]);
  json.key("cost_quantum");
  json.value(graph.given_costs.quantum);
  column(json, "bytes", graph.storages, [](const Storage& s) { return s.bytes; });
  column(json, "storage_bits", graph.storage_templates, bits_of);
  column(json, "held_until", graph.storages, [](const Storage& s) { return s.held_until; });
  write_copies(json, graph);
  column(json, "cost", graph.op_templates, [](const OpTemplate& t) { return t.cost.given; });
  column(json, "accesses", access_counts(graph), [](std::int64_t n) { return n; });
  column(
      json, "access_storage", graph.accesses, [](const Access& a) { return a.storage; }, Coding::recall);
  column(json, "access_kind", graph.accesses, [](const Access& a) { return a.kind; });
  if (const Values untold = untold_ops(graph); !untold.empty())
    column(
        json, "untold", untold, [](std::int64_t op) { return op; }, Coding::delta);
  column(
      json, "recipe_op", graph.recipes, [](const Recipe& r) { return r.steps.front().op; }, Coding::delta);
  column(json, "recipe_bits", graph.recipes,
         [](const Recipe& r) { return (r.needs_random_state ? kRandom : 0) | (r.collective ? kCollective : 0); });
  json.key("transients");
  json.value(count_transients(graph));
  json.close_object();
}

Graph read_graph(const JsonNode& node, const GraphOutline& outline) {
  return GraphReader(node, outline).read();
}

}  // namespace tidemark::formats
