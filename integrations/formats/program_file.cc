#include "integrations/formats/program_file.h"

#include <algorithm>
#include <array>
#include <limits>

#include "integrations/formats/field_visitors.h"
#include "integrations/formats/graph_columns.h"
#include "integrations/formats/int_column.h"
#include "integrations/formats/program_columns.h"
#include "integrations/formats/program_messages.h"
#include "integrations/formats/program_rules.h"
#include "integrations/formats/shown.h"
#include "planner/graph_build/site_loads.h"
#include "planner/threads/parallel.h"

namespace tidemark::formats {
namespace {

constexpr std::string_view kSchema = "tidemark.plan";
constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

// What a writer needs of one rank, borrowed.
struct RankView {
  const GraphOutline* outline;
  const Decisions* decisions;
  const Program* program;
  const plan::RankFigures* figures;
  const std::vector<plan::PlanAttempt>* attempts;
};

// Everything else of a PlanFile, borrowed.
struct FileView {
  const graph_build::JobSpec& job;
  std::string_view step_name, framework;
  const Graph* graph;
  const Machine& machine;
  std::string_view policy;
  std::optional<Bytes> budget_bytes, host_budget_bytes;
  std::optional<double> load;
  double time_scale;
  const plan::StepFigures& step;
  const graph_build::ParameterCount& parameters;
  std::vector<RankView> ranks;
};

bool same_templates(const GraphOutline& a, const GraphOutline& b) {
  return a.op_templates == b.op_templates && a.storage_templates == b.storage_templates && a.recipes == b.recipes &&
         a.blocks == b.blocks;
}

// Ranks of one kind share their templates: the first of each kind, and which kind each rank is.
struct TemplateSets {
  std::vector<const GraphOutline*> sets;
  std::vector<std::size_t> set_of;
};
TemplateSets fold_templates(const std::vector<RankView>& ranks) {
  TemplateSets result;
  for (const RankView& rank : ranks) {
    const auto found =
        std::ranges::find_if(result.sets, [&](const GraphOutline* s) { return same_templates(*s, *rank.outline); });
    result.set_of.push_back(static_cast<std::size_t>(found - result.sets.begin()));
    if (found == result.sets.end()) result.sets.push_back(rank.outline);
  }
  return result;
}

template <class T>
void optional_member(JsonText& json, std::string_view name, const std::optional<T>& value) {
  json.key(name);
  if (value) {
    json.value(*value);
  } else {
    json.null();
  }
}

// A list with one item a line.
template <class Rows, class Write>
void lines(JsonText& json, std::string_view name, const Rows& rows, Write write) {
  json.line();
  json.key(name);
  json.open_list();
  for (const auto& row_value : rows) {
    json.line();
    write(row_value);
  }
  json.close_list();
}

void write_templates(JsonText& json, const GraphOutline& outline) {
  json.open_object();
  lines(json, "op_templates", outline.op_templates, [&](const GraphOutline::OpName& op) {
    json.open_list();
    json.value(op.name);
    json.value(kLaneWords[static_cast<std::size_t>(op.lane)]);
    json.value(kPhaseWords[static_cast<std::size_t>(op.phase)]);
    json.close_list();
  });
  lines(json, "storage_templates", outline.storage_templates, [&](const GraphOutline::StorageName& storage) {
    json.open_list();
    json.value(storage.module_path);
    json.value(storage.name);
    json.value(kRoleWords[static_cast<std::size_t>(storage.role)]);
    json.close_list();
  });
  lines(json, "recipes", outline.recipes, [&](const std::string& name) { json.value(name); });
  lines(json, "blocks", outline.blocks, [&](const GraphOutline::BlockRange& block) {
    json.open_list();
    json.value(block.name);
    json.value(block.first_storage_template);
    json.value(block.storage_count);
    json.close_list();
  });
  json.close_object();
}

void write_sites(JsonText& json, const GraphOutline& outline) {
  const auto& sites = outline.sites;
  const auto column = [&](std::string_view name, Coding coding, auto get) {
    std::vector<std::int64_t> values;
    for (const Site& site : sites) values.push_back(static_cast<std::int64_t>(get(site)));
    json.line();
    json.key(name);
    append_column(json.raw(), values, coding);
  };
  json.line();
  json.key("sites");
  json.open_object();
  column("block", Coding::plain, [](const Site& s) { return s.block; });
  column("chunk", Coding::plain, [](const Site& s) { return s.chunk; });
  column("layer", Coding::plain, [](const Site& s) { return s.layer; });
  column("micro_batch", Coding::delta, [](const Site& s) { return s.micro_batch; });
  column("first_storage", Coding::delta, [](const Site& s) { return s.first_storage; });
  // Loads are few: the distinct ones in order of appearance, and which one each site has.
  std::vector<std::array<float, 3>> loads;
  column("load_number", Coding::plain, [&](const Site& s) {
    const std::array load{s.load, s.sent_load, s.fullest_load};
    const auto found = std::ranges::find(loads, load);
    const auto number = found - loads.begin();
    if (found == loads.end()) loads.push_back(load);
    return number;
  });
  json.key("loads");
  json.open_list();
  for (const std::array<float, 3>& load : loads) {
    json.open_list();
    for (const float value : load) json.value(static_cast<double>(value));
    json.close_list();
  }
  json.close_list();
  json.close_object();
}

void write_decision(JsonText& json, const Decision& decision) {
  json.open_object();
  json.key("storage_template");
  json.value(static_cast<std::int32_t>(decision.key.storage_template));
  json.key("chunk");
  json.value(decision.key.chunk);
  json.key("layer");
  json.value(decision.key.layer);
  json.key("gap");
  json.value(decision.key.gap);
  json.key("action");
  json.value(kActionWords[static_cast<std::size_t>(decision.action)]);
  json.key("recipe");
  json.value(static_cast<std::int32_t>(decision.recipe));
  if (!decision.exceptions.empty()) {
    json.key("exceptions");
    json.open_list();
    for (const Decision::Exception& exception : decision.exceptions) {
      json.open_list();
      json.value(exception.micro_batch);
      json.value(kActionWords[static_cast<std::size_t>(exception.action)]);
      json.close_list();
    }
    json.close_list();
  }
  json.close_object();
}

std::string rank_text(const RankView& rank, std::size_t template_set) {
  std::string text;
  JsonText json(text);
  json.open_object();
  json.key("figures");
  write_object(json, *rank.figures);
  lines(json, "attempts", *rank.attempts, [&](const plan::PlanAttempt& attempt) { write_object(json, attempt); });
  lines(json, "decisions", rank.decisions->rows, [&](const Decision& decision) { write_decision(json, decision); });
  json.line();
  json.key("templates");
  json.value(template_set);
  json.key("storages");
  json.value(rank.outline->storage_count);
  write_sites(json, *rank.outline);
  json.line();
  json.key("program");
  write_program(json, *rank.program);
  json.close_object();
  return text;
}

void write_head(JsonText& json, const FileView& file) {
  json.key("schema");
  json.value(kSchema);
  json.key("schema_version");
  json.value(kPlanSchemaVersion);
  json.line();
  json.key("times");
  json.value("modelled");
  json.key("policy");
  json.value(file.policy);
  optional_member(json, "budget_bytes", file.budget_bytes);
  optional_member(json, "host_budget_bytes", file.host_budget_bytes);
  optional_member(json, "load", file.load);
  json.key("time_scale");
  json.value(file.time_scale);
  const auto member = [&](std::string_view name, const auto& value) {
    json.line();
    json.key(name);
    write_object(json, value);
  };
  if (file.graph == nullptr) {
    member("job", file.job);
  } else {
    json.line();
    json.key("step_name");
    json.value(file.step_name);
    if (!file.framework.empty()) {
      json.line();
      json.key("framework");
      json.value(file.framework);
    }
    json.line();
    json.key("graph");
    write_graph(json, *file.graph);
  }
  member("machine", file.machine);
  member("step", file.step);
  member("parameters", file.parameters);
}

std::string write_view(const FileView& file) {
  const TemplateSets templates = fold_templates(file.ranks);
  std::vector<std::string> ranks(file.ranks.size());
  threads::parallel_for_each(0, ranks.size(),
                             [&](std::size_t r) { ranks[r] = rank_text(file.ranks[r], templates.set_of[r]); });
  std::string text;
  std::size_t bytes = 1 << 20;
  for (const std::string& rank : ranks) bytes += rank.size();
  text.reserve(bytes);
  JsonText json(text);
  json.open_object();
  write_head(json, file);
  lines(json, "templates", templates.sets, [&](const GraphOutline* outline) { write_templates(json, *outline); });
  lines(json, "ranks", ranks, [&](const std::string& rank) { json.raw() += rank; });
  json.line();
  json.close_object();
  text += '\n';
  return text;
}

template <class T, class Read>
std::vector<T> read_list(const JsonNode& list, Read read) {
  std::vector<T> rows(list.size());
  for (std::size_t i = 0; i < rows.size() && list.clean(); ++i) rows[i] = read(list.item(i));
  return rows;
}

std::int32_t whole(const JsonNode& node, std::int64_t least, std::int64_t most) {
  return static_cast<std::int32_t>(node.integer(least, most));
}

GraphOutline read_templates(const JsonNode& node) {
  GraphOutline outline;
  outline.op_templates = read_list<GraphOutline::OpName>(node.at("op_templates"), [](const JsonNode& op) {
    return GraphOutline::OpName{.name = op.item(0).text(),
                                .lane = static_cast<Lane>(op.item(1).word(kLaneWords)),
                                .phase = static_cast<OpPhase>(op.item(2).word(kPhaseWords))};
  });
  outline.storage_templates = read_list<GraphOutline::StorageName>(node.at("storage_templates"), [](const JsonNode& s) {
    return GraphOutline::StorageName{.name = s.item(1).text(),
                                     .module_path = s.item(0).text(),
                                     .role = static_cast<StorageRole>(s.item(2).word(kRoleWords))};
  });
  outline.recipes = read_list<std::string>(node.at("recipes"), [](const JsonNode& name) { return name.text(); });
  const auto storages = static_cast<std::int64_t>(outline.storage_templates.size());
  outline.blocks = read_list<GraphOutline::BlockRange>(node.at("blocks"), [&](const JsonNode& block) {
    const std::int32_t first = whole(block.item(1), 0, storages);
    return GraphOutline::BlockRange{.name = block.item(0).text(),
                                    .first_storage_template = first,
                                    .storage_count = whole(block.item(2), 0, storages - first)};
  });
  return outline;
}

// Sites must own storages 0 .. storage_count in order, so that every storage has one site and one template.
void check_sites(const JsonNode& node, const GraphOutline& outline) {
  std::int64_t next_storage = 0;
  for (std::size_t s = 0; s < outline.sites.size() && node.clean(); ++s) {
    const Site& site = outline.sites[s];
    if (static_cast<std::int32_t>(site.first_storage) != next_storage) {
      node.at("first_storage").wrong(fmt::format("row {} must be {}", s, next_storage));
    }
    next_storage += outline.blocks[row(site.block)].storage_count;
  }
  if (next_storage != outline.storage_count) {
    node.wrong(fmt::format("own {} storages where the rank has {}", next_storage, outline.storage_count));
  }
}

void read_sites(const JsonNode& node, GraphOutline& outline) {
  const auto blocks = static_cast<std::int64_t>(outline.blocks.size());
  const auto block = node.at("block").column(JsonNode::kAnyCount, 0, blocks - 1);
  const std::size_t count = block.size();
  const auto chunk = node.at("chunk").column(count, 0, kMost);
  const auto layer = node.at("layer").column(count, -1, kMost);
  const auto micro_batch = node.at("micro_batch").column(count, -1, kMost);
  const auto first_storage = node.at("first_storage").column(count, 0, kMost);
  const auto loads = read_list<graph_build::BuiltLoad>(node.at("loads"), [](const JsonNode& load) {
    const auto at = [&load](std::size_t i) { return load.item(i).number(real_range_of("load")); };
    // Two of a job whose load does not vary, from before times had a load of their own: the same for both.
    return graph_build::BuiltLoad{.own = {at(0), at(1)}, .fullest = at(load.size() > 2 ? 2 : 0)};
  });
  const auto load = node.at("load_number").column(count, 0, static_cast<std::int64_t>(loads.size()) - 1);
  if (!node.clean()) return;
  for (std::size_t s = 0; s < count; ++s) {
    outline.sites.push_back({.block = static_cast<BlockId>(static_cast<std::int32_t>(block[s])),
                             .chunk = static_cast<std::int32_t>(chunk[s]),
                             .layer = static_cast<std::int32_t>(layer[s]),
                             .micro_batch = static_cast<std::int32_t>(micro_batch[s]),
                             .first_storage = static_cast<StorageId>(static_cast<std::int32_t>(first_storage[s]))});
    graph_build::set_load(outline.sites.back(), loads[static_cast<std::size_t>(load[s])]);
  }
  check_sites(node, outline);
}

Decision read_decision(const JsonNode& node, const GraphOutline& outline) {
  Decision decision;
  const auto storages = static_cast<std::int64_t>(outline.storage_templates.size());
  decision.key.storage_template = static_cast<StorageTemplateId>(whole(node.at("storage_template"), 0, storages - 1));
  decision.key.chunk = whole(node.at("chunk"), 0, kMost);
  decision.key.layer = whole(node.at("layer"), -1, kMost);
  decision.key.gap = whole(node.at("gap"), -1, kMost);
  decision.action = static_cast<Action>(node.at("action").word(kActionWords));
  const auto recipes = static_cast<std::int64_t>(outline.recipes.size());
  decision.recipe = static_cast<RecipeId>(whole(node.at("recipe"), -1, recipes - 1));
  if (!node.has("exceptions")) return decision;
  decision.exceptions = read_list<Decision::Exception>(node.at("exceptions"), [](const JsonNode& exception) {
    return Decision::Exception{.micro_batch = whole(exception.item(0), 0, kMost),
                               .action = static_cast<Action>(exception.item(1).word(kActionWords))};
  });
  return decision;
}

// Lookup in a Plan is by binary search: keys must ascend.
void check_ascending(const JsonNode& node, const Decisions& decisions) {
  const auto& rows = decisions.rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i > 0 && rows[i].key < rows[i - 1].key) node.item(i).wrong("must not come before the one above it");
    const auto& list = rows[i].exceptions;
    const auto falls =
        std::ranges::adjacent_find(list, [](const auto& a, const auto& b) { return a.micro_batch >= b.micro_batch; });
    if (falls != list.end()) node.item(i).wrong("its exceptions must ascend by micro-batch");
  }
}

PlanFile::Rank read_rank(const JsonNode& node, const std::vector<GraphOutline>& templates) {
  PlanFile::Rank rank;
  const std::int64_t last_set = static_cast<std::int64_t>(templates.size()) - 1;
  const auto set = static_cast<std::size_t>(node.at("templates").integer(0, last_set));
  if (!node.clean()) return rank;
  rank.outline = templates[set];
  rank.outline.storage_count = whole(node.at("storages"), 0, kMost);
  read_sites(node.at("sites"), rank.outline);
  read_object(node.at("figures"), rank.figures);
  rank.attempts = read_list<plan::PlanAttempt>(node.at("attempts"), [](const JsonNode& attempt) {
    plan::PlanAttempt value;
    read_object(attempt, value);
    return value;
  });
  const JsonNode decisions = node.at("decisions");
  rank.decisions.rows =
      read_list<Decision>(decisions, [&](const JsonNode& decision) { return read_decision(decision, rank.outline); });
  if (!node.clean()) return rank;
  check_ascending(decisions, rank.decisions);
  rank.program = read_program(node.at("program"), rank.outline);
  return rank;
}

template <class T>
std::optional<T> optional_of(const JsonNode& node, std::string_view key, T (*read)(const JsonNode&)) {
  const JsonNode value = node.at(key);
  if (value.is_null()) return {};
  return read(value);
}

/// Rows that the columns below a value say they unfold to, at most `most` + 1. Columns lie few levels deep.
std::uint64_t rows_in(const nlohmann::json& value, std::uint64_t most, int levels = 6) {
  if (levels == 0 || !value.is_structured()) return 0;
  const auto count = value.is_object() ? value.find("count") : value.end();
  std::uint64_t rows = 0;
  if (count != value.end() && count->is_number_unsigned()) rows = std::min(count->get<std::uint64_t>(), most + 1);
  for (const nlohmann::json& item : value) {
    if (rows > most) return most + 1;
    rows += rows_in(item, most, levels - 1);
  }
  return std::min(rows, most + 1);
}

/// A few bytes may repeat a row for ever. Plans of 1024 micro-batches, which repeat the most, unfold to 11 rows a byte.
void check_rows(const JsonNode& root, std::size_t file_bytes) {
  constexpr std::uint64_t kRowsOfAny = std::uint64_t{1} << 20, kRowsOfByte = 64;
  const std::uint64_t most = kRowsOfAny + kRowsOfByte * file_bytes;
  for (const char* member : {"ranks", "graph"}) {
    if (!root.has(member)) continue;
    const JsonNode node = root.at(member);
    if (rows_in(node.json(), most) > most)
      node.wrong(fmt::format("its columns have more than {} rows, which is {} and {} for each byte of the file", most,
                             kRowsOfAny, kRowsOfByte));
  }
}

/// A captured step has one rank, whose outline has the names of its graph.
void read_step(const JsonNode& root, PlanFile& file) {
  file.step_name = root.at("step_name").text();
  if (root.has("framework")) file.framework = root.at("framework").text();
  if (file.ranks.size() != 1) {
    root.at("ranks").wrong(fmt::format("has {} ranks; a plan with a graph has one", file.ranks.size()));
    return;
  }
  file.graph = std::make_shared<const Graph>(read_graph(root.at("graph"), file.ranks.front().outline));
}

PlanFile read_root(const JsonNode& root, std::size_t file_bytes) {
  PlanFile file;
  if (root.at("schema").text() != kSchema) root.at("schema").wrong("must be 'tidemark.plan'");
  const std::int64_t version = root.at("schema_version").integer(1);
  if (version != kPlanSchemaVersion) {
    root.at("schema_version")
        .wrong(fmt::format("is {}; this version of Tidemark reads only {}: plan again", version, kPlanSchemaVersion));
  }
  if (root.clean()) check_rows(root, file_bytes);
  if (!root.clean()) return file;
  file.policy = root.at("policy").text();
  const auto bytes = [](const JsonNode& n) -> Bytes { return n.integer(0, kMostPlanBytes); };
  file.budget_bytes = optional_of<Bytes>(root, "budget_bytes", bytes);
  file.host_budget_bytes = optional_of<Bytes>(root, "host_budget_bytes", bytes);
  file.load = optional_of<double>(root, "load", [](const JsonNode& n) { return n.number(real_range_of("load")); });
  file.time_scale = root.at("time_scale").number(real_range_of("time_scale"));
  if (!root.has("graph")) read_object(root.at("job"), file.job);
  read_object(root.at("machine"), file.machine);
  read_object(root.at("step"), file.step);
  read_object(root.at("parameters"), file.parameters);
  const auto templates = read_list<GraphOutline>(root.at("templates"), read_templates);
  file.ranks = read_list<PlanFile::Rank>(root.at("ranks"), [&](const JsonNode& n) { return read_rank(n, templates); });
  if (root.clean() && root.has("graph")) read_step(root, file);
  return file;
}

}  // namespace

const Site& GraphOutline::site_of(StorageId storage) const {
  const auto after = std::ranges::upper_bound(sites, storage, {}, &Site::first_storage);
  return *(after - 1);
}

const GraphOutline::StorageName& GraphOutline::template_of(StorageId storage) const {
  const Site& site = site_of(storage);
  const std::size_t local = row(storage) - row(site.first_storage);
  return storage_templates[static_cast<std::size_t>(blocks[row(site.block)].first_storage_template) + local];
}

GraphOutline outline_of(const Graph& graph) {
  GraphOutline outline;
  for (const OpTemplate& t : graph.op_templates) outline.op_templates.push_back({t.name, t.lane, t.phase});
  for (const StorageTemplate& t : graph.storage_templates) {
    outline.storage_templates.push_back({t.name, t.module_path, t.role});
  }
  for (const Recipe& recipe : graph.recipes) outline.recipes.push_back(recipe.name);
  for (const Block& block : graph.blocks) {
    outline.blocks.push_back(
        {block.name, static_cast<std::int32_t>(block.first_storage_template), block.storage_count});
  }
  outline.sites = graph.sites;
  outline.storage_count = static_cast<std::int32_t>(graph.storages.size());
  return outline;
}

std::string write_plan_file(const PlanFile& file) {
  FileView view{.job = file.job,
                .step_name = file.step_name,
                .framework = file.framework,
                .graph = file.graph.get(),
                .machine = file.machine,
                .policy = file.policy,
                .budget_bytes = file.budget_bytes,
                .host_budget_bytes = file.host_budget_bytes,
                .load = file.load,
                .time_scale = file.time_scale,
                .step = file.step,
                .parameters = file.parameters,
                .ranks = {}};
  for (const PlanFile::Rank& rank : file.ranks) {
    view.ranks.push_back({&rank.outline, &rank.decisions, &rank.program, &rank.figures, &rank.attempts});
  }
  return write_view(view);
}

std::string write_plan_file(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  std::vector<GraphOutline> outlines;
  outlines.reserve(outcome.ranks.size());
  for (const plan::RankPlan& rank : outcome.ranks) outlines.push_back(outline_of(rank.graph));
  FileView view{.job = request.job,
                .step_name = request.step ? std::string_view(request.step->name) : std::string_view(),
                .framework = request.step ? std::string_view(request.step->framework) : std::string_view(),
                .graph = request.step ? request.step->graph.get() : nullptr,
                .machine = request.machine,
                .policy = request.policy != nullptr ? request.policy->name : std::string_view{},
                .budget_bytes = request.budget_bytes,
                .host_budget_bytes = request.host_budget_bytes,
                .load = request.load,
                .time_scale = request.time_scale,
                .step = outcome.step,
                .parameters = outcome.parameters,
                .ranks = {}};
  for (std::size_t r = 0; r < outcome.ranks.size(); ++r) {
    const plan::RankPlan& rank = outcome.ranks[r];
    view.ranks.push_back({&outlines[r], &rank.decisions, &rank.program, &rank.figures, &rank.attempts});
  }
  return write_view(view);
}

Result<PlanFile> read_plan_file(std::string_view text, std::string_view file_name) {
  const Result<nlohmann::json> document = parse_json(text, file_name, "the plan");
  if (!document) return document.error();
  JsonNode::Mistake mistake;
  const JsonNode root(document.value(), mistake);
  PlanFile file = read_root(root, text.size());
  check_rules(root, file);
  if (mistake.empty()) check_messages(root, file);
  if (mistake.empty()) check_figures(root, file);
  if (!mistake.empty()) return bad_input(fmt::format("{}: {}", file_name, mistake));
  return file;
}

}  // namespace tidemark::formats
