#include "planner/storage_controls.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

namespace tidemark::plan {
namespace {

using graph_build::AttentionSpec;
using graph_build::JobSpec;
using graph_build::LayerKind;
using Key = std::string_view;

constexpr Key kHidden = "model.hidden", kVocabulary = "model.vocabulary", kDenseWidth = "model.dense_width";
constexpr Key kActivation = "model.activation", kTied = "model.tied_embedding";
constexpr Key kHeads = "model.attention.heads", kKvHeads = "model.attention.kv_heads";
constexpr Key kHeadDim = "model.attention.head_dim", kNope = "model.attention.qk_nope_dim";
constexpr Key kRope = "model.attention.qk_rope_dim", kValue = "model.attention.v_head_dim";
constexpr Key kQueryRank = "model.attention.q_lora_rank", kKeyValueRank = "model.attention.kv_lora_rank";
constexpr Key kQkNorm = "model.attention.qk_norm", kQkvBias = "model.attention.qkv_bias";
constexpr Key kOwnValue = "model.attention.v_own_storage", kPadded = "model.attention.v_padded";
constexpr Key kExperts = "model.moe.experts", kTopK = "model.moe.top_k", kExpertWidth = "model.moe.width";
constexpr Key kSharedWidth = "model.moe.shared_width", kRouterFp32 = "model.moe.router_fp32";
constexpr Key kSharedGate = "model.moe.shared_gate", kNorm = "model.norm", kZero = "parallel.zero";
constexpr Key kCompute = "precision.compute", kGradients = "precision.gradients";
constexpr Key kTensor = "parallel.tensor", kExpert = "parallel.expert", kData = "parallel.data";
constexpr Key kExtends = "parallel.tensor_extends_expert", kContext = "parallel.context";
constexpr Key kDistributed = "parallel.distributed_optimizer", kReuse = "precision.reuse_fp32_parameter";

/// The rows of a storage [rows, columns].
enum class Rows : std::uint8_t {
  none,      ///< it has other dimensions
  local,     ///< this device's share of the tokens
  full,      ///< tokens of the tensor-parallel group
  whole,     ///< of all context ranks as well
  received,  ///< rows its experts process
  gathered,  ///< of all devices that share its experts
  sent,      ///< rows of the tokens here
  nodes,     ///< tokens of every node of the expert group
};

struct SizeRule {
  Key name;  ///< module path and name, without a part's number; `*` stands for anything
  Rows rows = Rows::none;
  std::array<Key, 18> columns{};  ///< keys that change the columns; empty ones count for nothing
};

/// The first rule that a name matches is the storage's.
constexpr SizeRule kSizeRules[] = {
    // Attention. Widths of both kinds: keys of the other kind are left out of the answer.
    {"self_attention.q", Rows::full, {kHeads, kNope, kRope, kHeadDim, kTensor}},
    {"self_attention.q_up*", Rows::full, {kHeads, kNope, kRope, kTensor}},
    {"self_attention.q_gradient", Rows::full, {kHeads, kNope, kRope, kHeadDim, kTensor}},
    {"self_attention.k", Rows::full, {kHeads, kNope, kRope, kKvHeads, kHeadDim, kTensor}},
    {"self_attention.k_gradient", Rows::full, {kHeads, kNope, kRope, kKvHeads, kHeadDim, kTensor}},
    {"self_attention.v", Rows::full, {kHeads, kValue, kPadded, kNope, kRope, kKvHeads, kHeadDim, kTensor}},
    {"self_attention.v_gradient", Rows::full, {kHeads, kValue, kPadded, kNope, kRope, kKvHeads, kHeadDim, kTensor}},
    {"self_attention.qkv*", Rows::full, {kHeads, kKvHeads, kHeadDim, kTensor}},
    {"self_attention.query_key_*", Rows::full, {kHeads, kKvHeads, kHeadDim, kTensor}},
    {"self_attention.attention_out_fp8", Rows::full, {kHeads, kValue, kHeadDim, kTensor}},
    {"self_attention.kv", Rows::full, {kOwnValue, kHeads, kNope, kValue, kTensor}},
    {"self_attention.kv_up", Rows::full, {kHeads, kNope, kValue, kTensor}},
    {"self_attention.kv_up*", Rows::full, {kHeads, kNope, kValue, kRope, kTensor}},
    {"self_attention.key_value_gradient_all",
     Rows::whole,
     {kHeads, kNope, kRope, kValue, kPadded, kKvHeads, kHeadDim, kTensor}},
    {"self_attention.key_value_*", Rows::full, {kHeads, kNope, kRope, kValue, kPadded, kKvHeads, kHeadDim, kTensor}},
    {"self_attention.attention_out_core", Rows::full, {kHeads, kValue, kHeadDim, kTensor}},
    {"self_attention.core_gradient", Rows::full, {kHeads, kValue, kHeadDim, kTensor}},
    {"self_attention.softmax_stats", Rows::full, {kHeads, kTensor}},
    {"self_attention.latent_q*", Rows::local, {kQueryRank}},
    {"self_attention.latent_kv_norm", Rows::local, {kKeyValueRank}},
    {"self_attention.latent_kv*", Rows::local, {kKeyValueRank, kRope}},
    {"self_attention.latent*", Rows::local, {kQueryRank, kKeyValueRank, kRope}},
    {"self_attention.attention.q_up_projection_*", Rows::full, {kQueryRank, kHidden}},
    {"self_attention.attention.kv_up_projection_again_*", Rows::full, {kKeyValueRank}},
    {"self_attention.attention.kv_up_projection_*", Rows::full, {kKeyValueRank, kRope}},
    {"self_attention.attention.*", Rows::full, {kHidden}},
    {"self_attention.*", Rows::local, {kHidden}},
    // Experts. Rows travel in the order of tokens or of experts.
    {"mlp.experts.router*", Rows::local, {kExperts, kRouterFp32}},
    {"mlp.experts.fc1_out", Rows::received, {kExpertWidth, kActivation}},
    {"mlp.experts.fc1_gradient", Rows::received, {kExpertWidth, kActivation}},
    {"mlp.experts.act_*", Rows::received, {kExpertWidth}},
    {"mlp.experts.unpermute_*", Rows::sent, {kHidden}},
    {"mlp.experts.dispatch_send_rows", Rows::sent, {kHidden}},
    {"mlp.experts.dispatch_gradient", Rows::sent, {kHidden}},
    {"mlp.experts.*_tokens", Rows::nodes, {kHidden}},
    {"mlp.experts.*_sums", Rows::nodes, {kHidden}},
    {"mlp.experts.y2_*", Rows::local, {kHidden}},
    {"mlp.experts.routed_out", Rows::local, {kHidden}},
    {"mlp.experts.*_gathered_rows", Rows::gathered, {kHidden}},
    {"mlp.experts.*_received_rows", Rows::sent, {kHidden}},
    {"mlp.experts.*_reduced_rows", Rows::sent, {kHidden}},
    {"mlp.experts.*", Rows::received, {kHidden}},
    {"mlp.shared_experts.shared_fc1*", Rows::full, {kSharedWidth, kActivation, kTensor}},
    {"mlp.shared_experts.shared_act*", Rows::full, {kSharedWidth, kTensor}},
    {"mlp.shared_experts.shared_expert.*", Rows::full, {kHidden}},
    {"mlp.shared_experts.*", Rows::local, {kHidden}},
    // Dense layers.
    {"mlp.fc1*", Rows::full, {kDenseWidth, kActivation, kTensor}},
    {"mlp.act_*", Rows::full, {kDenseWidth, kTensor}},
    {"mlp.mlp.*", Rows::full, {kHidden}},
    // Whole weights and gradients of a block.
    {"weights.experts_*", Rows::none, {kExpertWidth, kExperts, kHidden, kActivation, kExpert, kTensor, kExtends}},
    {"weights.dense_*",
     Rows::none,
     {kHidden, kDenseWidth, kVocabulary, kHeads, kKvHeads, kHeadDim, kQueryRank, kKeyValueRank, kNope, kRope, kValue,
      kSharedWidth, kExperts, kActivation, kNorm, kTensor, kTied, kSharedGate}},
    // Vocabulary. Norms of the head are of its own tokens.
    {"*.final_norm_*", Rows::local, {kHidden}},
    {"*.logits_gathered", Rows::full, {kHidden}},
    {"*.logits_again_gathered", Rows::full, {kHidden}},
    {"*.logits_gradient_partial", Rows::full, {kHidden}},
    {"*.logits*", Rows::full, {kVocabulary, kTensor}},
    {"mtp.projection_columns*", Rows::full, {kHidden, kTensor}},
    {"mtp.mtp.*", Rows::full, {kHidden}},
    {"embedding.embedding.*", Rows::full, {kHidden}},
    {"*_gathered", Rows::full, {kHidden}},
    {"*_partial", Rows::full, {kHidden}},
    {"optimizer.update_scratch",
     Rows::none,
     {kDistributed, kData, kTensor, kHidden, kVocabulary, kDenseWidth, kExpertWidth, kExperts, kExpert, kContext}},
    {"*", Rows::local, {kHidden}},
};

/// Elements of a group of parameters, by the group's name (graph_build/parameter_groups.h).
constexpr SizeRule kGroupRules[] = {
    {"attention",
     Rows::none,
     {kHidden, kHeads, kQueryRank, kKeyValueRank, kNope, kRope, kValue, kKvHeads, kHeadDim, kQkvBias}},
    {"norms", Rows::none, {kHidden, kNorm, kQueryRank, kKeyValueRank, kQkNorm}},
    {"mlp", Rows::none, {kDenseWidth, kSharedWidth, kHidden, kActivation, kExperts, kSharedGate}},
    {"experts", Rows::none, {kExpertWidth, kExperts, kHidden, kActivation, kExpert}},
    {"projection", Rows::none, {kHidden, "model.mtp_layers"}},
    {"embedding", Rows::none, {kVocabulary, kHidden, "model.mtp_layers", kTied}},
    {"head", Rows::none, {kVocabulary, kHidden, kTied}},
    {"*", Rows::none, {kHidden}},
};

bool matches(Key rule, std::string_view name) {
  const std::size_t star = rule.find('*');
  if (star == Key::npos) return rule == name;
  if (!name.starts_with(rule.substr(0, star))) return false;
  for (std::size_t skipped = star; skipped <= name.size(); ++skipped)
    if (matches(rule.substr(star + 1), name.substr(skipped))) return true;
  return false;
}

const SizeRule& rule_of(std::span<const SizeRule> rules, std::string_view name) {
  return *std::ranges::find_if(rules, [&](const SizeRule& rule) { return matches(rule.name, name); });
}

/// `mlp.experts.part1.fc1_in` is sized as `mlp.experts.fc1_in`.
std::string sized_name(const StorageTemplate& storage) {
  std::string module = storage.module_path;
  if (const std::size_t part = module.find(".part"); part != std::string::npos) module.resize(part);
  return module.empty() ? storage.name : module + "." + storage.name;
}

/// The answer, without keys that the job cannot have and without repeats.
class KeyList {
 public:
  explicit KeyList(const JobSpec& job) : job_(job) {}

  void add(Key key) {
    if (!key.empty() && has(key) && std::ranges::find(keys_, key) == keys_.end()) keys_.push_back(key);
  }
  void add(std::span<const Key> keys) {
    for (const Key key : keys) add(key);
  }
  void add(std::initializer_list<Key> keys) { add(std::span<const Key>(keys)); }
  [[nodiscard]] std::vector<Key> keys() && { return std::move(keys_); }

 private:
  [[nodiscard]] bool has(Key key) const {
    const bool mla = job_.model.attention.kind == AttentionSpec::Kind::mla;
    if (key == kKvHeads || key == kHeadDim || key == kQkNorm || key == kQkvBias) return !mla;
    if (key == kSharedGate) return job_.model.moe.experts > 0 && job_.model.moe.shared_width > 0;
    if (key.starts_with("model.attention.") && key != kHeads) return mla;
    if (key.starts_with("model.moe.")) return job_.model.moe.experts > 0;
    if (key == kDenseWidth) return std::ranges::count(job_.model.layers, LayerKind::dense) > 0;
    return true;
  }

  const JobSpec& job_;
  std::vector<Key> keys_;
};

void add_rows(KeyList& keys, Rows rows, const JobSpec& job) {
  if (rows == Rows::none) return;
  keys.add({"parallel.micro_batch", "model.sequence"});
  const bool routed = rows == Rows::sent || rows == Rows::received || rows == Rows::gathered;
  if (routed)
    keys.add({kTopK, "expert_load.mean", "expert_load.coefficient_of_variation", "expert_load.layer_correlation",
              "expert_load.popularity_share", "expert_load.quantile"});
  if (routed && job.model.moe.drops())
    keys.add({"model.moe.capacity_factor", "model.moe.capacity_level", "model.moe.pad_to_capacity"});
  const bool of_device = rows == Rows::local || rows == Rows::nodes || rows == Rows::sent || rows == Rows::received;
  if (of_device && job.parallel.tensor > 1) keys.add("parallel.sequence_parallel");
  if (of_device && job.parallel.sequence_parallel) keys.add(kTensor);
  if (rows == Rows::received) keys.add({kTensor, kExtends});
  if (rows == Rows::nodes) keys.add({kExpert, kTensor, kExtends, "parallel.hierarchical_expert_communication"});
  if (routed && job.parallel.expert_exchange_parts > 1) keys.add("parallel.expert_exchange_parts");
  if (rows != Rows::whole) keys.add(kContext);
}

void add_role(KeyList& keys, StorageRole role, const graph_build::ParallelSpec& parallel) {
  if (role != StorageRole::optimizer_state) {
    const bool parameter = role == StorageRole::parameter;
    keys.add({parameter ? Key("precision.parameters") : kGradients, kZero});
    if (parameter ? parallel.sharded_parameters : parallel.sharded_gradients) keys.add({kData, kContext});
    return;
  }
  keys.add({"precision.optimizer.master", "precision.optimizer.moments", kReuse, kDistributed, kData, kContext});
}

/// How many there are of it.
void add_counts(KeyList& keys, const StorageTemplate& storage) {
  if (storage.persists()) return keys.add({"model.layers", "parallel.pipeline"});
  if (storage.saved_for_backward) keys.add({"parallel.pipeline", "parallel.virtual_pipeline"});
}

/// Linear layers alone read it, of which products in fp8 keep 8 bits; their weights have 8-bit copies.
bool is_of_products(std::string_view name, const JobSpec& job) {
  constexpr std::array<Key, 9> kNames = {"input_norm.y1",
                                         "mlp.act_out",
                                         "mlp.experts.fc1_in",
                                         "mlp.experts.act_out",
                                         "mlp.shared_experts.shared_act_out",
                                         "self_attention.attention.qkv_projection_gathered",
                                         "self_attention.attention.qkv_projection_again_gathered",
                                         "mlp.mlp.fc1_gathered",
                                         "mlp.mlp.fc1_again_gathered"};
  if (name == "mlp_norm.y2") return std::ranges::count(job.model.layers, LayerKind::dense) > 0;
  if (name == "self_attention.attention.q_up_projection_gathered" ||
      name == "self_attention.attention.q_up_projection_again_gathered")
    return job.model.attention.q_lora_rank == 0;
  return std::ranges::find(kNames, name) != kNames.end();
}

std::vector<Key> state_keys(const StorageTemplate& storage, const JobSpec& job) {
  KeyList keys(job);
  const std::string_view name = storage.name;
  const std::string_view group = name.substr(0, name.rfind('.'));
  add_role(keys, storage.role, job.parallel);
  keys.add(rule_of(kGroupRules, group).columns);
  if (group != "norms") keys.add(kTensor);
  if (group == "norms" && job.model.attention.qk_norm) keys.add(kHeadDim);
  if (group == "experts" && storage.role == StorageRole::optimizer_state) keys.add(kExpert);
  const bool has_copies = group == "attention" || group == "mlp" || group == "experts";
  if (has_copies && storage.role == StorageRole::parameter) keys.add(kCompute);
  // A model has one of these, however many layers there are and wherever it is cut.
  if (group != "head" && group != "embedding") add_counts(keys, storage);
  return std::move(keys).keys();
}

}  // namespace

std::vector<std::string_view> control_keys(const StorageTemplate& storage, const JobSpec& job) {
  if (storage.persists()) return state_keys(storage, job);
  KeyList keys(job);
  const std::string name = sized_name(storage);
  const SizeRule& rule = rule_of(kSizeRules, name);
  add_rows(keys, rule.rows, job);
  keys.add(rule.columns);
  if (is_of_products(name, job)) keys.add(kCompute);
  if (name.ends_with("_whole_gradients")) keys.add(kGradients);
  add_counts(keys, storage);
  return std::move(keys).keys();
}

std::vector<std::string_view> control_keys(ReservePart part) {
  switch (part) {
    case ReservePart::context:
    case ReservePart::workspace:
      break;
    case ReservePart::collectives:
      return {"parallel.communicators", "device"};
    case ReservePart::framework:
      return {"parallel.framework_memory"};
  }
  return {"device"};
}

}  // namespace tidemark::plan
