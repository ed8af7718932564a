#include "planner/graph_build/elementwise.h"

#include "planner/cost/launch_counts.h"
#include "planner/graph_build/op_cost.h"

namespace tidemark::graph_build {
namespace {

template <class T>
std::vector<T> joined(std::vector<T> list, const std::vector<T>& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

}  // namespace

void token_op(const BlockContext& c, OpPhase phase, const std::string& name, std::vector<Ref> reads,
              std::vector<Ref> writes, std::int64_t columns) {
  const auto touched = static_cast<std::int64_t>(reads.size() + writes.size());
  c.builder.op(phase, {.name = name,
                       .cost = vector_cost(touched * c.local_bytes(columns)),
                       .reads = std::move(reads),
                       .writes = std::move(writes)});
}

void forward_norm(const BlockContext& c, const std::string& name, const std::string& group, Ref in, Ref out,
                  std::vector<Ref> residual) {
  const auto touched = static_cast<std::int64_t>(2 + residual.size());
  const double launches = residual.empty() ? 1 : 2;
  c.builder.op(OpPhase::forward, {.name = name,
                                  .cost = vector_cost(touched * c.local_bytes(c.model.hidden), launches),
                                  .reads = joined({c.builder.parameter(group), in}, residual),
                                  .writes = {out}});
}

void backward_norm(const BlockContext& c, const std::string& name, const std::string& group, Ref in,
                   const std::vector<Ref>& d_outs, Ref d_in, std::vector<Ref> residual) {
  const auto touched = static_cast<std::int64_t>(2 + d_outs.size() + residual.size());
  c.builder.op(OpPhase::backward, {.name = name + "_backward",
                                   .cost = vector_cost(touched * c.local_bytes(c.model.hidden)),
                                   .reads = joined(joined({c.builder.parameter(group), in}, d_outs), residual),
                                   .writes = {d_in, c.builder.gradient(group)}});
}

std::int64_t activation_inputs(const ModelSpec& model, std::int64_t width) {
  return is_gated(model.activation) ? 2 * width : width;
}

void forward_activation(const BlockContext& c, const std::string& name, Rows rows, std::int64_t width, Ref in, Ref out,
                        std::vector<Ref> scales) {
  const std::int64_t columns = activation_inputs(c.model, width) + width;
  c.builder.op(OpPhase::forward,
               {.name = name,
                .cost = vector_cost(BlockContext::bytes(rows.count, columns), cost::kActivationLaunches),
                .routed = rows.routed,
                .reads = joined({in}, scales),
                .writes = {out}});
}

void backward_activation(const BlockContext& c, const std::string& name, Rows rows, std::int64_t width, Ref in,
                         Ref d_out, Ref d_in, std::vector<Ref> scales, std::vector<Ref> d_scales) {
  const std::int64_t columns = 2 * activation_inputs(c.model, width) + width;
  c.builder.op(OpPhase::backward,
               {.name = name + "_backward",
                .cost = vector_cost(BlockContext::bytes(rows.count, columns), cost::kActivationLaunches),
                .routed = rows.routed,
                .reads = joined({in, d_out}, scales),
                .writes = joined({d_in}, d_scales)});
}

}  // namespace tidemark::graph_build
