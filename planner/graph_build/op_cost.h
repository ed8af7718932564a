#pragma once
// Costs of the few kinds of op a training step is made of. Memory traffic counts 16-bit activations.

#include <cstdint>

#include "core/graph.h"

namespace tidemark::graph_build {

/// [rows, inner] x [inner, columns], once per expert for its share of the rows where `experts` > 1.
[[nodiscard]] inline OpCost matmul_cost(std::int64_t rows, std::int64_t inner, std::int64_t columns,
                                        std::int64_t experts = 1) {
  const auto r = static_cast<double>(rows), i = static_cast<double>(inner), c = static_cast<double>(columns);
  return {.kind = experts > 1 ? WorkKind::grouped_matmul : WorkKind::matmul,
          .flops = 2 * r * i * c,
          .memory_bytes = 2 * (r * i + static_cast<double>(experts) * i * c + r * c)};
}

/// An element-wise kernel that reads and writes `bytes` together.
[[nodiscard]] inline OpCost vector_cost(std::int64_t bytes) {
  return {.kind = WorkKind::vector, .memory_bytes = static_cast<double>(bytes)};
}

/// `bytes` leave this device over the lane's link.
[[nodiscard]] inline OpCost link_cost(double bytes) {
  return {.kind = WorkKind::transfer, .link_bytes = bytes};
}
[[nodiscard]] inline OpCost link_cost(std::int64_t bytes) {
  return link_cost(static_cast<double>(bytes));
}

}  // namespace tidemark::graph_build
