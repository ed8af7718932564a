#include "planner/prices/operator_use.h"

#include <string_view>

namespace tidemark::prices {
namespace {

constexpr std::string_view kBackward = "_backward";

/// Without the number of a part and without what says backward.
std::string_view base_name(std::string_view name) {
  name = name.substr(0, name.find(".part"));
  if (name.ends_with(kBackward)) name.remove_suffix(kBackward.size());
  return name;
}

double bytes_of(const Graph& graph, StorageId storage) {
  return static_cast<double>(graph.storages[row(storage)].expected_bytes);
}

double first_written_bytes(const Graph& graph, OpId op) {
  for (const Access& access : graph.accesses_of(op))
    if (access.kind == AccessKind::write) return bytes_of(graph, access.storage);
  return 0;
}

constexpr double kElementBytes = graph_build::kActivationBytes;

OperatorUse norm_use(std::string_view base, double written, bool is_backward, const graph_build::ModelSpec& model) {
  OperatorUse use{.op = Operator::rms_norm, .is_backward = is_backward, .elements = written};
  if (base == "attention.latent_norms") {  // of both latents, whose gradient has that of the rope key beside it
    const graph_build::AttentionSpec& a = model.attention;
    const auto latents = static_cast<double>(a.q_lora_rank + a.kv_lora_rank);
    use.elements *= (a.q_lora_rank > 0 ? latents : static_cast<double>(a.kv_lora_rank)) /
                    (latents + static_cast<double>(a.qk_rope_dim));
    use.tensors = a.q_lora_rank > 0 ? 2 : 1;
  }
  if (base == "mtp.join_norms") {  // of the hidden state and of the embedding, whose gradients are two storages
    use.tensors = 2;
    if (is_backward) use.elements *= 2;
  }
  return use;
}

OperatorUse rotary_use(std::string_view base, bool is_backward, const graph_build::ModelSpec& model,
                       const graph_build::DeviceShapes& s) {
  OperatorUse use{.op = Operator::rotary, .is_backward = is_backward};
  const auto tokens = static_cast<double>(s.tokens);
  const auto rope = static_cast<double>(model.attention.qk_rope_dim);
  if (base == "attention.q_rotary") {
    use.elements = tokens * static_cast<double>(s.heads) * rope;
  } else if (base == "attention.kv_rotary") {  // one key for all heads
    use.elements = tokens * rope;
  } else {
    use.elements = tokens * static_cast<double>((s.heads + s.kv_heads) * s.qk_dim);
    use.tensors = 2;
  }
  return use;
}

}  // namespace

std::optional<OperatorUse> operator_use(const Graph& graph, OpId example, const graph_build::ModelSpec& model,
                                        const graph_build::DeviceShapes& shapes) {
  const OpTemplate& op = graph.template_of(example);
  if (op.cost.kind != WorkKind::vector) return std::nullopt;
  const std::string_view base = base_name(op.name);
  const bool is_backward = op.phase != OpPhase::forward;
  const double written = first_written_bytes(graph, example);
  if (base.ends_with("_norm") || base.ends_with("_norms"))
    return norm_use(base, written / kElementBytes, is_backward, model);
  if (base.ends_with("rotary")) return rotary_use(base, is_backward, model, shapes);
  if (base.ends_with(".activation")) {
    if (model.activation != graph_build::Activation::swiglu) return std::nullopt;  // one kernel either way
    const EagerOperator swiglu = eager_operator(Operator::swiglu, false);
    const double fused = (is_backward ? swiglu.backward : swiglu.forward).fused_bytes;
    return OperatorUse{.op = Operator::swiglu, .is_backward = is_backward, .elements = op.cost.memory_bytes / fused};
  }
  // Picking rows and giving them their gradients write rows; summing rows up writes tokens.
  const bool is_permute = base == "moe.permute";
  if (!is_permute && base != "moe.unpermute") return std::nullopt;
  const bool writes_rows = is_permute != is_backward;
  return OperatorUse{.op = is_permute ? Operator::permute : Operator::unpermute,
                     .is_backward = is_backward,
                     .elements = (writes_rows ? written : op.cost.memory_bytes - written) / kElementBytes};
}

std::optional<StorageId> first_activation_read(const Graph& graph, OpId op) {
  for (const Access& access : graph.accesses_of(op))
    if (access.kind == AccessKind::read && graph.template_of(access.storage).role == StorageRole::activation)
      return access.storage;
  return std::nullopt;
}

}  // namespace tidemark::prices
