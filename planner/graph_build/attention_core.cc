#include "planner/graph_build/attention_core.h"

#include "planner/cost/launch_counts.h"
#include "planner/graph_build/op_cost.h"

namespace tidemark::graph_build {
namespace {

/// Products of the flash kernel by operand width: forward S = QK' and O = PV; backward S again, dP, dV, dQ and dK.
OpCost core_cost(const DeviceShapes& s, bool is_backward) {
  const std::int64_t width = (is_backward ? 3 : 1) * s.qk_dim + (is_backward ? 2 : 1) * s.v_stored_dim;
  // Causal: half the square. Context ranks share it evenly.
  const double pairs = static_cast<double>(s.tokens) * s.attended_length / 2;
  return {.kind = WorkKind::attention,
          .flops = 2 * pairs * static_cast<double>(s.heads * width),
          .launches = cost::kAttentionLaunches,
          .attention = {.tokens = static_cast<double>(s.tokens),
                        .length = s.attended_length,
                        .heads = static_cast<double>(s.heads),
                        .qk_dim = static_cast<double>(s.qk_dim),
                        .v_dim = static_cast<double>(s.v_stored_dim),
                        .is_backward = is_backward}};
}

Bytes key_value_bytes(const BlockContext& c) {
  return c.full_bytes(c.shapes.kv_heads * (c.shapes.qk_dim + c.shapes.v_stored_dim));
}

/// Keys and values of the other context ranks, or nothing without context parallelism.
std::vector<Ref> fetch_remote(const BlockContext& c, OpPhase phase, const AttentionTensors& t, const char* name) {
  if (c.shapes.context == 1) return {};
  const Bytes bytes = key_value_bytes(c) * (c.shapes.context - 1);
  const Ref remote = c.builder.temporary(name, bytes);
  c.builder.op(phase, {.name = std::string("attention.") + name,
                       .lane = c.shapes.context_lane,
                       .cost = ring_cost(bytes, c.shapes.context_group),
                       .collective = true,
                       .reads = {t.k, t.v},
                       .writes = {remote}});
  return {remote};
}

std::vector<Ref> with(std::vector<Ref> list, const std::vector<Ref>& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

}  // namespace

void forward_core(const BlockContext& c, AttentionTensors& t) {
  const DeviceShapes& s = c.shapes;
  BlockBuilder& b = c.builder;
  t.core_out = b.saved("attention_out_core", c.full_bytes(s.heads * s.v_dim));
  t.statistics = b.saved("softmax_stats", s.tokens * s.heads * s.statistics_bytes_per_row);
  b.tag("core_attention");
  const std::vector<Ref> remote = fetch_remote(c, OpPhase::forward, t, "key_value_exchange");
  b.op(OpPhase::forward, {.name = "attention.core",
                          .cost = core_cost(s, false),
                          .reads = with({t.q, t.k, t.v}, remote),
                          .writes = {t.core_out, t.statistics}});
  b.recipe("core_attention", {t.core_out, t.statistics});
}

CoreGradients backward_core(const BlockContext& c, const AttentionTensors& t, Ref d_core_out) {
  const DeviceShapes& s = c.shapes;
  BlockBuilder& b = c.builder;
  const std::vector<Ref> remote = fetch_remote(c, OpPhase::backward, t, "key_value_exchange_again");
  const CoreGradients d{.q = b.temporary("q_gradient", c.full_bytes(s.heads * s.qk_dim)),
                        .k = b.temporary("k_gradient", c.full_bytes(s.kv_heads * s.qk_dim)),
                        .v = b.temporary("v_gradient", c.full_bytes(s.kv_heads * s.v_stored_dim))};
  std::vector<Ref> writes{d.q, d.k, d.v};
  if (!remote.empty()) {
    writes = {d.q, b.temporary("key_value_gradient_all", key_value_bytes(c) * s.context)};
  }
  b.op(OpPhase::backward, {.name = "attention.core_backward",
                           .cost = core_cost(s, true),
                           .reads = with({t.q, t.k, t.v, t.core_out, t.statistics, d_core_out}, remote),
                           .writes = writes});
  if (remote.empty()) return d;
  b.op(OpPhase::backward, {.name = "attention.key_value_gradient_reduce_scatter",
                           .lane = s.context_lane,
                           .cost = ring_cost(key_value_bytes(c) * (s.context - 1), s.context_group),
                           .collective = true,
                           .reads = {writes[1]},
                           .writes = {d.k, d.v}});
  b.flush();
  return d;
}

}  // namespace tidemark::graph_build
