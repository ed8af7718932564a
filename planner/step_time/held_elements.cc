#include "planner/step_time/held_elements.h"

#include <cstdint>

namespace tidemark::step_time {
namespace {

double real(std::int64_t count) {
  return static_cast<double>(count);
}

/// MLA's downs are whole on every tensor parallel rank.
double mla_elements(const TimedModel& model, double tensor) {
  const TimedMla& mla = model.mla;
  const double hidden = real(model.hidden), heads = real(model.heads) / tensor;
  const double queries = heads * real(mla.qk_nope + mla.qk_rope);
  const double q = mla.q_lora > 0 ? (hidden + queries) * real(mla.q_lora) : hidden * queries;
  const double kv = hidden * real(mla.kv_lora + mla.qk_rope) + real(mla.kv_lora) * heads * real(mla.qk_nope + mla.v);
  return q + kv + heads * real(mla.v) * hidden;
}

double attention_elements(const TimedModel& model, double tensor) {
  if (model.is_mla) return mla_elements(model, tensor);
  return real(model.hidden) * real(model.head_dim) * 2 * real(model.heads + model.kv_heads) / tensor;
}

}  // namespace

HeldElements held_elements(const TimedRun& run) {
  const TimedModel& model = run.model;
  const double tensor = real(run.tensor), hidden = real(model.hidden), layers = real(model.layers);
  const double feed_forward = (model.is_gated ? 3 : 2) * hidden;  // elements a width
  const double moe_share = real(model.moe_layers) / layers;
  const double shared = feed_forward * real(model.shared_ffn) / tensor + hidden * real(model.experts);
  const double experts = real(model.experts) / real(run.expert) / real(run.expert_tensor);
  HeldElements held;
  held.dense_layer = attention_elements(model, tensor) + (1 - moe_share) * feed_forward * real(model.ffn) / tensor +
                     moe_share * shared;
  held.expert_layer = moe_share * feed_forward * real(model.expert_ffn) * experts;
  held.layers = layers / real(run.pipeline);
  held.table = real(model.vocabulary) / tensor * hidden;
  held.tables = run.pipeline > 1 || model.is_tied ? 1 : 2;
  return held;
}

}  // namespace tidemark::step_time
