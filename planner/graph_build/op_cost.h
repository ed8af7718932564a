#pragma once
// Costs of the few kinds of op a training step is made of. Memory traffic counts 16-bit activations.

#include <cstdint>
#include <utility>

#include "core/graph.h"

namespace tidemark::graph_build {

/// [rows, inner] x [inner, columns], once per expert for its share of the rows where `experts` > 1.
[[nodiscard]] inline OpCost matmul_cost(std::int64_t rows, std::int64_t inner, std::int64_t columns,
                                        std::int64_t experts = 1) {
  const auto r = static_cast<double>(rows), i = static_cast<double>(inner), c = static_cast<double>(columns);
  return {
      .kind = experts > 1 ? WorkKind::grouped_matmul : WorkKind::matmul,
      .flops = 2 * r * i * c,
      .launches = 1,
      .product = {
          .rows = r / static_cast<double>(experts), .inner = i, .columns = c, .count = static_cast<double>(experts)}};
}

/// The gradient of the rows of a product: [rows, columns] x [columns, inner].
[[nodiscard]] inline OpCost rows_gradient_cost(OpCost forward) {
  std::swap(forward.product.inner, forward.product.columns);
  return forward;
}

/// The gradient of its weight, [inner, rows] x [rows, columns], added to what the micro-batches before it left, in
/// fp32: read and written.
[[nodiscard]] inline OpCost weight_gradient_cost(OpCost forward) {
  constexpr double kBytes = 8;
  ProductShape& p = forward.product;
  forward.memory_bytes = kBytes * p.count * p.inner * p.columns;
  std::swap(p.rows, p.inner);
  p.has_inner_tokens = true;
  return forward;
}

/// Element-wise kernels, `launches` of them, that read and write `bytes` together.
[[nodiscard]] inline OpCost vector_cost(std::int64_t bytes, double launches = 1) {
  return {.kind = WorkKind::vector, .memory_bytes = static_cast<double>(bytes), .launches = launches};
}

/// `bytes` leave this device for the next rank of a pipeline.
[[nodiscard]] inline OpCost send_cost(double bytes, bool is_inside_node) {
  return {.kind = WorkKind::transfer, .link_bytes = bytes, .group = {.ranks = 2, .per_node = is_inside_node ? 2 : 1}};
}

/// `bytes` leave this device in a collective of a group.
[[nodiscard]] inline OpCost ring_cost(double bytes, const GroupShape& group) {
  return {.kind = WorkKind::transfer, .link_bytes = bytes, .group = group};
}
[[nodiscard]] inline OpCost ring_cost(std::int64_t bytes, const GroupShape& group) {
  return ring_cost(static_cast<double>(bytes), group);
}

/// The same of rows that every rank sends every other; of those inside the node, or of those to other nodes.
[[nodiscard]] inline OpCost exchange_cost(double bytes, std::int64_t ranks, bool is_inside_node) {
  return {.kind = WorkKind::transfer,
          .link_bytes = bytes,
          .group = {.ranks = ranks, .per_node = is_inside_node ? ranks : 1, .pattern = GroupShape::Pattern::exchange}};
}

}  // namespace tidemark::graph_build
