#include "planner/estimate/loss_spike.h"

#include <algorithm>

namespace tidemark::estimate {
namespace {

double number(std::int64_t value) {
  return static_cast<double>(value);
}

Term final_norm(const RankView& view) {
  const double copies = view.run.model.unfused_norm ? 4 : 2;
  return {"final_norm", copies * view.sizes.boundary_bytes, Origin::code,
          "megatron/core/transformer/transformer_block.py"};
}

/// Transformer Engine's loss is one of two implementations of the fused one.
bool fused_by_te(const TrainingRun& run) {
  return run.loss.fused && run.loss.fused_by_te;
}

/// Logits waiting for the output matrix's weight gradient.
Term deferred_logit_gradients(const RankView& view) {
  const Loss& loss = view.run.loss;
  double bytes = 0;
  if (loss.deferred_embedding_gradient) {
    std::int64_t waiting = view.run.batch.micro_batches;
    if (loss.deferral_limit > 0) waiting = std::min(waiting, loss.deferral_limit);
    const double widths = view.sizes.vocabulary + view.sizes.hidden;
    bytes = number(waiting) * view.sizes.tokens * widths * view.sizes.element_bytes;
  }
  return {"deferred_logit_gradients", bytes, Origin::code, "megatron/core/pipeline_parallel: wgrad-deferral-limit"};
}

/// Each loss of multi-token prediction keeps its softmax until backward. The compiled loss writes exponentials and sum
/// in place and still materialises one more copy; the two were never seen together, so the larger counts.
Term loss_copies(const RankView& view) {
  const Loss& loss = view.run.loss;
  const double logits = view.sizes.tokens * view.sizes.vocabulary;
  double copies = number(view.run.model.mtp_layers);
  if (loss.fused && !fused_by_te(view.run)) copies = std::max(copies, 1.0);
  if (loss.cautious_copy) copies += 1;
  return {"loss_copies", copies * logits * (fused_by_te(view.run) ? 2 : 4), Origin::code,
          "megatron/core/fusions/fused_cross_entropy.py: a full logits-sized transient"};
}

/// A shared head runs twice: its two 16-bit weight gradients wait for each other.
double two_head_gradients(const RankView& view) {
  if (view.run.model.mtp_layers <= 0 || view.run.optimizer.npu_gradient_fusion) return 0;
  return 2 * view.sizes.vocabulary * view.sizes.hidden * view.sizes.element_bytes;
}

}  // namespace

std::vector<Term> logits_cuda(const RankView& view, double tokens) {
  TermList terms;
  const double logits = tokens * view.sizes.vocabulary;
  // float() of fp32 logits copies nothing; Transformer Engine's loss writes the gradient into the 16-bit logits.
  const bool fp32_run = view.run.precision == Precision::fp32;
  terms.add({"logits", fp32_run ? 0 : 2 * logits, Origin::code, "megatron/core/models/gpt/gpt_model.py"});
  terms.add({"logits_fp32", fused_by_te(view.run) && !fp32_run ? 0 : 4 * logits, Origin::code,
             "megatron/core/tensor_parallel/cross_entropy.py: softmax and gradient in place"});
  return std::move(terms).take();
}

std::vector<Term> loss_spike_cuda(const RankView& view) {
  TermList terms;
  terms.add(final_norm(view));
  for (const Term& term : logits_cuda(view, view.sizes.tokens)) terms.add(term);
  terms.add(loss_copies(view));
  terms.add(deferred_logit_gradients(view));
  return std::move(terms).take();
}

std::vector<Term> loss_spike_ascend(const RankView& view) {
  const Loss& loss = view.run.loss;
  const LocalSizes& sizes = view.sizes;
  // A chunked loss never sees more than its chunk of every sequence.
  const double chunk = number(loss.chunk_tokens) * sizes.sequences;
  const double tokens = loss.chunk_tokens > 0 ? std::min(sizes.tokens, chunk) : sizes.tokens;
  const double logits = tokens * sizes.vocabulary;
  const double slices = number(std::max<std::int64_t>(1, loss.output_slices));
  // One option turns 16-bit logits into their softmax in place; without it an fp32 copy becomes the softmax.
  // Softcapped ones keep their tanh beside the product with the cap.
  const double at_logits = (loss.in_16bit_logits ? 2 : 2 + 4) + (loss.softcapped ? 2 : 0);
  const double bytes = loss.preference ? view.knobs.preference_bytes_per_logit : at_logits;
  const double mtp_softmax = number(view.run.model.mtp_layers) * logits * (loss.in_16bit_logits ? 2 : 4);
  const double sliced_input = slices > 1 ? sizes.tokens * sizes.hidden * sizes.element_bytes : 0;
  const double at_loss = logits * bytes / slices + mtp_softmax + sliced_input;
  const double head_gradients = two_head_gradients(view);
  const double at_head = head_gradients > 0 ? logits * at_logits + head_gradients : 0;
  TermList terms;
  terms.add(final_norm(view));
  if (at_head > at_loss) {
    terms.add({"logits", logits * at_logits, Origin::code, "megatron/core/tensor_parallel/cross_entropy.py"});
    terms.add({"shared_head_gradients", head_gradients, Origin::code,
               "mindspeed_llm multi-token prediction: the output matrix is used twice"});
    return std::move(terms).take();
  }
  terms.add({"logits", logits * bytes / slices, loss.preference ? Origin::fitted : Origin::code,
             loss.preference ? "measured: policy and reference log-probabilities in fp32"
                             : "megatron/core/tensor_parallel/cross_entropy.py"});
  terms.add({"mtp_softmax", mtp_softmax, Origin::code, "one softmax a depth stays until backward"});
  terms.add({"sliced_output_input", sliced_input, Origin::code, "mindspeed_llm output-layer-slice-num"});
  return std::move(terms).take();
}

}  // namespace tidemark::estimate
