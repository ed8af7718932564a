#include "integrations/formats/time_truth_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "integrations/formats/json_node.h"
#include "planner/step_time/row_run.h"
#include "planner/step_time/tracks.h"

namespace tidemark::formats {
namespace {

using step_time::LayoutWords;
using step_time::ModelWords;
using step_time::OverlapWords;
using step_time::RecomputeWords;
using step_time::RowWords;
using step_time::TimedMla;
using step_time::TimeRow;

constexpr std::size_t kMostRows = 50'000;
// Products of what is multiplied as whole numbers stay below 2^63: degrees with each other, batches with devices.
constexpr std::int64_t kMostDegree = 1 << 20;
constexpr std::int64_t kMostDevices = 1 << 24;
constexpr std::int64_t kMostLayers = 100'000;
constexpr std::int64_t kMostWidth = 1 << 24;
constexpr std::int64_t kMostCount = 1 << 30;  ///< of tokens, rows of a batch, words of a vocabulary
constexpr std::size_t kMostModules = 64;      ///< of a list of names
constexpr RealRange kSeconds = {.least = 0, .most = 1e7};
constexpr double kLeastSeconds = 1e-9;  ///< of a step that was measured
constexpr RealRange kTeraflops = {.least = 0, .most = 1e6};
constexpr double kTera = 1e12;

bool is_given(const JsonNode& node, std::string_view key) {
  return node.has(key) && !node.at(key).is_null();
}

std::int64_t count(const JsonNode& node, std::string_view key, std::int64_t most, std::int64_t least = 0) {
  return is_given(node, key) ? node.at(key).integer(least, most) : 0;
}

std::string text(const JsonNode& node, std::string_view key) {
  return is_given(node, key) ? node.at(key).text() : "";
}

std::optional<bool> truth(const JsonNode& node, std::string_view key) {
  return is_given(node, key) ? std::optional(node.at(key).boolean()) : std::nullopt;
}

bool is_true(const JsonNode& node, std::string_view key) {
  return truth(node, key).value_or(false);
}

/// 0 stands for what was not measured.
std::optional<double> figure(const JsonNode& node, std::string_view key, const RealRange& range, double unit) {
  if (!is_given(node, key)) return std::nullopt;
  const double value = node.at(key).number(range);
  return value > 0 ? std::optional(value * unit) : std::nullopt;
}

/// What `read` makes of a member that is an object; nothing stated where it is not there.
template <class Words>
Words part(const JsonNode& row, std::string_view key, Words (*read)(const JsonNode&)) {
  if (!is_given(row, key)) return {};
  const JsonNode node = row.at(key);
  if (node.json().is_object()) return read(node);
  node.wrong("must be an object");
  return {};
}

TimedMla read_mla(const JsonNode& node) {
  return {.q_lora = count(node, "q_lora", kMostWidth),
          .kv_lora = count(node, "kv_lora", kMostWidth),
          .qk_nope = count(node, "qk_nope", kMostWidth),
          .qk_rope = count(node, "qk_rope", kMostWidth),
          .v = count(node, "v", kMostWidth)};
}

ModelWords read_model(const JsonNode& node) {
  ModelWords model;
  model.name = text(node, "name");
  model.layers = count(node, "layers", kMostLayers);
  model.hidden = count(node, "hidden", kMostWidth);
  model.ffn = count(node, "ffn", kMostWidth);
  model.heads = count(node, "heads", kMostDegree);
  model.kv_heads = count(node, "kv_heads", kMostDegree);
  model.head_dim = count(node, "head_dim", kMostWidth);
  model.vocabulary = count(node, "vocab", kMostCount);
  model.is_gated = is_true(node, "gated");
  model.is_tied = is_true(node, "tied");
  model.window = count(node, "window", kMostCount);
  model.window_every = count(node, "window_every", kMostLayers);
  model.experts = count(node, "experts", kMostDegree);
  model.top_k = count(node, "topk", kMostDegree);
  model.expert_ffn = count(node, "expert_ffn", kMostWidth);
  model.shared_ffn = count(node, "shared_ffn", kMostWidth);
  model.dense_layers = count(node, "dense_layers", kMostLayers, -1);
  model.moe_every = count(node, "moe_every", kMostLayers, -1);
  model.mtp_layers = count(node, "mtp_layers", kMostLayers);
  if (is_given(node, "mla")) model.mla = part(node, "mla", read_mla);
  return model;
}

/// Ranks of a span, -1 for all of them, or whether the state is sharded at all.
void read_zero1(const JsonNode& node, LayoutWords& layout) {
  if (!is_given(node, "zero1")) return;
  const JsonNode zero = node.at("zero1");
  if (zero.json().is_boolean())
    layout.shards_optimizer = zero.boolean();
  else
    layout.optimizer_span = std::max<std::int64_t>(zero.integer(-1, kMostDegree), 0);
}

LayoutWords read_layout(const JsonNode& node) {
  LayoutWords layout;
  layout.tensor = count(node, "tp", kMostDegree);
  layout.pipeline = count(node, "pp", kMostDegree);
  layout.virtual_pipeline = count(node, "vpp", kMostLayers);
  layout.context = count(node, "cp", kMostDegree);
  layout.expert = count(node, "ep", kMostDegree);
  layout.expert_tensor = count(node, "etp", kMostDegree);
  layout.sharded = count(node, "fsdp", kMostDegree);
  read_zero1(node, layout);
  layout.is_sequence_parallel = truth(node, "sp");
  layout.sharding = text(node, "sharding");
  layout.schedule = text(node, "schedule");
  layout.task = text(node, "task");
  return layout;
}

std::vector<std::string> names(const JsonNode& list) {
  std::vector<std::string> names;
  if (list.size() > kMostModules) list.wrong(fmt::format("holds more than {} names; give fewer", kMostModules));
  for (std::size_t i = 0; i < list.size() && list.clean(); ++i) names.push_back(list.item(i).text());
  return names;
}

/// "[core_attn, mlp]", as a YAML file that was not parsed says it.
std::vector<std::string> names_in(const JsonNode& node) {
  const std::string list = node.text();
  std::vector<std::string> names;
  std::string name;
  for (const char c : list + ",") {
    if (c == '[' || c == ']' || c == ' ' || c == '\'' || c == '"') continue;
    if (c != ',') name += c;
    if (c == ',' && !name.empty()) names.push_back(std::exchange(name, ""));
  }
  if (names.size() > kMostModules) node.wrong(fmt::format("holds more than {} names; give fewer", kMostModules));
  return names;
}

/// Also as a text, as a launch script has it.
std::int64_t layers_recomputed(const JsonNode& node) {
  if (!node.json().is_string()) return node.integer(0, kMostLayers);
  const std::string digits = node.text();
  std::int64_t layers = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layers);
  const bool is_whole = error == std::errc{} && end == digits.data() + digits.size();
  if (is_whole && layers >= 0 && layers <= kMostLayers) return layers;
  node.wrong("must be " + whole_range_text(0, kMostLayers));
  return 0;
}

RecomputeWords read_recompute(const JsonNode& node) {
  RecomputeWords recompute;
  recompute.granularity = text(node, "granularity");
  recompute.method = text(node, "method");
  if (is_given(node, "num_layers")) recompute.layers = layers_recomputed(node.at("num_layers"));
  if (is_given(node, "modules")) {
    const JsonNode modules = node.at("modules");
    recompute.modules = modules.json().is_string() ? names_in(modules) : names(modules);
  }
  recompute.is_activation_recomputed = is_true(node, "activation_function");
  recompute.select = text(node, "select");
  return recompute;
}

OverlapWords read_overlap(const JsonNode& node) {
  OverlapWords overlap;
  overlap.dispatcher = text(node, "dispatcher");
  overlap.is_expert = is_true(node, "ep_overlap");
  const bool is_moe = is_true(node, "moe_overlap"), is_all_to_all = is_true(node, "alltoall_overlap");
  overlap.is_moe = is_moe || is_all_to_all;
  overlap.is_fused_tensor = is_true(node, "mc2");
  overlap.is_async_tensor = is_true(node, "async_tp");
  overlap.is_tensor = is_true(node, "tp_comm_overlap");
  overlap.is_compiled = is_true(node, "torch_compile");
  overlap.is_deterministic = is_true(node, "deterministic");
  overlap.is_gradient_reduce = truth(node, "overlap_grad_reduce");
  if (is_given(node, "cuda_graph")) overlap.captured = names(node.at("cuda_graph"));
  overlap.dispatcher_cores = count(node, "sms", kMostDegree);
  return overlap;
}

/// MindFormers' table has the optimizer's sharding among what overlaps, as True or False in a text.
std::optional<bool> optimizer_parallel(const JsonNode& node) {
  const std::string word = text(node, "optimizer_parallel");
  if (word.empty()) return std::nullopt;
  return word == "True";
}

struct Hardware {
  std::string name;
  std::int64_t count = 0;
};

Hardware read_hardware(const JsonNode& node) {
  return {.name = text(node, "name"), .count = is_given(node, "count") ? node.at("count").integer(1, kMostDevices) : 0};
}

std::int64_t batch(const JsonNode& row, std::string_view key) {
  return is_given(row, key) ? row.at(key).integer(1, kMostCount) : 0;
}

RowWords read_words(const JsonNode& row) {
  RowWords words;
  words.id = row.at("id").text();
  words.source = text(row, "source");
  Hardware hardware = part(row, "hardware", read_hardware);
  words.device = std::move(hardware.name);
  words.devices = hardware.count;
  words.precision = text(row, "precision");
  words.model = part(row, "model", read_model);
  words.layout = part(row, "parallel", read_layout);
  words.micro_batch = batch(row, "mbs");
  words.global_batch = batch(row, "gbs");
  words.sequence = batch(row, "seq");
  words.recompute = part(row, "recompute", read_recompute);
  words.overlap = part(row, "overlap", read_overlap);
  const std::optional<bool> sharded = part(row, "overlap", optimizer_parallel);
  if (sharded) words.layout.shards_optimizer = sharded;
  words.has_fused_attention = truth(row, "flash").value_or(true);
  return words;
}

struct Derived {
  std::optional<double> step_s, model_flops_per_s;
};

Derived read_derived(const JsonNode& node) {
  const std::optional<double> step_s = figure(node, "step_s", kSeconds, 1);
  if (step_s && *step_s < kLeastSeconds)
    node.at("step_s").wrong(fmt::format("is {}; it must be 0, not measured, or at least {}", *step_s, kLeastSeconds));
  return {.step_s = step_s, .model_flops_per_s = figure(node, "model_tflops_causal", kTeraflops, kTera)};
}

std::string text_or(const JsonNode& row, std::string_view key, const std::string& otherwise) {
  return is_given(row, key) ? row.at(key).text() : otherwise;
}

TimeRow read_row(const JsonNode& row) {
  const RowWords words = read_words(row);
  const Derived derived = part(row, "derived", read_derived);
  const std::string tier = text(row, "tier");
  const bool is_recalled = is_true(row, "recalled");
  TimeRow read;
  read.id = words.id;
  read.group = text_or(row, "group", words.id);
  read.split_key = text_or(row, "split_key", words.id);
  read.device = words.device;
  read.precision = words.precision;
  read.devices = words.devices;
  read.measured_s = derived.step_s;
  read.model_flops_per_s = derived.model_flops_per_s;
  read.is_scored = (tier == "A" || tier == "B") && read.measured_s && !is_recalled;
  if (!row.clean()) return read;  // what is out of range is not there to be judged
  step_time::RowRun made = step_time::run_of(words);
  read.software = std::move(made.software);
  read.run = std::move(made.run);
  read.refused = std::move(made.refused);
  read.notes = std::move(made.notes);
  read.track = step_time::track_of({.software = read.software,
                                    .device = read.device,
                                    .precision = read.precision,
                                    .is_moe = words.model.experts > 0});
  return read;
}

/// Figures are told apart by the id.
void require_new_id(const JsonNode& row, const std::string& id, std::size_t index,
                    std::map<std::string, std::size_t, std::less<>>& first) {
  const auto [before, is_new] = first.try_emplace(id, index);
  if (id.empty()) row.at("id").wrong("must not be empty");
  if (!is_new) row.at("id").wrong(fmt::format("is that of /rows/{} too; a run is there once", before->second));
}

}  // namespace

Result<std::vector<TimeRow>> read_time_truth(std::string_view text, std::string_view file_name) {
  const Result<nlohmann::json> document = parse_json(text, file_name, "the rows");
  if (!document) return document.error();
  JsonNode::Mistake mistake;
  const JsonNode rows = JsonNode(document.value(), mistake).at("rows");
  if (rows.size() > kMostRows) rows.wrong(fmt::format("holds more than {} rows; give fewer", kMostRows));
  std::vector<TimeRow> read;
  if (rows.clean()) read.reserve(rows.size());  // a row is large: no second copy of all while it grows
  std::map<std::string, std::size_t, std::less<>> first;
  for (std::size_t i = 0; i < rows.size() && rows.clean(); ++i) {
    read.push_back(read_row(rows.item(i)));
    require_new_id(rows.item(i), read.back().id, i, first);
  }
  if (!mistake.empty()) return bad_input(fmt::format("{}: {}", file_name, mistake));
  if (read.empty()) return bad_input(fmt::format("{}: /rows: holds no row", file_name));
  return read;
}

}  // namespace tidemark::formats
