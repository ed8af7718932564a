#pragma once
// A dense MLP split by tensor parallelism: the MLP of a dense layer, and the shared experts of an MoE layer.

#include <string>
#include <vector>

#include "planner/graph_build/block_context.h"

namespace tidemark::graph_build {

struct Mlp {
  std::string prefix;                           ///< of storages: "" or "shared_"
  std::string op_name;                          ///< of ops: "mlp" or "shared_expert"
  std::int64_t width = 0;                       ///< hidden width on this device
  std::int64_t input_bytes = kActivationBytes;  ///< an element of what it reads
};

struct MlpTensors {
  Ref fc1_out, act_out;
};

/// Emits in -> fc1_out -> act_out -> out; the last product carries the recipe tag `output_tag`.
[[nodiscard]] MlpTensors forward_mlp(const BlockContext& context, const Mlp& mlp, Ref in, Ref out,
                                     const std::string& output_tag);
void backward_mlp(const BlockContext& context, const Mlp& mlp, const MlpTensors& tensors, Ref in, Ref d_out, Ref d_in);

}  // namespace tidemark::graph_build
