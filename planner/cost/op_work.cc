#include "planner/cost/op_work.h"

#include "planner/cost/attention_time.h"
#include "planner/cost/collective_time.h"
#include "planner/cost/matmul_time.h"
#include "planner/cost/memory_time.h"

namespace tidemark::cost {
namespace {

double product_s(const OpCost& cost, const Chip& chip, double scale) {
  const ProductShape& shape = cost.product;
  const bool is_supported = chip.sheet.peak(shape.precision) > 0;
  return matmul_s({.rows = shape.has_inner_tokens ? shape.rows : shape.rows * scale,
                   .columns = shape.columns,
                   .inner = shape.has_inner_tokens ? shape.inner * scale : shape.inner,
                   .count = shape.count,
                   .precision = is_supported ? shape.precision : Precision::bf16,
                   .is_grouped = cost.kind == WorkKind::grouped_matmul},
                  chip);
}

double attention_s(const AttentionShape& shape, const Chip& chip, double scale) {
  const AttentionPasses passes = attention_passes({.tokens = shape.tokens * scale,
                                                   .length = shape.length,
                                                   .heads = shape.heads,
                                                   .qk_dim = shape.qk_dim,
                                                   .v_dim = shape.v_dim},
                                                  chip);
  return shape.is_backward ? passes.backward_s : passes.forward_s;
}

/// What the kernels take. Element-wise work is bound by memory: its few FLOPs run beside it.
double kernels_s(const OpCost& cost, const Chip& chip, double scale) {
  switch (cost.kind) {
    case WorkKind::matmul:
    case WorkKind::grouped_matmul: {
      // What is added to is as large however many rows there are.
      const double kept = cost.product.has_inner_tokens ? 1 : scale;
      return product_s(cost, chip, scale) + memory_s(cost.memory_bytes * kept, chip);
    }
    case WorkKind::attention:
      return attention_s(cost.attention, chip, scale) + memory_s(cost.memory_bytes * scale, chip);
    case WorkKind::vector:
      return memory_s(cost.memory_bytes * scale, chip);
    case WorkKind::none:
    case WorkKind::transfer:
    case WorkKind::given:
      break;
  }
  return 0;
}

GroupSpan span_of(const OpCost& cost) {
  return {.ranks = cost.group.ranks, .per_node = cost.group.per_node};
}

}  // namespace

OpWork op_work(const OpTemplate& op, const Chip& chip, double load, double share) {
  const OpCost& cost = op.cost;
  const double scale = (op.routed ? load : 1.0) * share;
  const double launches_s = cost.launches * chip.rates.launch_s;
  if (op.lane == Lane::compute) return {.device_s = kernels_s(cost, chip, scale), .host_s = launches_s};
  if (cost.kind != WorkKind::transfer) return {};
  const GroupSpan span = span_of(cost);
  // A gather is issued with the reduction behind it, as rows count one collective a module.
  const bool keeps_host = cost.launches > 0 && cost.group.pattern == GroupShape::Pattern::ring;
  return {.device_s = sent_s(cost.link_bytes * scale, cost.group.pattern, span, {}, chip),
          .host_s = launches_s + (keeps_host ? collective_latency_s(span, chip) : 0)};
}

}  // namespace tidemark::cost
