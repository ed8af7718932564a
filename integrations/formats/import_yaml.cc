#include "integrations/formats/import_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "integrations/formats/field_ranges.h"
#include "integrations/formats/quantity.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/time_device_file.h"
#include "integrations/formats/yaml_fields.h"
#include "planner/graph_build/layer_placement.h"

namespace tidemark::formats {
namespace {

template <class Value>
using Word = std::pair<std::string_view, Value>;

constexpr std::array<Word<graph_build::AttentionSpec::Kind>, 2> kAttentionKinds = {
    {{"gqa", graph_build::AttentionSpec::Kind::gqa}, {"mla", graph_build::AttentionSpec::Kind::mla}}};
constexpr std::array<Word<graph_build::Activation>, 3> kActivations = {{{"swiglu", graph_build::Activation::swiglu},
                                                                        {"gelu", graph_build::Activation::gelu},
                                                                        {"geglu", graph_build::Activation::geglu}}};
constexpr std::array<Word<graph_build::NormPlacement>, 2> kNorms = {
    {{"pre", graph_build::NormPlacement::pre}, {"sandwich", graph_build::NormPlacement::sandwich}}};
constexpr std::array<Word<graph_build::LayerKind>, 6> kLayerKinds = {
    {{"dense", graph_build::LayerKind::dense},
     {"moe", graph_build::LayerKind::moe},
     {"mamba_dense", graph_build::LayerKind::mamba_dense},
     {"mamba_moe", graph_build::LayerKind::mamba_moe},
     {"linear_dense", graph_build::LayerKind::linear_dense},
     {"linear_moe", graph_build::LayerKind::linear_moe}}};
constexpr std::array<Word<graph_build::ParallelSpec::ContextKind>, 3> kContextKinds = {
    {{"all_gather", graph_build::ParallelSpec::ContextKind::all_gather},
     {"ring", graph_build::ParallelSpec::ContextKind::ring},
     {"ulysses", graph_build::ParallelSpec::ContextKind::ulysses}}};
constexpr std::array<Word<graph_build::ParallelSpec::Compute>, 2> kComputes = {
    {{"bf16", graph_build::ParallelSpec::Compute::bf16}, {"fp8", graph_build::ParallelSpec::Compute::fp8}}};
constexpr std::array<Word<graph_build::MoeSpec::Probabilities>, 2> kProbabilities = {
    {{"at_unpermute", graph_build::MoeSpec::Probabilities::at_unpermute},
     {"in_activation", graph_build::MoeSpec::Probabilities::in_activation}}};
constexpr std::array<Word<graph_build::MoeSpec::CapacityLevel>, 2> kCapacityLevels = {
    {{"expert", graph_build::MoeSpec::CapacityLevel::expert}, {"device", graph_build::MoeSpec::CapacityLevel::device}}};
constexpr std::array<Word<std::int32_t>, 3> kDtypes = {{{"bf16", 2}, {"fp16", 2}, {"fp32", 4}}};
constexpr std::array<Word<std::int32_t>, 4> kDtypesOrNone = {{{"bf16", 2}, {"fp16", 2}, {"fp32", 4}, {"none", 0}}};

template <class Value, std::size_t N>
std::span<const Word<Value>> words(const std::array<Word<Value>, N>& table) {
  return table;
}

// ---- layers -------------------------------------------------------------------------------------------------------

constexpr const char* kLayersExample = "{dense: 3, moe: 58}";

/// Appends `count` layers of the kind named; otherwise a mistake at `line`.
void append_layers(YamlDocument& document, int line, std::string_view kind, std::optional<std::int64_t> count,
                   std::vector<graph_build::LayerKind>& layers) {
  const auto* const found = std::ranges::find(kLayerKinds, kind, &Word<graph_build::LayerKind>::first);
  if (found == kLayerKinds.end()) {
    document.wrong(line, fmt::format("layers names the kind {}; a layer is dense or moe, and mamba_dense, mamba_moe, "
                                     "linear_dense or linear_moe where the model is only described",
                                     shown(kind)));
  } else if (!count || *count < 0 || *count > graph_build::kMostLayers - static_cast<std::int64_t>(layers.size())) {
    document.wrong(line, fmt::format("the number of {} layers is not a whole number from 0 to {}; write like {}", kind,
                                     graph_build::kMostLayers, kLayersExample));
  } else {
    layers.insert(layers.end(), static_cast<std::size_t>(*count), found->second);
  }
}

void append_pattern(YamlDocument& document, const YamlNode& map, std::vector<graph_build::LayerKind>& layers);

/// `moe`, `moe x58` or, outside a pattern, a pattern.
void append_run(YamlDocument& document, const YamlNode& item, bool in_pattern,
                std::vector<graph_build::LayerKind>& layers) {
  const int line = item.line;
  if (item.is_map() && !in_pattern) return append_pattern(document, item, layers);
  if (!item.is_scalar()) {
    document.wrong(line, fmt::format("an entry of layers is {}; write like [dense x3, moe x58]", described(item)));
    return;
  }
  const std::string_view text = item.text;
  const std::size_t blank = text.find(" x");
  if (blank == std::string_view::npos) {
    append_layers(document, line, text, 1, layers);
  } else {
    append_layers(document, line, text.substr(0, blank), integer_in(text.substr(blank + 2)), layers);
  }
}

constexpr const char* kPatternExample = "{repeat: 24, of: [dense, moe]}";

const YamlNode* value_of(const YamlNode& map, std::string_view key) {
  for (const auto& [name, value] : map.items)
    if (name->is_scalar() && name->text == key) return value.get();
  return nullptr;
}

/// `{repeat: 24, of: [dense, moe]}`.
void append_pattern(YamlDocument& document, const YamlNode& map, std::vector<graph_build::LayerKind>& layers) {
  const YamlNode* repeat = value_of(map, "repeat");
  const YamlNode* of = value_of(map, "of");
  if (map.items.size() != 2 || repeat == nullptr || of == nullptr || !of->is_list())
    return document.wrong(map.line,
                          fmt::format("a pattern of layers is {}; write like {}", described(map), kPatternExample));
  std::vector<graph_build::LayerKind> once;
  for (const YamlNode::Item& item : of->items) append_run(document, *item.value, true, once);
  const std::int64_t times = repeat->is_scalar() ? integer_in(repeat->text).value_or(0) : 0;
  const auto room = static_cast<std::int64_t>(static_cast<std::size_t>(graph_build::kMostLayers) - layers.size());
  if (once.empty() || times < 1 || times > room / std::ssize(once))
    return document.wrong(repeat->line, fmt::format("repeat is no whole number of times from 1 up to {} layers; write "
                                                    "like {}",
                                                    graph_build::kMostLayers, kPatternExample));
  for (std::int64_t i = 0; i < times; ++i) layers.insert(layers.end(), once.begin(), once.end());
}

void read_layers(YamlDocument& document, YamlMap& model, std::vector<graph_build::LayerKind>& layers) {
  const YamlNode* node = model.any("layers", kLayersExample, Need::required);
  if (node == nullptr) return;
  if (node->is_list()) {
    for (const YamlNode::Item& item : node->items) append_run(document, *item.value, false, layers);
  } else if (node->is_map() && value_of(*node, "repeat") != nullptr) {
    append_pattern(document, *node, layers);
  } else if (node->is_map()) {
    // Read by hand rather than as a section: here the order of the keys is the order of the layers.
    std::set<std::string> seen;
    for (const auto& [key, value] : node->items) {
      const std::string kind = key->is_scalar() ? key->text : described(*key);
      const int line = key->line;
      if (!seen.insert(kind).second) {
        document.wrong(line,
                       fmt::format("{} is given twice in layers; write kinds that alternate as a list, like [dense x3, "
                                   "moe x2, dense]",
                                   shown(kind)));
        continue;
      }
      append_layers(document, line, kind, value->is_scalar() ? integer_in(value->text) : std::nullopt, layers);
    }
  } else {
    model.wrong("layers", fmt::format("layers is {}; write the kinds and their number, like {} or [dense x3, moe x58]",
                                      described(*node), kLayersExample));
  }
}

// ---- model --------------------------------------------------------------------------------------------------------

constexpr std::array<std::string_view, 4> kGqaKeys = {"kv_heads", "head_dim", "qk_norm", "qkv_bias"};
constexpr std::array<std::string_view, 7> kMlaKeys = {"q_lora_rank", "kv_lora_rank",  "qk_rope_dim", "qk_nope_dim",
                                                      "v_head_dim",  "v_own_storage", "v_padded"};

/// One number of heads for all layers.
void read_heads(YamlMap& fields, std::string_view key, std::int64_t& heads, Need need) {
  const YamlNode* node = fields.has(key) ? fields.any(key, "16", Need::optional) : nullptr;
  if (node != nullptr && !node->is_scalar())
    return fields.wrong(key, fmt::format("{} is {}; head counts by layer are not planned, write one number like 16 "
                                         "for all layers",
                                         key, described(*node)));
  fields.integer(key, heads, need);
}

void read_gqa(YamlMap& fields, graph_build::AttentionSpec& attention) {
  attention.kv_heads = attention.heads;
  read_heads(fields, "kv_heads", attention.kv_heads, Need::optional);
  fields.integer("head_dim", attention.head_dim, Need::required);
  fields.boolean("qk_norm", attention.qk_norm, Need::optional);
  fields.boolean("qkv_bias", attention.qkv_bias, Need::optional);
  for (const std::string_view key : kMlaKeys) fields.forbid(key, "it belongs to `kind: mla`; drop it or change kind");
}

void read_mla(YamlMap& fields, graph_build::AttentionSpec& attention) {
  fields.integer("q_lora_rank", attention.q_lora_rank, Need::optional);
  fields.integer("kv_lora_rank", attention.kv_lora_rank, Need::required);
  fields.integer("qk_rope_dim", attention.qk_rope_dim, Need::required);
  fields.integer("qk_nope_dim", attention.qk_nope_dim, Need::required);
  fields.integer("v_head_dim", attention.v_head_dim, Need::required);
  fields.boolean("v_own_storage", attention.v_own_storage, Need::optional);
  fields.boolean("v_padded", attention.v_padded, Need::optional);
  for (const std::string_view key : kGqaKeys) fields.forbid(key, "it belongs to `kind: gqa`; drop it or change kind");
}

void read_attention(YamlMap fields, graph_build::AttentionSpec& attention) {
  const bool known_kind = fields.choice("kind", attention.kind, words(kAttentionKinds), Need::required);
  read_heads(fields, "heads", attention.heads, Need::required);
  fields.integer("window", attention.window, Need::optional);
  fields.integer("global_every", attention.global_every, Need::optional);
  if (!known_kind) {  // no key can be blamed before the kind is right
    for (const std::string_view key : kGqaKeys) fields.accept(key);
    for (const std::string_view key : kMlaKeys) fields.accept(key);
  } else if (attention.kind == graph_build::AttentionSpec::Kind::gqa) {
    read_gqa(fields, attention);
  } else {
    read_mla(fields, attention);
  }
  fields.finish();
}

/// `capacity_factor: none` is the default: no row is dropped.
void read_capacity(YamlMap& fields, graph_build::MoeSpec& moe) {
  const YamlNode* node = fields.any("capacity_factor", "1.25", Need::optional);
  if (node == nullptr || (node->is_scalar() && node->text == "none")) {
    for (const char* key : {"capacity_level", "pad_to_capacity"})
      fields.forbid(key, "it needs capacity_factor; add one, such as 1.25, or drop it");
    return;
  }
  double factor = 1;  // so that a mistake already reported is not reported again as out of range
  fields.real("capacity_factor", factor, Need::optional);
  if (!(factor > 0))
    fields.wrong("capacity_factor",
                 fmt::format("capacity_factor is {}; it must be above 0, or none to drop no row", factor));
  moe.capacity_factor = factor;
  fields.choice("capacity_level", moe.capacity_level, words(kCapacityLevels), Need::optional);
  fields.boolean("pad_to_capacity", moe.pad_to_capacity, Need::optional);
}

void read_moe(YamlMap fields, graph_build::MoeSpec& moe) {
  fields.integer("experts", moe.experts, Need::required);
  fields.integer("top_k", moe.top_k, Need::required);
  fields.integer("width", moe.width, Need::required);
  fields.integer("shared_width", moe.shared_width, Need::optional);
  fields.boolean("router_fp32", moe.router_fp32, Need::optional);
  fields.boolean("shared_gate", moe.shared_gate, Need::optional);
  fields.choice("probabilities", moe.probabilities, words(kProbabilities), Need::optional);
  read_capacity(fields, moe);
  fields.finish();
}

void read_mamba(YamlMap fields, graph_build::MambaSpec& mamba) {
  fields.integer("heads", mamba.heads, Need::required);
  fields.integer("head_dim", mamba.head_dim, Need::required);
  fields.integer("state_dim", mamba.state_dim, Need::required);
  fields.integer("groups", mamba.groups, Need::optional);
  fields.integer("convolution", mamba.convolution, Need::optional);
  fields.finish();
}

void read_linear_attention(YamlMap fields, graph_build::LinearAttentionSpec& linear) {
  fields.integer("key_heads", linear.key_heads, Need::required);
  fields.integer("key_dim", linear.key_dim, Need::required);
  fields.integer("value_heads", linear.value_heads, Need::required);
  fields.integer("value_dim", linear.value_dim, Need::required);
  fields.integer("convolution", linear.convolution, Need::optional);
  fields.finish();
}

/// The section of a mixer, where a layer has it.
template <class Spec>
void read_mixer(YamlMap& fields, std::string_view key, bool used, void (*read)(YamlMap, Spec&), Spec& spec) {
  if (!used)
    return fields.forbid(key, "no layer has it; drop it, or name the layers, like layers: [mamba_moe x9, moe]");
  if (auto section = fields.section(key, Need::required)) read(*section, spec);
}

Need required_if(bool condition) {
  return condition ? Need::required : Need::optional;
}

void read_model(YamlDocument& document, YamlMap fields, graph_build::ModelSpec& model) {
  fields.text("name", model.name, Need::required);
  fields.integer("hidden", model.hidden, Need::required);
  fields.integer("vocabulary", model.vocabulary, Need::required);
  fields.integer("sequence", model.sequence, Need::required);
  read_layers(document, fields, model.layers);
  fields.integer("mtp_layers", model.mtp_layers, Need::optional);
  fields.choice("activation", model.activation, words(kActivations), Need::optional);
  fields.choice("norm", model.norm, words(kNorms), Need::optional);
  fields.boolean("tied_embedding", model.tied_embedding, Need::optional);
  const auto mixes = [&](graph_build::Mixer mixer) {
    return std::ranges::find(model.layers, mixer, graph_build::mixer_of) != model.layers.end();
  };
  const bool has_dense = std::ranges::find(model.layers, false, graph_build::has_experts) != model.layers.end();
  fields.integer("dense_width", model.dense_width, required_if(has_dense));
  if (auto attention = fields.section("attention", Need::required)) read_attention(*attention, model.attention);
  if (auto moe = fields.section("moe", required_if(model.has_experts()))) read_moe(*moe, model.moe);
  read_mixer(fields, "mamba", mixes(graph_build::Mixer::mamba), read_mamba, model.mamba);
  read_mixer(fields, "linear_attention", mixes(graph_build::Mixer::linear_attention), read_linear_attention,
             model.linear_attention);
  fields.finish();
}

// ---- placement ----------------------------------------------------------------------------------------------------

constexpr const char* kRanksExample = "[[[0-1], [4-5]], [[2-3], [6, mtp]]]";

/// A layer or module number, or -1.
std::int32_t slot_number(std::string_view digits) {
  const auto value = integer_in(digits);
  return value && *value >= 0 && *value < graph_build::kMostLayers ? static_cast<std::int32_t>(*value) : -1;
}

/// Of all ranks together: every layer, and as many slots without one.
constexpr std::size_t kMostSlots = 2 * static_cast<std::size_t>(graph_build::kMostLayers);

/// `7`, `4-7`, `noop`, `mtp` or `mtp 1`, at most `room` of them, which shrinks.
void append_slots(YamlDocument& document, const YamlNode& item, std::vector<graph_build::Slot>& chunk,
                  std::size_t& room) {
  const std::string_view text = item.text;
  const std::size_t dash = text.find('-');
  const std::int32_t first = slot_number(text.substr(0, dash));
  const std::int32_t last = dash == std::string_view::npos ? first : slot_number(text.substr(dash + 1));
  const std::size_t count = first >= 0 && first <= last ? static_cast<std::size_t>(last - first) + 1 : 1;
  if (room < count)
    return document.wrong(item.line,
                          fmt::format("the slots up to here are more than {}; name every layer once", kMostSlots));
  room -= count;
  const std::int32_t module = text == "mtp" ? 0 : text.starts_with("mtp ") ? slot_number(text.substr(4)) : -1;
  if (text == "noop") {
    chunk.push_back({.kind = graph_build::Slot::Kind::noop, .layer = -1});
  } else if (module >= 0) {
    chunk.push_back({.kind = graph_build::Slot::Kind::mtp, .layer = module});
  } else if (first >= 0 && first <= last) {
    for (std::int32_t layer = first; layer <= last; ++layer)
      chunk.push_back({.kind = graph_build::Slot::Kind::layer, .layer = layer});
  } else {
    document.wrong(item.line,
                   fmt::format("a slot is {}; write a layer like 7, layers like 4-7, noop or mtp", described(item)));
  }
}

/// Calls `read` on each item of a list; `what` names it where it is none.
void for_each_item(YamlDocument& document, const YamlNode& node, std::string_view what,
                   const std::function<void(const YamlNode&)>& read) {
  if (!node.is_list()) {
    document.wrong(node.line,
                   fmt::format("{} is {}; write a list of ranks, each a list of chunks, each a list of slots: {}", what,
                               described(node), kRanksExample));
    return;
  }
  for (const YamlNode::Item& item : node.items) read(*item.value);
}

void read_ranks(YamlDocument& document, const YamlNode& ranks, graph_build::ParallelSpec& parallel) {
  std::size_t room = kMostSlots;
  for_each_item(document, ranks, "ranks", [&](const YamlNode& rank) {
    auto& chunks = parallel.slots.emplace_back();
    for_each_item(document, rank, "a rank", [&](const YamlNode& chunk) {
      auto& slots = chunks.emplace_back();
      for_each_item(document, chunk, "a chunk",
                    [&](const YamlNode& item) { append_slots(document, item, slots, room); });
    });
  });
}

/// What `placement:` asks for. Explicit ranks go to ParallelSpec::slots at once.
graph_build::SlotChoice read_placement(YamlDocument& document, YamlMap fields, graph_build::ParallelSpec& parallel) {
  graph_build::SlotChoice choice;
  if (const YamlNode* ranks = fields.list("ranks", kRanksExample, Need::optional)) {
    read_ranks(document, *ranks, parallel);
    for (const char* key : {"noop_slots", "mtp_slot"})
      fields.forbid(key, "`ranks` lists every slot; drop one of the two");
  }
  if (const YamlNode* noops = fields.list("noop_slots", "[61, 63]", Need::optional)) {
    for (const auto& [key, value] : noops->items) {
      const YamlNode& item = *value;
      const auto slot = item.is_scalar() ? integer_in(item.text) : std::nullopt;
      if (slot) {
        choice.noop_slots.push_back(*slot);
      } else {
        document.wrong(item.line, fmt::format("a no-op slot is {}; write slot numbers like [61, 63]", described(item)));
      }
    }
  }
  fields.integer("head_stage", parallel.head_stage, Need::optional);
  if (fields.has("head_stage") && parallel.head_stage < 0)
    fields.wrong("head_stage", fmt::format("head_stage is {}; stages are numbered from 0", parallel.head_stage));
  if (fields.has("mtp_slot")) fields.integer("mtp_slot", choice.mtp_slot.emplace(), Need::optional);
  fields.accept("mtp_slot");
  fields.finish();
  return choice;
}

// ---- parallel, precision, expert load -----------------------------------------------------------------------------

/// ZeRO's numbers, and FSDP2, which is 3 with weights kept in fp32.
void read_sharding(YamlDocument& document, YamlMap& fields, graph_build::ParallelSpec& parallel) {
  std::int32_t zero = 1;
  bool fsdp2 = false;
  fields.integer("zero", zero, Need::optional);
  fields.boolean("fsdp2", fsdp2, Need::optional);
  if (zero < 0 || zero > 3) fields.wrong("zero", fmt::format("zero is {}; it must be 0 to 3", zero));
  if (fields.has("zero")) fields.forbid("distributed_optimizer", "`zero` says it: 0 for false, 1 for true; drop one");
  if (fsdp2) {
    fields.forbid("zero", "`fsdp2` shards as zero 3 does; drop one of the two");
    fields.forbid("distributed_optimizer", "`fsdp2` shards all; drop one of the two");
    document.remember(fields.path_of("zero"), fields.line_of("fsdp2"));  // rules about it point there
    zero = 3;
    parallel.parameter_bytes = 4;  // the master copy itself
    parallel.optimizer_bytes = 8;
  }
  if (zero == 0) parallel.distributed_optimizer = false;
  parallel.sharded_gradients = zero >= 2;
  parallel.sharded_parameters = zero >= 3;
}

graph_build::SlotChoice read_parallel(YamlDocument& document, YamlMap fields, graph_build::ParallelSpec& parallel) {
  fields.integer("tensor", parallel.tensor, Need::optional);
  fields.boolean("sequence_parallel", parallel.sequence_parallel, Need::optional);
  fields.integer("pipeline", parallel.pipeline, Need::optional);
  fields.integer("virtual_pipeline", parallel.virtual_pipeline, Need::optional);
  fields.integer("context", parallel.context, Need::optional);
  fields.choice("context_kind", parallel.context_kind, words(kContextKinds), Need::optional);
  fields.integer("expert", parallel.expert, Need::optional);
  fields.boolean("tensor_extends_expert", parallel.tensor_extends_expert, Need::optional);
  fields.integer("data", parallel.data, Need::optional);
  fields.integer("micro_batch", parallel.micro_batch, Need::required);
  fields.integer("global_batch", parallel.global_batch, Need::required);
  fields.boolean("overlap_forward_backward", parallel.overlap_forward_backward, Need::optional);
  fields.boolean("hierarchical_expert_communication", parallel.hierarchical_expert_communication, Need::optional);
  fields.integer("expert_exchange_parts", parallel.expert_exchange_parts, Need::optional);
  fields.boolean("distributed_optimizer", parallel.distributed_optimizer, Need::optional);
  read_sharding(document, fields, parallel);
  fields.integer("communicators", parallel.communicators, Need::optional);
  fields.quantity("framework_memory", parallel.framework_bytes, parse_bytes, "192MiB", Need::optional);
  graph_build::SlotChoice choice;
  const YamlNode* placement = fields.any("placement", "auto", Need::optional);
  if (placement != nullptr && placement->is_scalar()) {
    parallel.auto_placement = placement->text == "auto";
    if (!parallel.auto_placement)
      fields.wrong("placement", fmt::format("placement is {}; write auto, or a section with noop_slots, mtp_slot, "
                                            "head_stage or ranks",
                                            described(*placement)));
  } else if (auto section = fields.section("placement", Need::optional)) {
    choice = read_placement(document, *section, parallel);
  }
  fields.finish();
  return choice;
}

void read_optimizer(YamlMap fields, std::int32_t& optimizer_bytes) {
  std::int32_t master = optimizer_bytes - 8;  // none where the weights are it
  std::int32_t moment = 4;
  fields.choice("master", master, words(kDtypesOrNone), Need::optional);
  fields.choice("moments", moment, words(kDtypesOrNone), Need::optional);
  optimizer_bytes = master + 2 * moment;
  fields.finish();
}

void read_precision(YamlMap fields, graph_build::ParallelSpec& parallel) {
  fields.choice("parameters", parallel.parameter_bytes, words(kDtypes), Need::optional);
  fields.choice("gradients", parallel.gradient_bytes, words(kDtypes), Need::optional);
  if (auto optimizer = fields.section("optimizer", Need::optional))
    read_optimizer(*optimizer, parallel.optimizer_bytes);
  fields.choice("compute", parallel.compute, words(kComputes), Need::optional);
  fields.boolean("reuse_fp32_parameter", parallel.reuse_fp32_parameter, Need::optional);
  fields.finish();
}

void read_expert_load(YamlMap fields, graph_build::ExpertLoadSpec& load) {
  std::int64_t seed = 1;
  fields.real("mean", load.mean, Need::optional);
  fields.real("coefficient_of_variation", load.coefficient_of_variation, Need::optional);
  fields.real("layer_correlation", load.layer_correlation, Need::optional);
  fields.real("popularity_share", load.popularity_share, Need::optional);
  fields.real("persistence", load.persistence, Need::optional);
  fields.real("quantile", load.quantile, Need::optional);
  fields.integer("seed", seed, Need::optional);
  if (seed < 0) fields.wrong("seed", fmt::format("seed is {}; it must not be negative", seed));
  load.seed = static_cast<std::uint64_t>(seed);
  fields.finish();
}

using FindProblems = std::vector<graph_build::SpecProblem> (*)(const graph_build::JobSpec&);

/// Fills the slots and applies the rules of the job itself. REQUIRES: the document is clean.
void check_job(YamlDocument& document, const graph_build::SlotChoice& choice, FindProblems find_problems,
               graph_build::JobSpec& job) {
  const bool explicit_ranks = !job.parallel.slots.empty();
  graph_build::LayerPlacement placement;
  if (job.parallel.auto_placement) {
    graph_build::fill_stages_evenly(job.model, job.parallel);
  } else if (!explicit_ranks) {
    placement = graph_build::place_layers(job.model, job.parallel, choice);
    job.parallel.slots = placement.slots;
  }
  std::vector<graph_build::SpecProblem> problems = find_problems(job);
  if (!placement.problems.empty()) {
    std::erase_if(problems,
                  [](const graph_build::SpecProblem& problem) { return problem.key == "parallel.placement"; });
    problems.insert(problems.end(), placement.problems.begin(), placement.problems.end());
  }
  // The first rule broken, not the first line: later rules may only follow from it.
  if (!problems.empty()) document.wrong(document.line_of(problems.front().key), problems.front().message);
}

// ---- device -------------------------------------------------------------------------------------------------------

void read_size(YamlMap& fields, std::string_view key, Bytes& out, Bytes least, Need need, Bytes most = kMostPlanBytes) {
  fields.quantity(key, out, parse_bytes, "64GiB", need);
  if (!fields.has(key) || (out >= least && out <= most)) return;
  fields.wrong(key, fmt::format("{} is {}; it must be {} to {}", key, format_bytes(out), format_bytes(least),
                                format_bytes(most)));
}

void read_rate(YamlMap& fields, std::string_view key, double& out, double least, std::string_view example,
               Result<double> (*parse)(std::string_view)) {
  out = least;  // so that a mistake already reported is not reported again as out of range
  fields.quantity(key, out, parse, example, Need::required);
  if (fields.has(key) && !(out >= least && out <= kMostRate)) {
    fields.wrong(key,
                 fmt::format("{} must be from {:.0e} to {:.0e} a second, like {}", key, least, kMostRate, example));
  }
}

void read_time(YamlMap& fields, std::string_view key, double& out, Need need) {
  fields.quantity(key, out, parse_duration_ns, "10us", need);
  if (fields.has(key) && out > kMostLatencyNs) fields.wrong(key, fmt::format("{} is above 1s; write like 10us", key));
}

void read_memory(YamlMap fields, Machine& machine) {
  read_size(fields, "visible", machine.visible_bytes, kMiB, Need::required);
  read_size(fields, "context", machine.context_bytes, 0, Need::required);
  read_size(fields, "workspace", machine.workspace_bytes, 0, Need::required);
  read_size(fields, "collective_buffer", machine.collective_buffer_bytes, 0, Need::required);
  read_size(fields, "alignment", machine.alignment_bytes, 1, Need::optional, kMostAlignment);
  const Bytes alignment = machine.alignment_bytes;
  if (alignment > 0 && (alignment & (alignment - 1)) != 0) {
    fields.wrong("alignment", fmt::format("alignment is {} B; it must be a power of two, like 512B", alignment));
  }
  if (fields.has("visible") && machine.visible_bytes - machine.context_bytes - machine.workspace_bytes <= 0) {
    fields.wrong("visible", fmt::format("visible is {}, and context and workspace take all of it; lower them",
                                        format_bytes(machine.visible_bytes)));
  }
  fields.finish();
}

void read_chip_of(YamlMap& fields, const ReadChip& read_chip, Machine& machine) {
  std::string name;
  fields.text("chip", name, Need::required);
  if (name.empty()) return;
  if (!is_plain_name(name))
    return fields.wrong("chip", fmt::format("chip is {}; write the name of a file in chips/ beside this one, or of a "
                                            "shipped one, without .yaml: lower-case letters, digits, dashes, dots",
                                            shown(name)));
  Result<Chip> chip = read_chip(name);
  if (chip)
    machine.chip = std::move(chip).value();
  else
    fields.wrong("chip", "chip: " + chip.error().message);
}

void read_compute(YamlMap fields, Machine& machine) {
  std::int64_t width = 1;
  read_time(fields, "copy_launch", machine.copy_launch_ns, Need::required);
  fields.integer("softmax_statistics_width", width, Need::optional);
  if (width < 1 || width > 64) {
    fields.wrong("softmax_statistics_width", fmt::format("softmax_statistics_width is {}; it must be 1 to 64", width));
  } else {
    machine.softmax_statistics_width = static_cast<int>(width);
  }
  fields.finish();
}

void read_link(YamlMap& links, std::string_view key, Link& link) {
  auto fields = links.section(key, Need::required);
  if (!fields) return;
  read_rate(*fields, "bandwidth", link.bytes_per_s, kLeastBytesPerS, "23.4GB/s", parse_bytes_per_s);
  read_time(*fields, "latency", link.latency_ns, Need::required);
  fields->finish();
}

void read_links(YamlMap fields, Machine& machine) {
  read_link(fields, "d2h", machine.d2h);
  read_link(fields, "h2d", machine.h2d);
  fields.finish();
}

void read_host(YamlMap fields, Machine& machine) {
  read_size(fields, "pinned_per_device", machine.host_bytes_per_device, 0, Need::required);
  read_size(fields, "pinned_per_node", machine.host_bytes_per_node, 0, Need::required);
  if (fields.has("pinned_per_node") && machine.host_bytes_per_node < machine.host_bytes_per_device) {
    fields.wrong("pinned_per_node",
                 fmt::format("pinned_per_node is {}, less than pinned_per_device {}; raise it",
                             format_bytes(machine.host_bytes_per_node), format_bytes(machine.host_bytes_per_device)));
  }
  fields.finish();
}

Result<graph_build::JobSpec> read_job_by(FindProblems rules, std::string_view yaml_text, std::string_view file_name) {
  YamlDocument document(file_name);
  const Result<std::shared_ptr<const YamlNode>> root = document.parse(yaml_text);
  if (!root) return root.error();
  YamlMap fields(document, *root.value(), "", 1);
  graph_build::JobSpec job;
  graph_build::SlotChoice choice;
  if (auto model = fields.section("model", Need::required)) read_model(document, *model, job.model);
  if (auto parallel = fields.section("parallel", Need::required))
    choice = read_parallel(document, *parallel, job.parallel);
  if (auto precision = fields.section("precision", Need::optional)) read_precision(*precision, job.parallel);
  if (auto load = fields.section("expert_load", Need::optional)) read_expert_load(*load, job.expert_load);
  fields.text("device", job.device, Need::required);
  fields.finish();
  if (document.clean()) check_job(document, choice, rules, job);
  if (!document.clean()) return document.first_error();
  return job;
}

}  // namespace

Result<graph_build::JobSpec> read_job(std::string_view yaml_text, std::string_view file_name) {
  return read_job_by(graph_build::find_problems, yaml_text, file_name);
}

Result<graph_build::JobSpec> read_described_job(std::string_view yaml_text, std::string_view file_name) {
  return read_job_by(graph_build::find_description_problems, yaml_text, file_name);
}

Result<Machine> read_machine(std::string_view yaml_text, std::string_view file_name, const ReadChip& read_chip) {
  YamlDocument document(file_name);
  const Result<std::shared_ptr<const YamlNode>> root = document.parse(yaml_text);
  if (!root) return root.error();
  YamlMap fields(document, *root.value(), "", 1);
  Machine machine;
  fields.text("name", machine.name, Need::required);
  read_chip_of(fields, read_chip, machine);
  if (auto memory = fields.section("memory", Need::required)) read_memory(*memory, machine);
  if (auto compute = fields.section("compute", Need::required)) read_compute(*compute, machine);
  if (auto links = fields.section("links", Need::required)) read_links(*links, machine);
  if (auto host = fields.section("host", Need::required)) read_host(*host, machine);
  fields.finish();
  if (!document.clean()) return document.first_error();
  return machine;
}

}  // namespace tidemark::formats
