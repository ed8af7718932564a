#include "planner/graph_build/vocabulary.h"

#include "planner/cost/launch_counts.h"
#include "planner/graph_build/elementwise.h"
#include "planner/graph_build/linear.h"
#include "planner/graph_build/op_cost.h"

namespace tidemark::graph_build {
namespace {

constexpr std::int64_t kFp32Bytes = 4;
constexpr double kLossLaunches = cost::kHeadLaunches - 2;  ///< the final norm and the product have one each

/// What is recorded meanwhile launches so many times as much backward as forward.
class BackwardLaunches {
 public:
  BackwardLaunches(BlockBuilder& builder, double of_forward)
      : builder_(builder), before_(builder.backward_launches(of_forward)) {}
  ~BackwardLaunches() { builder_.backward_launches(before_); }
  BackwardLaunches(const BackwardLaunches&) = delete;
  BackwardLaunches& operator=(const BackwardLaunches&) = delete;

 private:
  BlockBuilder& builder_;
  const double before_;
};

constexpr double kHeadBackward = 1, kLookupBackward = cost::kLookupBackwardLaunches / cost::kLookupLaunches;

Linear logits_linear(const BlockContext& c, const Head& head) {
  return {.name = head.prefix + ".logits",
          .group = head.output_group,
          .inner = c.model.hidden,
          .columns = c.shapes.vocabulary,
          .split = Linear::Split::column,
          .stays_16bit = true};
}

Bytes fp32_bytes(const BlockContext& c) {
  return c.shapes.tokens * c.shapes.vocabulary * kFp32Bytes;
}

}  // namespace

void forward_lookup(const BlockContext& c, const std::string& group, Ref out) {
  const BackwardLaunches launches(c.builder, kLookupBackward);
  const std::int64_t columns = c.model.hidden;
  // Each tensor rank finds the rows of its share of the vocabulary; the sum over ranks is complete.
  const Ref partial = partial_sum(c, "embedding.lookup", out, columns);
  c.builder.op(OpPhase::forward, {.name = "embedding.lookup",
                                  .cost = vector_cost(2 * c.full_bytes(columns), cost::kLookupLaunches),
                                  .reads = {c.builder.parameter(group)},
                                  .writes = {partial}});
  reduce_tokens(c, OpPhase::forward, "embedding.lookup", partial, out, columns);
}

void backward_lookup(const BlockContext& c, const std::string& group, Ref d_out) {
  const BackwardLaunches launches(c.builder, kLookupBackward);
  const std::int64_t columns = c.model.hidden;
  const Ref gathered = gather_tokens(c, OpPhase::backward, "embedding.gradient", {d_out}, columns);
  c.builder.weight_gradient({.name = "embedding.lookup_dw",
                             .cost = vector_cost(3 * c.full_bytes(columns)),
                             .reads = {gathered},
                             .writes = {c.builder.gradient(group)}});
}

HeadTensors forward_head(const BlockContext& c, const Head& head, Ref x) {
  BlockBuilder& b = c.builder;
  const BackwardLaunches launches(b, kHeadBackward);
  b.module(head.prefix);
  const HeadTensors t{.final_norm_out = b.saved("final_norm_out", c.local_bytes(c.model.hidden)),
                      .logits_fp32 = b.saved("logits_fp32", fp32_bytes(c))};
  const Ref logits = b.temporary("logits", c.full_bytes(c.shapes.vocabulary));
  b.tag("final_norm_out");
  forward_norm(c, head.prefix + ".final_norm", head.norm_group, x, t.final_norm_out);
  b.recipe("final_norm_out", {t.final_norm_out});
  b.tag("logits_fp32");
  forward_linear(c, logits_linear(c, head), t.final_norm_out, logits);
  // Conversion to fp32 and softmax in place: read 2, write 4, read and write 4 once more.
  b.op(OpPhase::forward, {.name = head.prefix + ".loss",
                          .cost = vector_cost(c.full_bytes(c.shapes.vocabulary) + 3 * fp32_bytes(c), kLossLaunches),
                          .reads = {logits},
                          .writes = {t.logits_fp32}});
  b.recipe("logits_fp32", {t.logits_fp32});
  b.tag("");
  return t;
}

void backward_head(const BlockContext& c, const Head& head, const HeadTensors& t, Ref x, Ref d_x,
                   const std::vector<Ref>& more) {
  BlockBuilder& b = c.builder;
  const BackwardLaunches launches(b, kHeadBackward);
  b.module(head.prefix);
  const Ref d_fp32 = b.temporary("logits_fp32_gradient", fp32_bytes(c));
  b.op(OpPhase::backward, {.name = head.prefix + ".loss_backward",
                           .cost = vector_cost(2 * fp32_bytes(c)),
                           .reads = {t.logits_fp32},
                           .writes = {d_fp32}});
  const Ref d_logits = b.temporary("logits_gradient", c.full_bytes(c.shapes.vocabulary));
  b.op(OpPhase::backward, {.name = head.prefix + ".logits_cast_backward",
                           .cost = vector_cost(fp32_bytes(c) + c.full_bytes(c.shapes.vocabulary)),
                           .reads = {d_fp32},
                           .writes = {d_logits}});
  const Ref d_final = b.temporary("final_norm_gradient", c.local_bytes(c.model.hidden));
  backward_linear(c, logits_linear(c, head), t.final_norm_out, d_logits, d_final);
  backward_norm(c, head.prefix + ".final_norm", head.norm_group, x, {d_final}, d_x, more);
  b.flush();
}

}  // namespace tidemark::graph_build
