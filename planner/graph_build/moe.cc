#include "planner/graph_build/moe.h"

#include <fmt/format.h>

#include <cmath>

#include "planner/cost/launch_counts.h"
#include "planner/graph_build/elementwise.h"
#include "planner/graph_build/expert_exchange.h"
#include "planner/graph_build/linear.h"
#include "planner/graph_build/op_cost.h"

namespace tidemark::graph_build {
namespace {

constexpr const char* kOutTag = "mlp_out";
/// Rows of measured steps tell the sum alone; how the pieces share it is assumed.
constexpr double kPermuteLaunches = 20, kSortLaunches = 10;  ///< either way, there and back
constexpr double kRouterLaunches =
    cost::kMoeLaunches - 2 * (kPermuteLaunches + kSortLaunches) - 2 - cost::kActivationLaunches;

/// Calls `record` for every part of the exchange, with the shapes of that part alone.
template <class Record>
void each_part(const BlockContext& c, const Record& record) {
  // Where nodes of one device gather all tokens no rows are exchanged.
  if (c.shapes.exchange_parts == 1 || !exchanges_rows(c.shapes)) return record(c, std::size_t{0});
  for (std::int32_t part = 0; part < c.shapes.exchange_parts; ++part) {
    const DeviceShapes shapes = shapes_of_part(c.shapes, part);
    c.builder.part(part);
    c.builder.module(fmt::format("mlp.experts.part{}", part));
    record(BlockContext{c.builder, shapes, c.model}, static_cast<std::size_t>(part));
  }
  c.builder.join_parts();
  c.builder.module("mlp.experts");
}

std::vector<Ref> refs_of(const std::vector<RowTensors>& parts, Ref RowTensors::*tensor) {
  std::vector<Ref> refs;
  for (const RowTensors& part : parts) refs.push_back(part.*tensor);
  return refs;
}

bool scales_at_unpermute(const BlockContext& c) {
  return c.model.moe.probabilities == MoeSpec::Probabilities::at_unpermute;
}

/// Router probabilities, where the expert activation reads them.
std::vector<Ref> activation_scales(const BlockContext& c, Ref router) {
  return scales_at_unpermute(c) ? std::vector<Ref>{} : std::vector<Ref>{router};
}

Mlp shared_expert(const BlockContext& c) {
  return {.prefix = "shared_", .op_name = "shared_expert", .width = c.model.moe.shared_width / c.shapes.tensor};
}

/// Logits, scores and probabilities of every expert, and the one-byte map.
Bytes router_bytes(const BlockContext& c) {
  const std::int64_t element = c.model.moe.router_fp32 ? 4 : 2;
  return c.shapes.local_tokens * c.model.moe.experts * (3 * element + 1);
}

Bytes router_gradient_bytes(const BlockContext& c) {
  return c.shapes.local_tokens * c.model.moe.experts * (c.model.moe.router_fp32 ? 4 : 2);
}

OpCost router_cost(const BlockContext& c) {
  OpCost cost = matmul_cost(c.shapes.local_tokens, c.model.hidden, c.model.moe.experts);
  cost.launches = kRouterLaunches;
  if (c.model.moe.router_fp32) cost.product.precision = Precision::tf32;
  return cost;
}

OpCost expert_cost(const BlockContext& c, std::int64_t inner, std::int64_t columns) {
  OpCost cost = linear_cost(c, matmul_cost(c.shapes.expert_rows, inner, columns, c.shapes.local_experts));
  cost.kind = WorkKind::grouped_matmul;
  return cost;
}

OpCost first_cost(const BlockContext& c) {
  return expert_cost(c, c.model.hidden, activation_inputs(c.model, c.shapes.expert_width));
}

OpCost second_cost(const BlockContext& c) {
  return expert_cost(c, c.shapes.expert_width, c.model.hidden);
}

Ref row_storage(const BlockContext& c, const std::string& name, std::int64_t columns, bool saved) {
  return c.builder.routed(name, c.shapes.expert_rows, BlockContext::bytes(1, columns), saved, RowsOf::received);
}

/// Saved rows that a product alone reads.
Ref input_row_storage(const BlockContext& c, const std::string& name, std::int64_t columns) {
  return c.builder.routed(name, c.shapes.expert_rows, columns * c.shapes.input_bytes(), true, RowsOf::received);
}

/// Rows of the tokens here, on their way to experts or back.
Ref sent_storage(const BlockContext& c, const std::string& name, bool saved = false) {
  return c.builder.routed(name, c.shapes.sent_rows, BlockContext::bytes(1, c.model.hidden), saved, RowsOf::sent);
}

/// As many as are sent, with what pads them.
std::int64_t padded_rows(const BlockContext& c) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(c.shapes.sent_rows) * c.shapes.padding - 1e-9));
}

Bytes sent_bytes(const BlockContext& c) {
  return BlockContext::bytes(padded_rows(c), c.model.hidden);
}

/// Tokens a device picks rows from, or sums rows to.
std::int64_t picked_tokens(const DeviceShapes& s) {
  return s.expert_group.hierarchical ? s.local_tokens * s.expert_group.nodes : s.local_tokens;
}

struct RowMove {
  std::string name;
  Rows rows;
  double launches = kSortLaunches;
};

/// Copies rows of the hidden width from one order to another.
void move_rows(const BlockContext& c, OpPhase phase, const RowMove& move, std::vector<Ref> reads, Ref out) {
  const Bytes bytes = 2 * BlockContext::bytes(move.rows.count, c.model.hidden);
  c.builder.op(phase, {.name = move.name,
                       .cost = vector_cost(bytes, move.launches),
                       .routed = move.rows.routed,
                       .replays_routing = true,
                       .reads = std::move(reads),
                       .writes = {out}});
}

void forward_router(const BlockContext& c, Ref y2, Ref router) {
  c.builder.tag("");  // recorded routing is never decided again
  c.builder.op(
      OpPhase::forward,
      {.name = "moe.router", .cost = router_cost(c), .reads = {c.builder.parameter("mlp"), y2}, .writes = {router}});
}

/// Picks the rows of `tokens` and brings them, sorted by expert, to `out`. `tokens` are already gathered over nodes.
void dispatch(const BlockContext& c, Ref tokens, Ref router, Ref out) {
  const OpPhase phase = OpPhase::forward;
  const Rows sent{.count = padded_rows(c)}, received_rows{.count = c.shapes.expert_rows, .routed = true};
  if (!exchanges_rows(c.shapes)) {
    const double launches = kPermuteLaunches + kSortLaunches;  // tokens go to their experts' order at once
    move_rows(c, phase, {.name = "moe.permute", .rows = received_rows, .launches = launches}, {tokens, router}, out);
    return;
  }
  const Ref send = sent_storage(c, "dispatch_send_rows");
  move_rows(c, phase, {.name = "moe.permute", .rows = sent, .launches = kPermuteLaunches}, {tokens, router}, send);
  const Ref received = rows_to_experts(c, phase, "dispatch", send);
  move_rows(c, phase, {.name = "moe.sort_rows", .rows = received_rows}, {received, router}, out);
}

/// Expert rows in `rows` back to the order of this device's tokens, in `out`. `reorder` names the local move.
void return_rows(const BlockContext& c, OpPhase phase, const std::string& name, const std::string& reorder, Ref rows,
                 Ref router, Ref out) {
  const Rows moved{.count = c.shapes.expert_rows, .routed = true};
  if (!exchanges_rows(c.shapes)) {
    move_rows(c, phase, {.name = reorder, .rows = moved}, {rows, router}, out);
    return;
  }
  const Ref send = row_storage(c, name + "_return_rows", c.model.hidden, false);
  move_rows(c, phase, {.name = reorder, .rows = moved}, {rows, router}, send);
  rows_to_tokens(c, phase, name, send, out);
}

/// Sums rows per token: reads rows, writes tokens.
OpCost sum_cost(const BlockContext& c) {
  return vector_cost(sent_bytes(c) + BlockContext::bytes(picked_tokens(c.shapes), c.model.hidden), kPermuteLaunches);
}

void forward_experts(const BlockContext& c, const RowTensors& t, Ref router) {
  BlockBuilder& b = c.builder;
  const std::int64_t width = c.shapes.expert_width;
  const Rows rows{.count = c.shapes.expert_rows, .routed = true};
  b.tag("fc1_out");
  b.op(OpPhase::forward, {.name = "moe.fc1",
                          .cost = first_cost(c),
                          .routed = true,
                          .reads = {b.parameter("experts"), t.fc1_in},
                          .writes = {t.fc1_out}});
  b.recipe("fc1_out", {t.fc1_out});
  b.tag("act_out");
  forward_activation(c, "moe.activation", rows, width, t.fc1_out, t.act_out, activation_scales(c, router));
  b.recipe("act_out", {t.act_out});
}

/// act_out -> rows of this device's tokens.
void forward_return(const BlockContext& c, const RowTensors& t, Ref router) {
  BlockBuilder& b = c.builder;
  const bool kept = b.is_saved(t.unpermute_in);
  b.tag(kept ? "unpermute_in" : kOutTag);
  const Ref fc2_out = row_storage(c, "fc2_out", c.model.hidden, false);
  b.op(OpPhase::forward, {.name = "moe.fc2",
                          .cost = second_cost(c),
                          .routed = true,
                          .reads = {b.parameter("experts"), t.act_out},
                          .writes = {fc2_out}});
  return_rows(c, OpPhase::forward, "combine", "moe.unsort_rows", fc2_out, router, t.unpermute_in);
  if (kept) b.recipe("unpermute_in", {t.unpermute_in});
}

/// Rows of this device's tokens -> sum per token into `routed_out`.
void forward_sum(const BlockContext& c, const MoeTensors& t, Ref y2, Ref routed_out) {
  BlockBuilder& b = c.builder;
  b.tag(kOutTag);
  const bool hierarchical = c.shapes.expert_group.hierarchical;
  const Bytes sum_bytes = BlockContext::bytes(picked_tokens(c.shapes), c.model.hidden);
  const Ref sums = hierarchical ? b.temporary("combine_sums", sum_bytes) : routed_out;
  std::vector<Ref> reads = refs_of(t.parts, &RowTensors::unpermute_in);
  // A layer that runs in chunks begins again with y2, which is in memory here (core/row_sections.h).
  reads.insert(reads.end(), {t.router, y2});
  b.op(OpPhase::forward, {.name = "moe.unpermute",
                          .cost = sum_cost(c),
                          .ends_rows = true,
                          .replays_routing = true,
                          .reads = std::move(reads),
                          .writes = {sums}});
  if (hierarchical) reduce_nodes(c, OpPhase::forward, "combine", sums, routed_out);
}

/// Of one number a token, and of reading its tokens: once forward, twice backward.
OpCost shared_gate_cost(const BlockContext& c, std::int64_t token_tensors) {
  return vector_cost(token_tensors * c.local_bytes(c.model.hidden), 3);
}

/// Returns what the shared experts add to the routed ones. Where a gate scales it, what it scales is saved.
Ref forward_shared(const BlockContext& c, MoeTensors& t, Ref y2) {
  BlockBuilder& b = c.builder;
  const Bytes bytes = c.local_bytes(c.model.hidden);
  if (!c.model.moe.shared_gate) {
    const Ref out = b.temporary("shared_out", bytes);
    t.shared = forward_mlp(c, shared_expert(c), y2, out, kOutTag);
    return out;
  }
  t.shared_out = b.saved("shared_out", bytes);
  t.shared = forward_mlp(c, shared_expert(c), y2, t.shared_out, "shared_out");
  b.recipe("shared_out", {t.shared_out});
  const Ref gated = b.temporary("shared_gated", bytes);
  b.tag(kOutTag);
  b.op(OpPhase::forward, {.name = "moe.shared_gate",
                          .cost = shared_gate_cost(c, 3),
                          .reads = {b.parameter("mlp"), y2, t.shared_out},
                          .writes = {gated}});
  return gated;
}

RowTensors declare_rows(const BlockContext& c) {
  const std::int64_t width = c.shapes.expert_width;
  RowTensors t{.fc1_in = input_row_storage(c, "fc1_in", c.model.hidden),
               .fc1_out = row_storage(c, "fc1_out", activation_inputs(c.model, width), true),
               .act_out = input_row_storage(c, "act_out", width)};
  t.unpermute_in = sent_storage(c, "unpermute_in", scales_at_unpermute(c));
  return t;
}

}  // namespace

MoeTensors forward_moe(const BlockContext& c, Ref y2, Ref out) {
  BlockBuilder& b = c.builder;
  b.module("mlp.experts");
  MoeTensors t{.router = b.saved("router", router_bytes(c))};
  each_part(c, [&](const BlockContext& part, std::size_t) { t.parts.push_back(declare_rows(part)); });
  forward_router(c, y2, t.router);
  b.tag("fc1_in");
  const Ref tokens = gather_nodes(c, OpPhase::forward, "dispatch", y2);
  const bool shares = c.model.moe.shared_width > 0;
  const Bytes token_bytes = c.local_bytes(c.model.hidden);
  Ref shared_out;
  if (shares) {  // computes while tokens travel
    b.module("mlp.shared_experts");
    shared_out = forward_shared(c, t, y2);
    b.module("mlp.experts");
  }
  // Tokens that were gathered once bring all parts back; no part is made again by itself.
  const bool together = t.parts.size() > 1 && c.shapes.expert_group.hierarchical;
  each_part(c, [&](const BlockContext& part, std::size_t i) {
    const RowTensors& rows = t.parts[i];
    b.tag("fc1_in");
    dispatch(part, tokens, t.router, rows.fc1_in);
    if (!together) b.recipe("fc1_in", {rows.fc1_in});
    forward_experts(part, rows, t.router);
    forward_return(part, rows, t.router);
  });
  if (together) b.recipe("fc1_in", refs_of(t.parts, &RowTensors::fc1_in));
  const Ref routed_out = shares ? b.temporary("routed_out", token_bytes) : out;
  forward_sum(c, t, y2, routed_out);
  if (shares) token_op(c, OpPhase::forward, "moe.sum", {routed_out, shared_out}, {out}, c.model.hidden);
  return t;
}

namespace {

/// Gradient of the expert rows, from the gradient of the block's output.
Ref backward_combine(const BlockContext& c, const RowTensors& t, Ref router, Ref tokens, Ref d_router) {
  BlockBuilder& b = c.builder;
  const OpPhase phase = OpPhase::backward;
  const Ref d_rows = sent_storage(c, "unpermute_gradient");
  OpDraft unpermute{
      .name = "moe.unpermute_backward", .cost = sum_cost(c), .reads = {tokens, router}, .writes = {d_rows}};
  if (scales_at_unpermute(c)) {  // the gradient of a probability is the product of its row and the row's gradient
    unpermute.cost.memory_bytes += static_cast<double>(sent_bytes(c));
    unpermute.reads.push_back(t.unpermute_in);
    unpermute.writes.push_back(d_router);
  }
  b.op(phase, std::move(unpermute));
  const Ref d_fc2_out = row_storage(c, "fc2_gradient", c.model.hidden, false);
  const Ref received = rows_to_experts(c, phase, "combine_backward", d_rows);
  const Rows rows{.count = c.shapes.expert_rows, .routed = true};
  move_rows(c, phase, {.name = "moe.unsort_rows_backward", .rows = rows}, {received, router}, d_fc2_out);
  return d_fc2_out;
}

/// From the gradient of expert outputs to that of expert inputs. The dX chain first: dW hides the exchange that
/// follows.
Ref backward_experts(const BlockContext& c, const RowTensors& t, Ref router, Ref d_fc2_out, Ref d_router) {
  BlockBuilder& b = c.builder;
  const OpPhase phase = OpPhase::backward;
  const std::int64_t width = c.shapes.expert_width;
  const Ref d_act = row_storage(c, "act_gradient", width, false);
  b.op(phase, {.name = "moe.fc2_dx",
               .cost = rows_gradient_cost(second_cost(c)),
               .routed = true,
               .reads = {b.parameter("experts"), d_fc2_out},
               .writes = {d_act}});
  b.weight_gradient({.name = "moe.fc2_dw",
                     .cost = weight_gradient_cost(second_cost(c)),
                     .routed = true,
                     .reads = {t.act_out, d_fc2_out},
                     .writes = {b.gradient("experts")}});
  const Ref d_fc1_out = row_storage(c, "fc1_gradient", activation_inputs(c.model, width), false);
  const std::vector<Ref> scales = activation_scales(c, router);
  backward_activation(c, "moe.activation", {.count = c.shapes.expert_rows, .routed = true}, width, t.fc1_out, d_act,
                      d_fc1_out, scales, scales.empty() ? std::vector<Ref>{} : std::vector<Ref>{d_router});
  const Ref d_fc1_in = row_storage(c, "fc1_in_gradient", c.model.hidden, false);
  b.op(phase, {.name = "moe.fc1_dx",
               .cost = rows_gradient_cost(first_cost(c)),
               .routed = true,
               .reads = {b.parameter("experts"), d_fc1_out},
               .writes = {d_fc1_in}});
  b.weight_gradient({.name = "moe.fc1_dw",
                     .cost = weight_gradient_cost(first_cost(c)),
                     .routed = true,
                     .reads = {t.fc1_in, d_fc1_out},
                     .writes = {b.gradient("experts")}});
  return d_fc1_in;
}

/// Gradient of rows -> sum per token into `d_y2`.
void backward_sum(const BlockContext& c, std::vector<Ref> d_rows, Ref router, Ref y2, Ref d_out, Ref d_y2) {
  BlockBuilder& b = c.builder;
  const OpPhase phase = OpPhase::backward;
  const bool hierarchical = c.shapes.expert_group.hierarchical;
  const Bytes sum_bytes = BlockContext::bytes(picked_tokens(c.shapes), c.model.hidden);
  const Ref sums = hierarchical ? b.temporary("dispatch_gradient_sums", sum_bytes) : d_y2;
  std::vector<Ref> reads = std::move(d_rows);
  reads.insert(reads.end(), {router, y2, d_out});  // y2 and d_out are what chunks begin with
  b.op(phase, {.name = "moe.permute_backward",
               .cost = sum_cost(c),
               .ends_rows = true,
               .reads = std::move(reads),
               .writes = {sums}});
  if (hierarchical) reduce_nodes(c, phase, "dispatch_backward", sums, d_y2);
}

/// Gradient of the shared experts' output; adds that of the gate's input to `gradients`.
Ref backward_shared_gate(const BlockContext& c, const MoeTensors& t, Ref y2, Ref d_out, std::vector<Ref>& gradients) {
  if (!c.model.moe.shared_gate) return d_out;
  BlockBuilder& b = c.builder;
  const Bytes bytes = c.local_bytes(c.model.hidden);
  const Ref d_shared = b.temporary("shared_out_gradient", bytes);
  gradients.push_back(b.temporary("y2_gate_gradient", bytes));
  b.op(OpPhase::backward, {.name = "moe.shared_gate_backward",
                           .cost = shared_gate_cost(c, 5),
                           .reads = {b.parameter("mlp"), y2, t.shared_out, d_out},
                           .writes = {d_shared, gradients.back(), b.gradient("mlp")}});
  return d_shared;
}

Ref backward_router(const BlockContext& c, Ref router, Ref y2, Ref d_router) {
  BlockBuilder& b = c.builder;
  const Ref d_y2 = b.temporary("y2_router_gradient", c.local_bytes(c.model.hidden));
  b.op(OpPhase::backward, {.name = "moe.router_dx",
                           .cost = rows_gradient_cost(router_cost(c)),
                           .reads = {b.parameter("mlp"), router, d_router},
                           .writes = {d_y2}});
  b.weight_gradient({.name = "moe.router_dw",
                     .cost = weight_gradient_cost(router_cost(c)),
                     .reads = {y2, d_router},
                     .writes = {b.gradient("mlp")}});
  return d_y2;
}

}  // namespace

std::vector<Ref> backward_moe(const BlockContext& c, const MoeTensors& t, Ref y2, Ref d_out) {
  BlockBuilder& b = c.builder;
  const Bytes token_bytes = c.local_bytes(c.model.hidden);
  std::vector<Ref> gradients;
  b.module("mlp.experts");
  const Ref tokens = gather_nodes(c, OpPhase::backward, "combine_backward", d_out);
  if (c.model.moe.shared_width > 0) {
    b.module("mlp.shared_experts");
    const Ref d_shared = backward_shared_gate(c, t, y2, d_out, gradients);
    gradients.push_back(b.temporary("y2_shared_gradient", token_bytes));
    backward_mlp(c, shared_expert(c), t.shared, y2, d_shared, gradients.back());
    b.module("mlp.experts");
  }
  const Ref d_router = b.temporary("router_gradient", router_gradient_bytes(c));
  std::vector<Ref> d_rows;
  each_part(c, [&](const BlockContext& part, std::size_t i) {
    const RowTensors& rows = t.parts[i];
    const Ref d_fc2_out = backward_combine(part, rows, t.router, tokens, d_router);
    const Ref d_fc1_in = backward_experts(part, rows, t.router, d_fc2_out, d_router);
    d_rows.push_back(sent_storage(part, "dispatch_gradient"));
    return_rows(part, OpPhase::backward, "dispatch_backward", "moe.sort_rows_backward", d_fc1_in, t.router,
                d_rows.back());
  });
  gradients.push_back(b.temporary("y2_routed_gradient", token_bytes));
  backward_sum(c, std::move(d_rows), t.router, y2, d_out, gradients.back());
  gradients.push_back(backward_router(c, t.router, y2, d_router));
  return gradients;
}

}  // namespace tidemark::graph_build
