#pragma once
// Norms, residual sums and activations: kernels bound by memory traffic.

#include <string>
#include <vector>

#include "planner/graph_build/block_context.h"

namespace tidemark::graph_build {

/// Which rows a kernel works on.
struct Rows {
  std::int64_t count = 0;
  bool routed = false;  ///< count grows with expert load
};

/// Reads and writes of equal width, on this device's tokens.
void token_op(const BlockContext& context, OpPhase phase, const std::string& name, std::vector<Ref> reads,
              std::vector<Ref> writes, std::int64_t columns);

/// out = norm(in), or residual + norm(in). `group` holds the norm's weights.
void forward_norm(const BlockContext& context, const std::string& name, const std::string& group, Ref in, Ref out,
                  std::vector<Ref> residual = {});
/// d_in = sum of residual gradients + gradient of norm(in) from the sum of `d_outs`. Adds to the weights' gradient.
void backward_norm(const BlockContext& context, const std::string& name, const std::string& group, Ref in,
                   const std::vector<Ref>& d_outs, Ref d_in, std::vector<Ref> residual = {});

/// Width of the product that feeds an activation of `width` outputs: twice for a gated one.
[[nodiscard]] std::int64_t activation_inputs(const ModelSpec& model, std::int64_t width);

/// out = activation(in) over rows of `width`; `scales` are read besides (router probabilities).
void forward_activation(const BlockContext& context, const std::string& name, Rows rows, std::int64_t width, Ref in,
                        Ref out, std::vector<Ref> scales = {});
void backward_activation(const BlockContext& context, const std::string& name, Rows rows, std::int64_t width, Ref in,
                         Ref d_out, Ref d_in, std::vector<Ref> scales = {}, std::vector<Ref> d_scales = {});

}  // namespace tidemark::graph_build
