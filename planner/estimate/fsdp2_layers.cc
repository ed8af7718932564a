#include "planner/estimate/fsdp2_layers.h"

#include <vector>

#include "planner/estimate/saved_cuda.h"

namespace tidemark::estimate {
namespace {

using Checkpoint = Fsdp2::Checkpoint;

double ratio(std::int64_t whole, std::int64_t parts) {
  return static_cast<double>(whole) / static_cast<double>(parts);
}

bool splits_tensors(const TrainingRun& run) {
  return run.parallel.tensor > 1;
}

/// Columns of the attention's matrix products in the order they run, on this rank: torchtitan
/// models/common/attention.py and models/deepseek_v3/model.py.
std::vector<double> attention_products(const RankView& view) {
  const Attention& attention = view.run.model.attention;
  const LocalSizes& sizes = view.sizes;
  if (!attention.multi_latent) return {sizes.query_width, sizes.key_width, sizes.key_width, sizes.hidden};
  const std::int64_t tensor = view.run.parallel.tensor;
  const double queries = ratio(attention.heads * (attention.qk_head_dim + attention.qk_rope_dim), tensor);
  std::vector<double> columns;
  if (attention.q_lora_rank > 0) columns.push_back(static_cast<double>(attention.q_lora_rank));
  columns.push_back(queries);
  columns.push_back(static_cast<double>(attention.kv_lora_rank + attention.qk_rope_dim));
  columns.push_back(ratio(attention.heads * (attention.qk_head_dim + attention.v_head_dim), tensor));
  columns.push_back(sizes.hidden);
  return columns;
}

/// w1, w3, w2. Products of routed experts are grouped ones, which the policy does not list.
std::vector<double> products(const RankView& view, bool experts) {
  std::vector<double> columns = attention_products(view);
  const double width = experts ? view.sizes.shared_width : view.sizes.ffn;
  if (width > 0) columns.insert(columns.end(), {width, width, view.sizes.hidden});
  return columns;
}

double attention_output(const RankView& view) {
  const Attention& attention = view.run.model.attention;
  const double columns = attention.multi_latent
                             ? ratio(attention.heads * attention.v_head_dim, view.run.parallel.tensor)
                             : view.sizes.query_width;
  const double statistics = view.sizes.tokens * view.sizes.heads * 4;
  return view.sizes.tokens * columns * view.sizes.element_bytes + statistics;
}

/// Selective checkpointing by operators saves every other product, the first of them, the attention's output and what
/// is reduced over tensor ranks: torchtitan distributed/activation_checkpoint.py, _apply_op_sac of 2025.
double kept_by_operators(const RankView& view, bool experts) {
  const LocalSizes& sizes = view.sizes;
  double columns = 0;
  const std::vector<double> all = products(view, experts);
  for (std::size_t i = 0; i < all.size(); i += 2) columns += all[i];
  double bytes = sizes.boundary_bytes + sizes.tokens * columns * sizes.element_bytes + attention_output(view);
  if (splits_tensors(view.run)) bytes += 2 * sizes.boundary_bytes;
  return bytes;
}

/// Without checkpoints, eager: inputs of both norms and their outputs, rotated queries, keys and values repeated to all
/// heads, the attention's output, both halves of the gate, its activation and their product.
double kept_in_full(const RankView& view, bool experts) {
  const LocalSizes& sizes = view.sizes;
  if (experts || view.run.model.attention.multi_latent) return layer_cost_cuda(view.run, sizes, experts, true).kept;
  double bytes = 4 * sizes.boundary_bytes + attention_output(view);
  bytes += sizes.tokens * (3 * sizes.query_width + 4 * sizes.ffn) * sizes.element_bytes;
  if (splits_tensors(view.run)) bytes += 2 * sizes.tokens * sizes.hidden * sizes.element_bytes;
  return bytes;
}

}  // namespace

Fsdp2Layer fsdp2_layer(const RankView& view, std::int64_t layer, std::int64_t turn) {
  const Fsdp2& options = view.run.fsdp2;
  const bool experts = has_experts(view.run, layer);
  const double full = kept_in_full(view, experts);
  Fsdp2Layer result{.kept = full, .rebuilt = full};
  switch (options.checkpoint) {
    case Checkpoint::none:
      break;
    case Checkpoint::nth_layer:
      if ((turn + 1) % options.nth == 0) result.kept = view.sizes.boundary_bytes;
      break;
    case Checkpoint::every_second_product:
      result.kept = kept_by_operators(view, experts);
      break;
    case Checkpoint::full:
      result.kept = view.sizes.boundary_bytes;
      break;
  }
  return result;
}

double fsdp2_loss_bytes(const TrainingRun& run) {
  // The compiled loss keeps the logits as they came and writes their gradient: twice 16 bits.
  const bool fp32 = run.precision == Precision::fp32;
  if (run.fsdp2.compiled_loss) return fp32 ? 8 : 4;
  // Tensor-parallel loss (torch/distributed/tensor/parallel/loss.py): fp32 logits, shifted and exponentials lie behind
  // the 16-bit logits in forward; backward finds ten freed bytes a logit for two of its three fp32 tensors.
  if (splits_tensors(run) && run.fsdp2.loss_parallel) return fp32 ? 16 : 18;
  // cross_entropy(pred.float()): 16-bit logits, fp32 logits and their log-softmax lie one behind the other; freeing the
  // first two leaves six bytes a logit, which hold one of backward's two fp32 gradients. 2 + 4 + 4 + 4; of fp32 runs
  // the logits are the fp32 ones.
  return fp32 ? 12 : 14;
}

double fsdp2_logit_columns(const RankView& view) {
  const bool whole = splits_tensors(view.run) && !view.run.fsdp2.loss_parallel;
  return view.sizes.vocabulary * (whole ? static_cast<double>(view.run.parallel.tensor) : 1);
}

}  // namespace tidemark::estimate
