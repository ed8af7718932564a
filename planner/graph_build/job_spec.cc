#include "planner/graph_build/job_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "planner/graph_build/expert_load.h"
#include "planner/graph_build/unplanned.h"

namespace tidemark::graph_build {
namespace {

using Problems = std::vector<SpecProblem>;

/// Doubles carry costs, so a product has to be exact in one.
constexpr Bytes kLargestProduct = Bytes{1} << 53;
/// Layer passes of one rank and step: keeps op and access indices within 32 bits.
constexpr std::int64_t kMostPasses = 1'000'000;

bool has_moe(const ModelSpec& model) {
  return model.has_experts();
}
bool has_dense(const ModelSpec& model) {
  return std::ranges::any_of(model.layers, [](LayerKind kind) { return !has_experts(kind); });
}
bool has_mixer(const ModelSpec& model, Mixer mixer) {
  return std::ranges::find(model.layers, mixer, mixer_of) != model.layers.end();
}

// ---- ranges -------------------------------------------------------------------------------------------------------

struct Range {
  std::string_view key;
  std::int64_t value;
  std::int64_t least;
  std::int64_t most;
};

constexpr std::int64_t kMostWidth = std::int64_t{1} << 24;
constexpr std::int64_t kMostCount = std::int64_t{1} << 16;
constexpr std::int64_t kMostDegree = std::int64_t{1} << 20;
constexpr std::int64_t kMostExchangeParts = 16;

void append(std::vector<Range>& ranges, std::initializer_list<Range> more) {
  for (const Range& range : more) ranges.push_back(range);
}

void model_ranges(const ModelSpec& model, std::vector<Range>& ranges) {
  append(ranges, {{"model.hidden", model.hidden, 1, kMostWidth},
                  {"model.vocabulary", model.vocabulary, 1, std::int64_t{1} << 28},
                  {"model.sequence", model.sequence, 1, std::int64_t{1} << 27},
                  {"model.mtp_layers", model.mtp_layers, 0, kMostMtpLayers},
                  {"model.dense_width", model.dense_width, has_dense(model) ? 1 : 0, kMostWidth}});
}

void attention_ranges(const AttentionSpec& attention, std::vector<Range>& ranges) {
  append(ranges, {{"model.attention.heads", attention.heads, 1, kMostCount},
                  {"model.attention.window", attention.window, 0, std::int64_t{1} << 27},
                  {"model.attention.global_every", attention.global_every, 0, kMostLayers}});
  if (attention.kind == AttentionSpec::Kind::gqa) {
    append(ranges, {{"model.attention.kv_heads", attention.kv_heads, 1, kMostCount},
                    {"model.attention.head_dim", attention.head_dim, 1, kMostCount}});
  } else {
    append(ranges, {{"model.attention.q_lora_rank", attention.q_lora_rank, 0, kMostWidth},
                    {"model.attention.kv_lora_rank", attention.kv_lora_rank, 1, kMostWidth},
                    {"model.attention.qk_rope_dim", attention.qk_rope_dim, 1, kMostCount},
                    {"model.attention.qk_nope_dim", attention.qk_nope_dim, 1, kMostCount},
                    {"model.attention.v_head_dim", attention.v_head_dim, 1, kMostCount}});
  }
}

void moe_ranges(const ModelSpec& model, std::vector<Range>& ranges) {
  const MoeSpec& moe = model.moe;
  const std::int64_t least = has_moe(model) ? 1 : 0;
  append(ranges, {{"model.moe.experts", moe.experts, least, kMostCount},
                  {"model.moe.top_k", moe.top_k, least, kMostCount},
                  {"model.moe.width", moe.width, least, kMostWidth},
                  {"model.moe.shared_width", moe.shared_width, 0, kMostWidth}});
}

void mixer_ranges(const ModelSpec& model, std::vector<Range>& ranges) {
  const MambaSpec& mamba = model.mamba;
  if (has_mixer(model, Mixer::mamba))
    append(ranges, {{"model.mamba.heads", mamba.heads, 1, kMostCount},
                    {"model.mamba.head_dim", mamba.head_dim, 1, kMostCount},
                    {"model.mamba.state_dim", mamba.state_dim, 1, kMostCount},
                    {"model.mamba.groups", mamba.groups, 1, kMostCount},
                    {"model.mamba.convolution", mamba.convolution, 1, kMostCount}});
  const LinearAttentionSpec& linear = model.linear_attention;
  if (has_mixer(model, Mixer::linear_attention))
    append(ranges, {{"model.linear_attention.key_heads", linear.key_heads, 1, kMostCount},
                    {"model.linear_attention.key_dim", linear.key_dim, 1, kMostCount},
                    {"model.linear_attention.value_heads", linear.value_heads, 1, kMostCount},
                    {"model.linear_attention.value_dim", linear.value_dim, 1, kMostCount},
                    {"model.linear_attention.convolution", linear.convolution, 1, kMostCount}});
}

void parallel_ranges(const ParallelSpec& parallel, std::vector<Range>& ranges) {
  append(ranges, {{"parallel.tensor", parallel.tensor, 1, kMostDegree},
                  {"parallel.pipeline", parallel.pipeline, 1, kMostCount},
                  {"parallel.virtual_pipeline", parallel.virtual_pipeline, 1, kMostCount},
                  {"parallel.context", parallel.context, 1, kMostDegree},
                  {"parallel.expert", parallel.expert, 1, kMostDegree},
                  {"parallel.data", parallel.data, 1, kMostDegree},
                  {"parallel.micro_batch", parallel.micro_batch, 1, kMostDegree},
                  {"parallel.global_batch", parallel.global_batch, 1, std::int64_t{1} << 40},
                  {"parallel.expert_exchange_parts", parallel.expert_exchange_parts, 1, kMostExchangeParts},
                  {"parallel.communicators", parallel.communicators, 0, 4096},
                  {"precision.parameters", parallel.parameter_bytes, 1, 8},
                  {"precision.gradients", parallel.gradient_bytes, 1, 8},
                  {"precision.optimizer", parallel.optimizer_bytes, 0, 24}});
}

void check_ranges(const JobSpec& job, Problems& problems) {
  std::vector<Range> ranges;
  model_ranges(job.model, ranges);
  attention_ranges(job.model.attention, ranges);
  moe_ranges(job.model, ranges);
  mixer_ranges(job.model, ranges);
  parallel_ranges(job.parallel, ranges);
  for (const Range& range : ranges) {
    if (range.value >= range.least && range.value <= range.most) continue;
    const std::string_view name = range.key.substr(range.key.rfind('.') + 1);
    problems.push_back({std::string(range.key),
                        fmt::format("{} is {}; it must be {} to {}", name, range.value, range.least, range.most)});
  }
  if (const Bytes bytes = job.parallel.framework_bytes; bytes < 0 || bytes > kTiB)
    problems.push_back({"parallel.framework_memory", fmt::format("framework_memory is {}; it must be at most {}",
                                                                 format_bytes(bytes), format_bytes(kTiB))});
  if (job.model.layers.empty() || job.model.layers.size() > static_cast<std::size_t>(kMostLayers)) {
    problems.push_back({"model.layers", fmt::format("the model has {} layers; it must have 1 to {}",
                                                    job.model.layers.size(), kMostLayers)});
  }
}

/// U+202A to U+202E and U+2066 to U+2069 in UTF-8: what stands beside them would read as something else.
bool has_turns(std::string_view text) {
  for (const std::string_view beginning : {"\xe2\x80", "\xe2\x81"})
    for (std::size_t at = text.find(beginning); at != std::string_view::npos; at = text.find(beginning, at + 1)) {
      const int last = at + 2 < text.size() ? static_cast<unsigned char>(text[at + 2]) : 0;
      if (beginning.back() == '\x80' ? last >= 0xaa && last <= 0xae : last >= 0xa6 && last <= 0xa9) return true;
    }
  return false;
}

/// Names reach terminals and reports as they are, so control characters and what turns the direction of text stay out.
void check_names(const JobSpec& job, Problems& problems) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (job.device.empty()) problems.push_back({"device", "no device is named; write the name of a file in devices/"});
  for (const auto& [key, name] : {std::pair<const char*, const std::string&>{"model.name", job.model.name},
                                  std::pair<const char*, const std::string&>{"device", job.device}}) {
    if (std::ranges::any_of(name, is_control))
      problems.push_back({key, "the name holds a control character; use letters, digits, '-', '_' and '.'"});
    if (has_turns(name))
      problems.push_back({key, "the name holds a character that turns the direction of text; write it without"});
  }
}

void check_capacity(const ModelSpec& model, Problems& problems) {
  const MoeSpec& moe = model.moe;
  if (moe.capacity_factor == 0) {
    if (moe.pad_to_capacity)
      problems.push_back({"model.moe.pad_to_capacity", "pad_to_capacity needs a capacity_factor, such as 1.25"});
    return;
  }
  if (moe.drops() && moe.capacity_factor <= static_cast<double>(std::max<std::int64_t>(1, moe.experts))) return;
  problems.push_back({"model.moe.capacity_factor",
                      fmt::format("capacity_factor is {}; it must be above 0 and at most the number of experts, {}",
                                  moe.capacity_factor, moe.experts)});
}

void check_load(const ExpertLoadSpec& load, Problems& problems) {
  const auto need = [&problems](const char* key, double value, bool right, std::string_view rule) {
    if (right) return;  // NaN fails every comparison, so it is refused as well
    problems.push_back({fmt::format("expert_load.{}", key), fmt::format("{} is {}; it must be {}", key, value, rule)});
  };
  need("mean", load.mean, load.mean > 0 && load.mean <= kMostMeanLoad, "above 0 and at most 65536 (1: balanced)");
  need("coefficient_of_variation", load.coefficient_of_variation,
       load.coefficient_of_variation >= 0 && load.coefficient_of_variation <= 10, "0 to 10");
  need("layer_correlation", load.layer_correlation, load.layer_correlation >= 0 && load.layer_correlation <= 1,
       "0 to 1");
  need("popularity_share", load.popularity_share, load.popularity_share >= 0 && load.popularity_share <= 1, "0 to 1");
  need("persistence", load.persistence, load.persistence >= 0 && load.persistence <= 1, "0 to 1");
  if (load.popularity_share + load.layer_correlation > 1)
    problems.push_back({"expert_load.popularity_share",
                        fmt::format("popularity_share is {} and layer_correlation {}: shares of one variance; together "
                                    "they must be at most 1",
                                    load.popularity_share, load.layer_correlation)});
  need("quantile", load.quantile,
       load.quantile == 0 || (load.quantile >= kLeastLoadQuantile && load.quantile <= kMostLoadQuantile),
       fmt::format("from {} to {}, as far as peaks are sampled (0: the cheapest)", kLeastLoadQuantile,
                   kMostLoadQuantile));
}

// ---- divisibility -------------------------------------------------------------------------------------------------

/// The divisors of n next to k, as "4 or 8".
std::string near_divisors(std::int64_t n, std::int64_t k) {
  std::int64_t below = 1;
  std::int64_t above = n;
  const auto consider = [&](std::int64_t divisor) {
    if (divisor <= k) below = std::max(below, divisor);
    if (divisor >= k) above = std::min(above, divisor);
  };
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    consider(d);
    consider(n / d);
  }
  return k > n || below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

struct Division {
  std::string key;  ///< of the degree that has to divide
  std::string part_name;
  std::int64_t part;
  std::string whole_name;
  std::int64_t whole;
};

void check_divides(const Division& division, Problems& problems) {
  if (division.whole % division.part == 0) return;
  problems.push_back(
      {division.key, fmt::format("{} {} does not divide {} {}; use {}", division.part_name, division.part,
                                 division.whole_name, division.whole, near_divisors(division.whole, division.part))});
}

void check_tensor(const JobSpec& job, Problems& problems) {
  const ModelSpec& model = job.model;
  const ParallelSpec& parallel = job.parallel;
  const auto need = [&](std::string_view name, std::int64_t whole) {
    check_divides({"parallel.tensor", "tensor", parallel.tensor, std::string(name), whole}, problems);
  };
  need("attention heads", model.attention.heads);
  if (model.attention.kind == AttentionSpec::Kind::gqa) need("key-value heads", model.attention.kv_heads);
  if (has_dense(model)) need("dense_width", model.dense_width);
  if (has_moe(model)) {
    if (!parallel.tensor_extends_expert) need("the expert width", model.moe.width);
    if (model.moe.shared_width > 0) need("shared_width", model.moe.shared_width);
  }
  if (model.vocabulary % parallel.tensor != 0) {
    problems.push_back(
        {"model.vocabulary", fmt::format("tensor {} does not divide vocabulary {}; pad it to {}", parallel.tensor,
                                         model.vocabulary, round_up(model.vocabulary, parallel.tensor))});
  }
}

void check_sequence(const JobSpec& job, Problems& problems) {
  const ParallelSpec& parallel = job.parallel;
  check_divides({"parallel.context", "context", parallel.context, "sequence", job.model.sequence}, problems);
  if (job.model.sequence % parallel.context != 0 || !parallel.sequence_parallel) return;
  check_divides({"parallel.tensor", "tensor", parallel.tensor, "the sequence of one context rank,",
                 job.model.sequence / parallel.context},
                problems);
}

void check_attention(const AttentionSpec& attention, Problems& problems) {
  const bool mla = attention.kind == AttentionSpec::Kind::mla;
  for (const auto& [key, is_set] : {std::pair{"qk_norm", attention.qk_norm}, std::pair{"qkv_bias", attention.qkv_bias}})
    if (mla && is_set)
      problems.push_back({fmt::format("model.attention.{}", key),
                          fmt::format("{} belongs to `kind: gqa`; drop it, latents have norms of their own", key)});
  if (attention.global_every > 0 && attention.window == 0)
    problems.push_back({"model.attention.global_every",
                        "global_every is given without a window; write how many keys a query of the other layers "
                        "attends to, like window: 1024"});
  if (attention.global_every == 1)
    problems.push_back({"model.attention.global_every",
                        "global_every is 1, so that no layer has the window; drop both, or write 2 or more"});
  if (attention.kind == AttentionSpec::Kind::gqa) {
    check_divides({"model.attention.kv_heads", "kv_heads", attention.kv_heads, "heads", attention.heads}, problems);
  } else if (attention.v_padded && attention.v_head_dim > attention.qk_rope_dim + attention.qk_nope_dim) {
    problems.push_back(
        {"model.attention.v_padded",
         fmt::format("v_head_dim {} exceeds the query-key head {} it would be padded to; set v_padded: false",
                     attention.v_head_dim, attention.qk_rope_dim + attention.qk_nope_dim)});
  }
}

void check_exchange_parts(const JobSpec& job, Problems& problems) {
  const ParallelSpec& parallel = job.parallel;
  if (parallel.expert_exchange_parts <= 1) return;
  const auto wrong = [&](const std::string& why) {
    problems.push_back({"parallel.expert_exchange_parts",
                        fmt::format("expert_exchange_parts is {} but {}", parallel.expert_exchange_parts, why)});
  };
  const std::int64_t tokens =
      job.model.sequence * parallel.micro_batch / parallel.context / (parallel.sequence_parallel ? parallel.tensor : 1);
  if (!has_moe(job.model)) {
    wrong("the model has no MoE layer; use 1");
  } else if (!parallel.exchanges_rows()) {
    wrong("experts are on one device, which exchanges no rows; use 1");
  } else if (parallel.expert_exchange_parts > tokens) {
    wrong(fmt::format("a device has {} tokens of a micro-batch; use that many or less", tokens));
  }
}

void check_experts(const JobSpec& job, Problems& problems) {
  const ParallelSpec& parallel = job.parallel;
  const MoeSpec& moe = job.model.moe;
  check_exchange_parts(job, problems);
  if (!has_moe(job.model)) {
    if (parallel.expert > 1) {
      problems.push_back(
          {"parallel.expert", fmt::format("expert is {} but the model has no MoE layer; use 1", parallel.expert)});
    }
    return;
  }
  if (moe.shared_gate && moe.shared_width == 0)
    problems.push_back({"model.moe.shared_gate",
                        "shared_gate is true but there are no shared experts; write their "
                        "shared_width, or false"});
  if (moe.top_k > moe.experts) {
    problems.push_back({"model.moe.top_k", fmt::format("top_k {} exceeds the {} experts; use {} or less", moe.top_k,
                                                       moe.experts, moe.experts)});
  }
  if (moe.experts % parallel.expert_ranks() != 0) {
    const std::string ranks = parallel.tensor_extends_expert
                                  ? fmt::format("expert {} x tensor {} = {} expert ranks do", parallel.expert,
                                                parallel.tensor, parallel.expert_ranks())
                                  : fmt::format("expert {} does", parallel.expert);
    const std::int64_t step = parallel.expert_ranks() / parallel.expert;
    const std::string use = moe.experts % step == 0 ? near_divisors(moe.experts / step, parallel.expert)
                                                    : std::string("tensor_extends_expert: false");
    problems.push_back({"parallel.expert", fmt::format("{} not divide {} experts; use {}", ranks, moe.experts, use)});
  }
  check_divides({"parallel.expert", "expert", parallel.expert,
                 "the ranks experts can spread over, data x context =", std::int64_t{parallel.data} * parallel.context},
                problems);
}

void check_batch(const JobSpec& job, Problems& problems) {
  const ParallelSpec& parallel = job.parallel;
  const std::int64_t per_round = parallel.micro_batch * parallel.data;
  if (parallel.global_batch % per_round != 0) {
    const std::int64_t above = round_up(parallel.global_batch, per_round);
    const std::int64_t below = above - per_round;
    problems.push_back({"parallel.global_batch",
                        fmt::format("global_batch {} is not a multiple of micro_batch {} x data {} = {}; use {}",
                                    parallel.global_batch, parallel.micro_batch, parallel.data, per_round,
                                    below > 0 ? fmt::format("{} or {}", below, above) : fmt::format("{}", above))});
    return;
  }
  if (parallel.virtual_pipeline > 1 && parallel.micro_batches() % parallel.pipeline != 0) {
    const std::int64_t above = round_up(parallel.micro_batches(), parallel.pipeline) * per_round;
    problems.push_back(
        {"parallel.global_batch",
         fmt::format("{} micro-batches are not a multiple of pipeline {}, which the interleaved schedule needs; "
                     "use global_batch {} or virtual_pipeline 1",
                     parallel.micro_batches(), parallel.pipeline, above)});
  }
}

void check_sharding(const ParallelSpec& parallel, Problems& problems) {
  if (parallel.sharded_parameters && !parallel.sharded_gradients)
    problems.push_back(
        {"parallel.zero", "parameters are sharded without gradients; write 3, or 2 for gradients alone"});
  if (parallel.sharded_gradients && !parallel.distributed_optimizer)
    problems.push_back({"parallel.zero", "gradients are sharded without optimizer state; write 2 or 3, or 0 for none"});
}

void check_precision(const ParallelSpec& parallel, Problems& problems) {
  if (parallel.reuse_fp32_parameter && (parallel.parameter_bytes != 2 || parallel.optimizer_bytes < 4)) {
    problems.push_back(
        {"precision.reuse_fp32_parameter",
         "a 16-bit parameter and an fp32 master copy are needed to share one storage; use parameters: bf16 "
         "with master: fp32, or false"});
  }
}

// ---- products -----------------------------------------------------------------------------------------------------

struct Product {
  std::string_view key;  ///< the factor to shrink first
  std::string_view text;
  std::vector<std::int64_t> factors;
  std::int64_t most = kLargestProduct;
};

bool exceeds(const Product& product) {
  Bytes value = 1;
  for (const std::int64_t factor : product.factors) {
    const auto next_value = checked_multiply(value, factor);
    if (!next_value || *next_value > product.most) return true;
    value = *next_value;
  }
  return false;
}

void check_products(const JobSpec& job, Problems& problems) {
  const ModelSpec& model = job.model;
  const ParallelSpec& parallel = job.parallel;
  const auto layers = static_cast<std::int64_t>(model.layers.size()) + model.mtp_layers;
  const std::int64_t state = parallel.parameter_bytes + parallel.gradient_bytes + parallel.optimizer_bytes;
  const std::int64_t head =
      model.attention.kind == AttentionSpec::Kind::gqa
          ? model.attention.head_dim
          : model.attention.qk_rope_dim + model.attention.qk_nope_dim + model.attention.v_head_dim;
  const std::vector<Product> products = {
      {"model.vocabulary",
       "embedding and training state: vocabulary x hidden x bytes",
       {model.vocabulary, model.hidden, state}},
      {"model.attention.heads",
       "attention weights and training state: layers x heads x head size x hidden x bytes",
       {layers, model.attention.heads, head, model.hidden, 4, state}},
      {"model.dense_width",
       "dense weights and training state: layers x 3 x hidden x dense_width x bytes",
       {layers, 3, model.hidden, model.dense_width, state}},
      {"model.moe.experts",
       "expert weights and training state: layers x experts x 3 x hidden x width x bytes",
       {layers, model.moe.experts, 3, model.hidden, model.moe.width, state}},
      {"parallel.micro_batch",
       "logits: sequence x micro_batch x vocabulary x 4 bytes",
       {model.sequence, parallel.micro_batch, model.vocabulary, 4}},
      {"parallel.micro_batch",
       "routed rows: sequence x micro_batch x top_k x hidden x 4 bytes",
       {model.sequence, parallel.micro_batch, model.moe.top_k, model.hidden, 4}},
      {"parallel.micro_batch",
       "attention: sequence x micro_batch x heads x head size x 4 bytes",
       {model.sequence, parallel.micro_batch, model.attention.heads, head, 4}},
      {"parallel.micro_batch",
       "hidden states: sequence x micro_batch x widest layer x 4 bytes",
       {model.sequence, parallel.micro_batch, std::max({model.hidden, model.dense_width, model.moe.shared_width}), 8}},
      {"parallel.global_batch", "tokens of a step: sequence x global_batch", {model.sequence, parallel.global_batch}},
      {"parallel.data",
       "devices: tensor x pipeline x context x data",
       {parallel.tensor, parallel.pipeline, parallel.context, parallel.data},
       std::int64_t{1} << 31},
      {"parallel.pipeline",
       "stages: pipeline x virtual_pipeline",
       {parallel.pipeline, parallel.virtual_pipeline},
       kMostPasses},
  };
  for (const Product& product : products) {
    if (!exceeds(product)) continue;
    problems.push_back({std::string(product.key),
                        fmt::format("too large: {} is beyond {}; lower one factor", product.text,
                                    product.most == kLargestProduct ? "2^53" : fmt::format("{}", product.most))});
  }
}

// ---- placement ----------------------------------------------------------------------------------------------------

constexpr const char* kPlacementKey = "parallel.placement";

/// The slots in the order a token meets them.
std::vector<Slot> along_pipeline(const ParallelSpec& parallel) {
  std::vector<Slot> slots;
  for (std::size_t chunk = 0; chunk < static_cast<std::size_t>(parallel.virtual_pipeline); ++chunk) {
    for (const auto& rank : parallel.slots) slots.insert(slots.end(), rank[chunk].begin(), rank[chunk].end());
  }
  return slots;
}

std::optional<std::string> shape_problem(const ParallelSpec& parallel) {
  if (parallel.slots.size() != static_cast<std::size_t>(parallel.pipeline)) {
    return fmt::format("the placement has {} ranks; pipeline is {}", parallel.slots.size(), parallel.pipeline);
  }
  for (std::size_t rank = 0; rank < parallel.slots.size(); ++rank) {
    if (parallel.slots[rank].size() != static_cast<std::size_t>(parallel.virtual_pipeline)) {
      return fmt::format("rank {} of the placement has {} chunks; virtual_pipeline is {}", rank,
                         parallel.slots[rank].size(), parallel.virtual_pipeline);
    }
  }
  return std::nullopt;
}

/// Each layer once and in order, then each MTP module once and in order.
std::optional<std::string> order_problem(const JobSpec& job) {
  std::int64_t next_layer = 0;
  std::int64_t next_module = 0;
  const auto layers = static_cast<std::int64_t>(job.model.layers.size());
  for (const Slot& slot : along_pipeline(job.parallel)) {
    if (slot.kind == Slot::Kind::noop) continue;
    const bool is_layer = slot.kind == Slot::Kind::layer;
    if (is_layer ? slot.layer != next_layer || next_layer == layers : slot.layer != next_module) {
      return fmt::format(
          "the placement has {} {} where {} is due; place every layer once, in order along the pipeline, then "
          "the MTP modules",
          is_layer ? "layer" : "MTP module", slot.layer,
          is_layer && next_layer == layers ? std::string("no further layer")
                                           : fmt::format("{}", is_layer ? next_layer : next_module));
    }
    ++(is_layer ? next_layer : next_module);
  }
  if (next_layer != layers) {
    return fmt::format("the placement holds {} of {} layers; place every layer once", next_layer, layers);
  }
  if (next_module != job.model.mtp_layers) {
    return fmt::format("the placement holds {} of {} MTP modules; place each once", next_module, job.model.mtp_layers);
  }
  return std::nullopt;
}

/// The main head reads what the last layer writes, before it leaves the stage.
std::optional<std::string> head_problem(const JobSpec& job) {
  const ParallelSpec& parallel = job.parallel;
  if (!parallel.is_head_apart()) {
    if (parallel.head_stage >= -1 && parallel.main_head_stage() < parallel.stages()) return std::nullopt;
    return fmt::format("head_stage is {}; stages are 0 to {}", parallel.head_stage, parallel.stages() - 1);
  }
  if (parallel.pipeline == 1)
    return fmt::format("head_stage is {}, but one rank has all stages; drop it", parallel.head_stage);
  if (job.model.mtp_layers == 0)
    return fmt::format("head_stage is {} of {} stages, but no MTP module follows the head; drop it",
                       parallel.head_stage, parallel.stages());
  const std::int64_t last_layer = parallel.last_layer_stage();
  if (parallel.head_stage == last_layer) return std::nullopt;
  return fmt::format("head_stage is {}, but the last layer lies in stage {}; write that one, or drop head_stage",
                     parallel.head_stage, last_layer);
}

/// The MTP modules feed the output head and read the last layer, so they have to sit behind it in the last stage.
std::optional<std::string> mtp_problem(const ParallelSpec& parallel) {
  bool after_mtp = false;
  for (std::size_t rank = 0; rank < parallel.slots.size(); ++rank) {
    for (std::size_t chunk = 0; chunk < parallel.slots[rank].size(); ++chunk) {
      const bool last_stage = rank + 1 == parallel.slots.size() && chunk + 1 == parallel.slots[rank].size();
      for (const Slot& slot : parallel.slots[rank][chunk]) {
        if (slot.kind == Slot::Kind::mtp && !last_stage) {
          return fmt::format(
              "MTP module {} lies on rank {} chunk {}; it belongs to the last chunk of the last rank, beside its "
              "output head",
              slot.layer, rank, chunk);
        }
        if (after_mtp && slot.kind == Slot::Kind::layer)
          return "a layer follows the MTP module; place the MTP module last";
        after_mtp = after_mtp || slot.kind == Slot::Kind::mtp;
      }
    }
  }
  return std::nullopt;
}

void check_placement(const JobSpec& job, Problems& problems) {
  std::optional<std::string> problem = shape_problem(job.parallel);
  if (!problem) problem = order_problem(job);
  if (!problem) problem = mtp_problem(job.parallel);
  if (problem) problems.push_back({kPlacementKey, *problem});
  if (problem) return;
  problem = head_problem(job);
  if (problem) problems.push_back({"parallel.placement.head_stage", *problem});
}

void check_step_length(const JobSpec& job, Problems& problems) {
  std::size_t slots = 0;
  for (const auto& rank : job.parallel.slots) {
    std::size_t of_rank = 0;
    for (const auto& chunk : rank) of_rank += chunk.size();
    slots = std::max(slots, of_rank);
  }
  const auto passes = checked_multiply(static_cast<Bytes>(slots), job.parallel.micro_batches());
  if (passes && *passes <= kMostPasses) return;
  problems.push_back(
      {"parallel.global_batch",
       fmt::format("{} micro-batches of {} slots on one rank exceed {} layer passes a step; lower global_batch "
                   "or raise data, micro_batch or pipeline",
                   job.parallel.micro_batches(), slots, kMostPasses)});
}

}  // namespace

std::int64_t ParallelSpec::last_layer_stage() const {
  std::int64_t last = -1;
  for (std::size_t rank = 0; rank < slots.size(); ++rank)
    for (std::size_t chunk = 0; chunk < slots[rank].size(); ++chunk)
      if (std::ranges::find(slots[rank][chunk], Slot::Kind::layer, &Slot::kind) != slots[rank][chunk].end())
        last = std::max(last, static_cast<std::int64_t>(chunk * slots.size() + rank));
  return last;
}

std::vector<SpecProblem> find_description_problems(const JobSpec& job) {
  Problems problems;
  check_ranges(job, problems);
  check_capacity(job.model, problems);
  check_load(job.expert_load, problems);
  check_names(job, problems);
  if (!problems.empty()) return problems;  // the rules below divide by and multiply what is now known to be in range
  check_products(job, problems);
  check_attention(job.model.attention, problems);
  check_tensor(job, problems);
  check_sequence(job, problems);
  check_experts(job, problems);
  check_batch(job, problems);
  check_sharding(job.parallel, problems);
  check_precision(job.parallel, problems);
  check_placement(job, problems);
  if (problems.empty()) check_step_length(job, problems);
  return problems;
}

std::vector<SpecProblem> find_problems(const JobSpec& job) {
  const std::vector<SpecProblem> problems = find_description_problems(job);
  return problems.empty() ? find_unplanned(job) : problems;
}

}  // namespace tidemark::graph_build
