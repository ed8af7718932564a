#pragma once
// The two ends of the model, split by vocabulary: embedding lookup, and the output head with its loss.

#include <string>
#include <vector>

#include "planner/graph_build/block_context.h"

namespace tidemark::graph_build {

/// out = embedding of this micro-batch's tokens.
void forward_lookup(const BlockContext& context, const std::string& group, Ref out);
/// Adds the gradient of the looked-up rows to the embedding's.
void backward_lookup(const BlockContext& context, const std::string& group, Ref d_out);

/// Final norm, logits in 16 bits, loss in fp32. Nothing is chunked: the logits are whole.
struct Head {
  std::string prefix;        ///< of ops and storages: "head" or "mtp.head"
  std::string norm_group;    ///< parameters of the final norm
  std::string output_group;  ///< parameters of the output matrix
};

struct HeadTensors {
  Ref final_norm_out;
  Ref logits_fp32;  ///< softmax of the logits, in place of them
};

[[nodiscard]] HeadTensors forward_head(const BlockContext& context, const Head& head, Ref x);
/// Writes the gradient of x, plus `more`.
void backward_head(const BlockContext& context, const Head& head, const HeadTensors& tensors, Ref x, Ref d_x,
                   const std::vector<Ref>& more = {});

}  // namespace tidemark::graph_build
