#include "planner/step_time/rank_shape.h"

#include <algorithm>
#include <cstdint>

namespace tidemark::step_time {
namespace {

double real(std::int64_t count) {
  return static_cast<double>(count);
}

void set_attention(RankShape& rank, const TimedModel& model) {
  rank.heads = real(model.heads) / rank.tensor;
  rank.kv_heads = std::max(1.0, real(model.kv_heads) / rank.tensor);
  if (model.is_mla) {
    const TimedMla& mla = model.mla;
    rank.qk_dim = real(mla.qk_nope + mla.qk_rope);
    rank.v_dim = real(mla.v);
    rank.qkv_width = rank.heads * (2 * rank.qk_dim + rank.v_dim) + real(mla.q_lora + 2 * mla.kv_lora);
  } else {
    rank.qk_dim = rank.v_dim = real(model.head_dim);
    rank.qkv_width = (rank.heads + 2 * rank.kv_heads) * rank.qk_dim;
  }
}

void set_feed_forward(RankShape& rank, const TimedModel& model) {
  rank.gates = model.is_gated ? 2 : 1;
  rank.ffn = real(model.ffn) / rank.tensor;
  rank.shared_ffn = real(model.shared_ffn) / rank.tensor;
  rank.expert_ffn = real(model.expert_ffn) / rank.expert_tensor;
  rank.routed_rows = rank.split_tokens * real(model.top_k) * rank.expert_tensor;
  rank.experts = std::max(1.0, real(model.experts) / rank.expert);
}

}  // namespace

RankShape rank_shape(const TimedRun& run) {
  RankShape rank;
  rank.tensor = real(run.tensor);
  rank.context = real(run.context);
  rank.expert = real(run.expert);
  rank.expert_tensor = real(run.expert_tensor);
  rank.tokens = real(run.micro_batch * run.sequence) / rank.context;
  rank.split_tokens = run.is_sequence_parallel ? rank.tokens / rank.tensor : rank.tokens;
  rank.hidden = real(run.model.hidden);
  rank.vocabulary = real(run.model.vocabulary) / rank.tensor;
  set_attention(rank, run.model);
  set_feed_forward(rank, run.model);
  return rank;
}

}  // namespace tidemark::step_time
