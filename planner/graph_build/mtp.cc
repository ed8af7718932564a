#include "planner/graph_build/attention_length.h"
#include "planner/graph_build/block_ends.h"
#include "planner/graph_build/layer.h"
#include "planner/graph_build/linear.h"
#include "planner/graph_build/op_cost.h"
#include "planner/graph_build/parameter_sharding.h"
#include "planner/graph_build/vocabulary.h"

namespace tidemark::graph_build {
namespace {

struct MtpTensors {
  Ref hidden, embedding_out, projection_in, x;
};

/// Columns of the projection on this device: its output is split by columns, then handed out by tokens.
std::int64_t projection_columns(const BlockContext& c) {
  return c.model.hidden / c.shapes.tensor;
}

OpCost projection_cost(const BlockContext& c) {
  return matmul_cost(c.shapes.tokens, 2 * c.model.hidden, projection_columns(c));
}

/// Between [n, h / tensor] and [t, h]: an all-to-all with sequence parallelism; else an all-gather forward, and
/// backward a slice that costs nothing but the copy.
void exchange_columns(const BlockContext& c, OpPhase phase, const std::string& name, Ref from, Ref to) {
  const Bytes shard = c.full_bytes(projection_columns(c));
  const std::int64_t others = c.shapes.tensor - 1;
  c.builder.op(phase, {.name = name,
                       .lane = c.shapes.tensor_lane,
                       .cost = ring_cost(c.shapes.gathers() ? shard / c.shapes.tensor * others : shard * others,
                                         c.shapes.tensor_group),
                       .collective = true,
                       .reads = {from},
                       .writes = {to}});
  if (phase != OpPhase::forward) c.builder.flush();
}

void forward_projection(const BlockContext& c, const MtpTensors& t) {
  BlockBuilder& b = c.builder;
  const bool split = c.shapes.tensor > 1;
  b.tag("");
  const Ref gathered = gather_tokens(c, OpPhase::forward, "mtp.projection", {t.projection_in}, 2 * c.model.hidden);
  const Ref product = split ? b.temporary("projection_columns", c.full_bytes(projection_columns(c))) : t.x;
  b.op(OpPhase::forward, {.name = "mtp.projection",
                          .cost = projection_cost(c),
                          .reads = {b.parameter("projection"), gathered},
                          .writes = {product}});
  if (split) exchange_columns(c, OpPhase::forward, "mtp.projection_exchange", product, t.x);
}

/// Returns the gradient of projection_in.
Ref backward_projection(const BlockContext& c, const MtpTensors& t, Ref d_x) {
  BlockBuilder& b = c.builder;
  const OpPhase phase = OpPhase::backward;
  const std::int64_t columns = 2 * c.model.hidden;
  Ref d_product = d_x;
  if (c.shapes.tensor > 1) {
    d_product = b.temporary("projection_columns_gradient", c.full_bytes(projection_columns(c)));
    exchange_columns(c, phase, "mtp.projection_exchange_backward", d_x, d_product);
  }
  const Ref again = gather_tokens(c, phase, "mtp.projection_again", {t.projection_in}, columns);
  const Ref d_in = b.temporary("projection_in_gradient", c.local_bytes(columns));
  const Ref partial = partial_sum(c, "mtp.projection_gradient", d_in, columns);
  b.op(phase, {.name = "mtp.projection_dx",
               .cost = rows_gradient_cost(projection_cost(c)),
               .reads = {b.parameter("projection"), d_product},
               .writes = {partial}});
  reduce_tokens(c, phase, "mtp.projection_gradient", partial, d_in, columns);
  b.weight_gradient({.name = "mtp.projection_dw",
                     .cost = weight_gradient_cost(projection_cost(c)),
                     .reads = {again, d_product},
                     .writes = {b.gradient("projection")}});
  return d_in;
}

/// Embedding of the next token, both norms, projection to the layer's input.
MtpTensors forward_mtp_join(const BlockContext& c, Ref hidden, const std::string& embedding) {
  BlockBuilder& b = c.builder;
  const Bytes bytes = c.local_bytes(c.model.hidden);
  b.module("mtp");
  const MtpTensors t{.hidden = hidden,
                     .embedding_out = b.saved("embedding_out", bytes),
                     .projection_in = b.saved("projection_in", 2 * bytes),
                     .x = b.saved("x", bytes)};
  b.tag("embedding_out");
  forward_lookup(c, embedding, t.embedding_out);
  b.recipe("embedding_out", {t.embedding_out});
  b.tag("projection_in");
  b.op(OpPhase::forward, {.name = "mtp.join_norms",
                          .cost = vector_cost(4 * bytes),
                          .reads = {b.parameter("projection"), t.hidden, t.embedding_out},
                          .writes = {t.projection_in}});
  b.recipe("projection_in", {t.projection_in});
  forward_projection(c, t);
  return t;
}

/// `shared_input`: the head, which runs its backward pass first, has written the gradient this adds to.
void backward_mtp_join(const BlockContext& c, const MtpTensors& t, Ref d_x, const std::string& embedding,
                       bool shared_input) {
  BlockBuilder& b = c.builder;
  const Bytes bytes = c.local_bytes(c.model.hidden);
  b.module("mtp");
  const Ref d_in = backward_projection(c, t, d_x);
  const Ref d_embedding = b.temporary("embedding_gradient", bytes);
  std::vector<Ref> reads{b.parameter("projection"), t.hidden, t.embedding_out, d_in};
  if (shared_input) {
    b.written_elsewhere(kInputGradient);
    reads.push_back(kInputGradient);
  }
  b.op(OpPhase::backward, {.name = "mtp.join_norms_backward",
                           .cost = vector_cost(7 * bytes),
                           .reads = reads,
                           .writes = {kInputGradient, d_embedding, b.gradient("projection")}});
  backward_lookup(c, embedding, d_embedding);
  b.flush();
}

}  // namespace

StepBlock make_mtp_block(const BlockInput& input, const EndParameters& parameters, MtpPosition position) {
  const LayerKind kind = mtp_layer_kind(input.job.model);
  BlockBuilder b("mtp", input.shapes.late_weight_gradients);
  const ModelSpec& model = input.job.model;
  DeviceShapes shapes = input.shapes;
  shapes.attended_length = attended_length(model, model.is_windowed(model.layers.size()));
  const BlockContext c{b, shapes, model};
  bind_ends(b, parameters);
  StepBlock block{.routed = kind == LayerKind::moe};
  const Ref hidden = position.first ? declare_input(c, block, "hidden") : borrow_input(c);
  const Ref d_result = declare_output_gradient(c, block);
  const Ref result = b.saved("mtp_out", c.local_bytes(c.model.hidden));
  block.result = result.local;
  const std::string embedding = lookup_group(parameters);
  const Head head{.prefix = "mtp.head", .norm_group = "projection", .output_group = output_group(parameters)};

  std::vector<std::string> used{embedding, head.output_group};
  for (const ParameterGroup& group : parameters.own) used.push_back(group.name);
  ShardedWeights weights(c, input.job.parallel, used_groups(parameters, used));
  block.gathers = weights.gathers();
  const MtpTensors join = forward_mtp_join(c, hidden, embedding);
  const LayerTensors layer = forward_layer(c, kind, join.x, result);
  const HeadTensors head_tensors = forward_head(c, head, result);

  // The next module runs its backward pass before this one and has written its share of the gradient.
  std::vector<Ref> from_next;
  if (!position.last) {
    b.written_elsewhere(d_result);
    from_next.push_back(d_result);
  }
  weights.begin_backward();
  backward_head(c, head, head_tensors, result, d_result, from_next);
  const Ref d_x = b.temporary("x_gradient", c.local_bytes(c.model.hidden));
  backward_layer(c, kind, layer, kOutputGradient, d_x);
  backward_mtp_join(c, join, d_x, embedding, position.first && position.beside_head);
  weights.reduce_gradients();
  block.program = b.finish(input.graph);
  return block;
}

}  // namespace tidemark::graph_build
