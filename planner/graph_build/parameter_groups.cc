#include "planner/graph_build/parameter_groups.h"

#include <algorithm>

namespace tidemark::graph_build {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Matrices of a gated or plain MLP of hidden width `width` on one device.
std::vector<ParameterTensor> mlp_tensors(const ModelSpec& model, const std::string& prefix, std::int64_t width,
                                         std::int64_t copies) {
  const std::int64_t inputs = is_gated(model.activation) ? 2 : 1;
  return {{prefix + "fc1", copies * model.hidden * inputs * width, true},
          {prefix + "fc2", copies * model.hidden * width, true}};
}

std::vector<ParameterTensor> mla_tensors(const ModelSpec& model, std::int64_t tensor) {
  const AttentionSpec& a = model.attention;
  const std::int64_t h = model.hidden;
  const std::int64_t heads = a.heads / tensor;
  const std::int64_t query_rows = a.q_lora_rank > 0 ? a.q_lora_rank : h;
  std::vector<ParameterTensor> tensors;
  if (a.q_lora_rank > 0) tensors.push_back({"q_down", h * a.q_lora_rank, true});
  tensors.push_back({"kv_down", h * (a.kv_lora_rank + a.qk_rope_dim), true});
  tensors.push_back({"q_up", query_rows * heads * (a.qk_nope_dim + a.qk_rope_dim), true});
  tensors.push_back({"kv_up", a.kv_lora_rank * heads * (a.qk_nope_dim + a.v_head_dim), true});
  tensors.push_back({"o_proj", heads * a.v_head_dim * h, true});
  return tensors;
}

std::vector<ParameterTensor> gqa_tensors(const ModelSpec& model, std::int64_t tensor) {
  const AttentionSpec& a = model.attention;
  const std::int64_t heads = a.heads / tensor;
  const std::int64_t kv_heads = std::max<std::int64_t>(1, a.kv_heads / tensor);
  const std::int64_t columns = (heads + 2 * kv_heads) * a.head_dim;
  std::vector<ParameterTensor> tensors{{"qkv", model.hidden * columns, true},
                                       {"o_proj", heads * a.head_dim * model.hidden, true}};
  if (a.qkv_bias) tensors.push_back({"qkv_bias", columns});
  return tensors;
}

ParameterGroup attention_group(const ModelSpec& model, const ParallelSpec& parallel) {
  const bool mla = model.attention.kind == AttentionSpec::Kind::mla;
  return {.name = "attention",
          .module_path = "self_attention",
          .tensors = mla ? mla_tensors(model, parallel.tensor) : gqa_tensors(model, parallel.tensor)};
}

ParameterGroup norm_group(const ModelSpec& model) {
  const std::int64_t count = model.norm == NormPlacement::sandwich ? 4 : 2;
  ParameterGroup group{.name = "norms", .module_path = "norms", .tensors = {{"norms", count * model.hidden}}};
  const AttentionSpec& a = model.attention;
  if (a.kind == AttentionSpec::Kind::mla) group.tensors.push_back({"latent_norms", a.q_lora_rank + a.kv_lora_rank});
  if (a.qk_norm) group.tensors.push_back({"qk_norms", 2 * a.head_dim});
  return group;
}

ParameterGroup experts_group(const ModelSpec& model, const ParallelSpec& parallel) {
  const std::int64_t split = parallel.tensor_extends_expert ? 1 : parallel.tensor;
  return {.name = "experts",
          .module_path = "mlp.experts",
          .expert = true,
          .tensors = mlp_tensors(model, "", model.moe.width / split, model.moe.experts / parallel.expert_ranks())};
}

ParameterGroup router_and_shared_group(const ModelSpec& model, const ParallelSpec& parallel) {
  ParameterGroup group{.name = "mlp", .module_path = "mlp", .tensors = {{"router", model.hidden * model.moe.experts}}};
  if (model.moe.shared_width == 0) return group;
  for (ParameterTensor& t : mlp_tensors(model, "shared_", model.moe.shared_width / parallel.tensor, 1)) {
    group.tensors.push_back(std::move(t));
  }
  if (model.moe.shared_gate) group.tensors.push_back({"shared_gate", model.hidden});
  return group;
}

std::int64_t vocabulary_shard(const ModelSpec& model, const ParallelSpec& parallel) {
  return divide_up(model.vocabulary, parallel.tensor) * model.hidden;
}

ParameterGroup embedding_group(const ModelSpec& model, const ParallelSpec& parallel) {
  return {.name = "embedding", .module_path = "embedding", .tensors = {{"word", vocabulary_shard(model, parallel)}}};
}

/// What the main head has on its rank, or what MTP modules' heads need of it on another.
struct HeadParts {
  bool is_main = true;
  bool has_matrix = true;  ///< false where the head uses the embedding's
};

ParameterGroup head_group(const ModelSpec& model, const ParallelSpec& parallel, HeadParts parts) {
  ParameterGroup group{.name = "head", .module_path = "head", .tensors = {}};
  if (parts.is_main) group.tensors.push_back({"final_norm", model.hidden});
  if (parts.has_matrix) group.tensors.push_back({kOutputMatrix, vocabulary_shard(model, parallel)});
  return group;
}

/// Joins the trunk and the embedding of the next token: 2h -> h, split by tensor parallelism; three norms.
ParameterGroup projection_group(const ModelSpec& model, const ParallelSpec& parallel) {
  return {.name = "projection",
          .module_path = "mtp",
          .tensors = {{"norms", 3 * model.hidden}, {"eh_proj", 2 * model.hidden * model.hidden / parallel.tensor}}};
}

ParameterSite mtp_site(const JobSpec& job, std::int32_t chunk, std::int32_t module, bool copies_embedding) {
  ParameterSite site{.kind = ParameterSite::Kind::mtp,
                     .chunk = chunk,
                     .layer = static_cast<std::int32_t>(job.model.layers.size()) + module,
                     .groups = layer_parameters(job.model, job.parallel, mtp_layer_kind(job.model))};
  site.groups.push_back(projection_group(job.model, job.parallel));
  if (copies_embedding) site.groups.push_back(embedding_group(job.model, job.parallel));
  return site;
}

ParameterSite layer_site(const JobSpec& job, std::int32_t chunk, std::int32_t layer) {
  const LayerKind kind = job.model.layers[static_cast<std::size_t>(layer)];
  return {.kind = kind == LayerKind::moe ? ParameterSite::Kind::moe_layer : ParameterSite::Kind::dense_layer,
          .chunk = chunk,
          .layer = layer,
          .groups = layer_parameters(job.model, job.parallel, kind)};
}

}  // namespace

std::int64_t ParameterGroup::elements() const {
  std::int64_t sum = 0;
  for (const ParameterTensor& t : tensors) sum += t.elements;
  return sum;
}

std::int64_t ParameterGroup::largest_tensor() const {
  std::int64_t largest = 0;
  for (const ParameterTensor& t : tensors) largest = std::max(largest, t.elements);
  return largest;
}

std::int64_t ParameterGroup::quantized_elements() const {
  std::int64_t sum = 0;
  for (const ParameterTensor& t : tensors) sum += t.quantized ? t.elements : 0;
  return sum;
}

std::vector<ParameterGroup> layer_parameters(const ModelSpec& model, const ParallelSpec& parallel, LayerKind kind) {
  std::vector<ParameterGroup> groups{attention_group(model, parallel), norm_group(model)};
  if (kind == LayerKind::dense) {
    groups.push_back({.name = "mlp",
                      .module_path = "mlp",
                      .tensors = mlp_tensors(model, "", model.dense_width / parallel.tensor, 1)});
    return groups;
  }
  groups.push_back(router_and_shared_group(model, parallel));
  groups.push_back(experts_group(model, parallel));
  return groups;
}

std::vector<ParameterSite> rank_parameters(const JobSpec& job, std::int32_t rank) {
  const ParallelSpec& parallel = job.parallel;
  const bool first = rank == 0;
  std::vector<ParameterSite> sites;
  if (first) {
    sites.push_back({.kind = ParameterSite::Kind::embedding, .groups = {embedding_group(job.model, parallel)}});
  }
  bool copied = false;  // MTP modules share one copy
  const auto& chunks = parallel.slots[static_cast<std::size_t>(rank)];
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    for (const Slot& slot : chunks[chunk]) {
      const auto number = static_cast<std::int32_t>(chunk);
      if (slot.kind == Slot::Kind::layer) sites.push_back(layer_site(job, number, slot.layer));
      if (slot.kind != Slot::Kind::mtp) continue;
      const bool copies = !first && !copied && !job.model.tied_embedding;
      sites.push_back(mtp_site(job, number, slot.layer, copies));
      copied = copied || copies;
    }
  }
  const std::int64_t head_stage = parallel.main_head_stage();
  const bool is_main = rank == head_stage % parallel.pipeline;
  if (is_main || rank == parallel.pipeline - 1) {
    const std::int64_t stage = is_main ? head_stage : parallel.stages() - 1;
    const HeadParts parts{.is_main = is_main, .has_matrix = !(job.model.tied_embedding && first)};
    sites.push_back({.kind = ParameterSite::Kind::head,
                     .chunk = static_cast<std::int32_t>(stage / parallel.pipeline),
                     .groups = {head_group(job.model, parallel, parts)}});
  }
  return sites;
}

std::int64_t optimizer_shards(const ParallelSpec& parallel, bool expert) {
  if (!parallel.distributed_optimizer) return 1;
  const std::int64_t shards = expert ? parallel.expert_data() : std::int64_t{parallel.data} * parallel.context;
  return std::max<std::int64_t>(1, shards);
}

Bytes parameter_state_bytes(const ParallelSpec& parallel, const ParameterGroup& group) {
  constexpr Bytes kCopies = 2, kCopyBytes = 1;
  const std::int64_t shards = parallel.sharded_parameters ? optimizer_shards(parallel, group.expert) : 1;
  const bool copies = parallel.compute == ParallelSpec::Compute::fp8;
  return divide_up(group.elements(), shards) * parallel.parameter_bytes +
         (copies ? kCopies * kCopyBytes * group.quantized_elements() : 0);
}

Bytes gradient_state_bytes(const ParallelSpec& parallel, const ParameterGroup& group) {
  const std::int64_t shards = parallel.sharded_gradients ? optimizer_shards(parallel, group.expert) : 1;
  return divide_up(group.elements(), shards) * parallel.gradient_bytes;
}

Bytes optimizer_state_bytes(const ParallelSpec& parallel, std::int64_t elements, bool expert) {
  // With a shared fp32 parameter the bf16 parameter is the upper half of the master copy; only the residual remains.
  const Bytes per_element = parallel.optimizer_bytes - (parallel.reuse_fp32_parameter ? parallel.parameter_bytes : 0);
  return divide_up(elements, optimizer_shards(parallel, expert)) * per_element;
}

}  // namespace tidemark::graph_build
