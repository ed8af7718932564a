#include "planner/graph_build/linear.h"

#include "planner/graph_build/op_cost.h"

namespace tidemark::graph_build {
namespace {

std::int64_t rows_of(const BlockContext& c, const Linear& linear) {
  return linear.split == Linear::Split::none ? c.shapes.local_tokens : c.shapes.tokens;
}

OpCost cost_of(const BlockContext& c, const Linear& linear) {
  const OpCost product = matmul_cost(rows_of(c, linear), linear.inner, linear.columns);
  return linear.stays_16bit ? product : linear_cost(c, product);
}

}  // namespace

OpCost linear_cost(const BlockContext& c, OpCost product) {
  if (c.shapes.fp8) product.product.precision = Precision::fp8;
  return product;
}

Ref gather_tokens(const BlockContext& c, OpPhase phase, const std::string& name, const std::vector<Ref>& shards,
                  std::int64_t columns, std::int64_t element_bytes) {
  if (!c.shapes.gathers()) return shards.front();
  const Bytes local = c.shapes.local_tokens * columns * element_bytes;
  const Ref gathered = c.builder.temporary(name + "_gathered", local * c.shapes.tensor);
  c.builder.op(phase, {.name = name + "_all_gather",
                       .lane = c.shapes.tensor_lane,
                       .cost = ring_cost(local * (c.shapes.tensor - 1), c.shapes.tensor_group),
                       .collective = true,
                       .reads = shards,
                       .writes = {gathered}});
  return gathered;
}

Ref partial_sum(const BlockContext& c, const std::string& name, Ref out, std::int64_t columns) {
  return c.shapes.tensor == 1 ? out : c.builder.temporary(name + "_partial", c.full_bytes(columns));
}

void reduce_tokens(const BlockContext& c, OpPhase phase, const std::string& name, Ref partial, Ref out,
                   std::int64_t columns) {
  if (partial == out) return;
  // A reduce-scatter sends every shard but its own once, an all-reduce twice.
  const Bytes full = c.full_bytes(columns);
  const Bytes once = full / c.shapes.tensor * (c.shapes.tensor - 1);
  const bool scatters = c.shapes.gathers();
  OpCost cost = ring_cost(scatters ? once : 2 * once, c.shapes.tensor_group);
  cost.launches = 1;  // with the gather that goes before it
  c.builder.op(phase, {.name = name + (scatters ? "_reduce_scatter" : "_all_reduce"),
                       .lane = c.shapes.tensor_lane,
                       .cost = cost,
                       .collective = true,
                       .reads = {partial},
                       .writes = {out}});
  if (phase != OpPhase::forward) c.builder.flush();
}

void forward_linear(const BlockContext& c, const Linear& linear, Ref in, Ref out) {
  const bool row_split = linear.split == Linear::Split::row;
  const Ref source = linear.split == Linear::Split::column
                         ? gather_tokens(c, OpPhase::forward, linear.name, {in}, linear.inner, linear.input_bytes)
                         : in;
  const Ref product = row_split ? partial_sum(c, linear.name, out, linear.columns) : out;
  c.builder.op(OpPhase::forward, {.name = linear.name,
                                  .cost = cost_of(c, linear),
                                  .reads = {c.builder.parameter(linear.group), source},
                                  .writes = {product}});
  if (row_split) reduce_tokens(c, OpPhase::forward, linear.name, product, out, linear.columns);
}

void backward_linear(const BlockContext& c, const Linear& linear, Ref in, Ref d_out, Ref d_in) {
  const OpPhase phase = OpPhase::backward;
  const bool column_split = linear.split == Linear::Split::column;
  const std::string d_name = linear.name + "_gradient";
  const Ref gradient =
      linear.split == Linear::Split::row ? gather_tokens(c, phase, d_name, {d_out}, linear.columns) : d_out;
  const Ref source =
      column_split ? gather_tokens(c, phase, linear.name + "_again", {in}, linear.inner, linear.input_bytes) : in;
  const Ref product = column_split ? partial_sum(c, d_name, d_in, linear.inner) : d_in;
  c.builder.op(phase, {.name = linear.name + "_dx",
                       .cost = rows_gradient_cost(cost_of(c, linear)),
                       .reads = {c.builder.parameter(linear.group), gradient},
                       .writes = {product}});
  const OpDraft dw{.name = linear.name + "_dw",
                   .cost = weight_gradient_cost(cost_of(c, linear)),
                   .reads = {source, gradient},
                   .writes = {c.builder.gradient(linear.group)}};
  if (column_split) reduce_tokens(c, phase, d_name, product, d_in, linear.inner);
  c.builder.weight_gradient(dw);
}

}  // namespace tidemark::graph_build
