#pragma once
// What every function that records part of a block needs at hand.

#include "planner/graph_build/block_builder.h"
#include "planner/graph_build/device_shapes.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::graph_build {

struct BlockContext {
  BlockBuilder& builder;
  const DeviceShapes& shapes;
  const ModelSpec& model;

  /// Bytes of [rows, columns] activations.
  [[nodiscard]] static Bytes bytes(std::int64_t rows, std::int64_t columns) {
    return rows * columns * kActivationBytes;
  }
  /// Bytes of activations of this device's share of the tokens, and of all tokens of the tensor-parallel group.
  [[nodiscard]] Bytes local_bytes(std::int64_t columns) const { return bytes(shapes.local_tokens, columns); }
  [[nodiscard]] Bytes full_bytes(std::int64_t columns) const { return bytes(shapes.tokens, columns); }
  /// The same of what a linear layer alone reads, in 8 bits where its products are.
  [[nodiscard]] Bytes local_input_bytes(std::int64_t columns) const {
    return shapes.local_tokens * columns * shapes.input_bytes();
  }
  [[nodiscard]] Bytes full_input_bytes(std::int64_t columns) const {
    return shapes.tokens * columns * shapes.input_bytes();
  }
};

}  // namespace tidemark::graph_build
