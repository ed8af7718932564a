#include "planner/step_time/row_refusal.h"

#include "planner/step_time/row_run.h"

namespace tidemark::step_time {
namespace {

/// Attention scores pass through a soft cap: no fused kernel of the sources does that, and the arguments do not say it.
bool has_soft_cap(const std::string& model) {
  return model.starts_with("Gemma2-");
}

const char* refuse_attention(const ModelWords& model) {
  if (model.heads == 0) return "attention heads not stated";
  if (model.mla) {
    const TimedMla& mla = *model.mla;
    if (mla.kv_lora == 0 || mla.qk_nope + mla.qk_rope == 0 || mla.v == 0) return "latent attention without its widths";
  } else if (model.head_dim == 0 && model.hidden < model.heads) {
    return "width of a head not stated";
  }
  return has_soft_cap(model.name) ? "attention soft cap: the attention kernel is not the fused one" : "";
}

const char* refuse_feed_forward(const ModelWords& model) {
  if (model.experts > 0 && (model.top_k == 0 || model.expert_ffn == 0))
    return "mixture of experts without the experts of a token or their width";
  if (model.top_k > model.experts && model.experts > 0) return "more experts a token than experts";
  if (model.experts > 0 && model.dense_layers > model.layers) return "more dense layers than layers";
  const bool has_dense = model.experts == 0 || model.dense_layers > 0 || model.moe_every > 1;
  return has_dense && model.ffn == 0 ? "feed-forward width not stated" : "";
}

const char* refuse_model(const ModelWords& model) {
  if (model.layers == 0 || model.hidden == 0) return "model without layers (hybrid or not described)";
  const char* attention = refuse_attention(model);
  return *attention != '\0' ? attention : refuse_feed_forward(model);
}

const char* refuse_counts(const RowWords& row) {
  if (row.micro_batch == 0) return "micro-batch size not stated";
  if (row.global_batch == 0) return "global batch not stated";
  if (row.sequence == 0) return "sequence length not stated";
  return row.devices == 0 ? "number of devices not stated" : "";
}

const char* refuse_layout(const RowWords& row) {
  const LayoutWords& layout = row.layout;
  const std::int64_t tensor = or_one(layout.tensor), context = or_one(layout.context);
  const std::int64_t replica = tensor * context * or_one(layout.pipeline);
  if (row.devices % replica != 0) return "tp x pp x cp does not divide the devices";
  const std::int64_t data = row.devices / replica;
  if (row.global_batch < row.micro_batch * data) return "global batch smaller than one micro-batch a replica";
  if (row.model.experts > 0 && (data * context * tensor) % (or_one(layout.expert) * or_one(layout.expert_tensor)) != 0)
    return "ep x etp does not divide the devices of a stage";
  return (data * context) % or_one(layout.sharded) != 0 ? "ranks of fully sharded weights do not divide dp x cp" : "";
}

/// Policies that a source does not print.
const char* refuse_recompute(const RecomputeWords& recompute, const Software& software) {
  if (recompute.granularity == "selective" && !recompute.modules && software.name == "fms")
    return "share of layers recomputed not printed";
  if (recompute.granularity.empty() && software.name == "jax") return "rematerialisation policy not stated";
  const bool is_block = recompute.granularity == "full" && recompute.method == "block";
  return is_block && recompute.layers == 0 ? "layers of a block recomputed not stated" : "";
}

/// A test case's name is all that says it.
bool swaps_activations(const RowWords& row, const Software& software) {
  return software.name.starts_with("mindspeed") && row.id.find("swap") != std::string::npos;
}

}  // namespace

std::string refusal_of(const RowWords& row, const Software* software) {
  if (software == nullptr) return "software not known";
  if (!precision_of(row.precision)) return "precision not known";
  for (const char* reason : {refuse_model(row.model), refuse_counts(row)})
    if (*reason != '\0') return reason;
  for (const char* reason : {refuse_layout(row), refuse_recompute(row.recompute, *software)})
    if (*reason != '\0') return reason;
  return swaps_activations(row, *software) ? "activation swap is not priced here" : "";
}

}  // namespace tidemark::step_time
