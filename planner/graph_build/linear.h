#pragma once
// Matrix products under tensor parallelism, and the collectives around them.
//
//   column  x [t, inner] -- gather --> [n, inner] -- matmul --> y [n, columns]      (weights split by columns)
//   row     x [n, inner] -- matmul --> [n, columns] partial -- reduce --> y [t, columns]
//   none    x [t, inner] -- matmul --> y [t, columns]                               (weights replicated)
//
// t: this device's tokens with sequence parallelism, all n without. Backward mirrors this: dX of a column product ends
// in a reduction, dX of a row product starts from a gathered gradient, dW gathers the input of a column product again.

#include <string>
#include <vector>

#include "planner/graph_build/block_context.h"

namespace tidemark::graph_build {

struct Linear {
  enum class Split : std::uint8_t { column, row, none };
  std::string name;   ///< of its ops
  std::string group;  ///< parameter group
  std::int64_t inner = 0;
  std::int64_t columns = 0;  ///< both on this device
  Split split = Split::none;
  std::int64_t input_bytes = kActivationBytes;  ///< an element of `in`
  bool stays_16bit = false;                     ///< where products of other linear layers are in fp8
};

void forward_linear(const BlockContext& context, const Linear& linear, Ref in, Ref out);
/// Emits dX and dW. REQUIRES: `in` as in the forward pass; `d_out` shaped like out, `d_in` like in.
void backward_linear(const BlockContext& context, const Linear& linear, Ref in, Ref d_out, Ref d_in);

/// All tokens of `shards` (together `columns` wide), or the first shard itself where nothing needs gathering.
[[nodiscard]] Ref gather_tokens(const BlockContext& context, OpPhase phase, const std::string& name,
                                const std::vector<Ref>& shards, std::int64_t columns,
                                std::int64_t element_bytes = kActivationBytes);
/// Of [rows, inner] x [inner, columns] in a linear layer: in fp8 where the job's are.
[[nodiscard]] OpCost linear_cost(const BlockContext& context, OpCost product);

/// Where a product that is to be reduced into `out` is written: a partial sum, or `out` itself without tensor
/// parallelism.
[[nodiscard]] Ref partial_sum(const BlockContext& context, const std::string& name, Ref out, std::int64_t columns);
/// Reduce-scatter or all-reduce of `partial` into `out`; nothing where they are the same. In backward, pending dW ops
/// follow.
void reduce_tokens(const BlockContext& context, OpPhase phase, const std::string& name, Ref partial, Ref out,
                   std::int64_t columns);

}  // namespace tidemark::graph_build
