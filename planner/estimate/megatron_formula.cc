#include "planner/estimate/megatron_formula.h"

#include <algorithm>

#include "planner/estimate/local_sizes.h"

namespace tidemark::estimate {
namespace {

double real(std::int64_t value) {
  return static_cast<double>(value);
}

/// Of the projections of one attention layer, before tensor parallelism.
double attention_parameters(const Model& model) {
  const Attention& a = model.attention;
  const double h = real(model.hidden), heads = real(a.heads);
  if (!a.multi_latent) {
    const double width = heads * real(a.head_dim);
    return 2 * h * width * (1 + real(a.groups) / heads);
  }
  const double qk = real(a.qk_head_dim + a.qk_rope_dim);
  const double query = a.q_lora_rank > 0 ? real(a.q_lora_rank) * (h + heads * qk) : h * heads * qk;
  return query + real(a.kv_lora_rank) * (h + heads * real(a.qk_head_dim + a.v_head_dim)) + h * real(a.qk_rope_dim) +
         heads * real(a.v_head_dim) * h;
}

/// Of all decoder layers: experts are counted whole, wherever they are.
double layer_parameters(const Model& model) {
  const double h = real(model.hidden), gate = model.gated ? 1.5 : 1;
  const auto moe = real(std::ranges::count(model.moe.is_moe, true));
  const double dense = real(model.layers) - moe;
  const double experts = real(model.moe.width) * real(model.moe.experts) + real(model.moe.shared_width);
  return real(model.layers) * (attention_parameters(model) + 2 * h) + dense * 2 * h * real(model.ffn) * gate +
         moe * 2 * h * experts * gate;
}

double activation_bytes(const TrainingRun& run, double vocabulary) {
  const Model& model = run.model;
  const Parallel& parallel = run.parallel;
  const double h = real(model.hidden), tokens = real(model.sequence) * real(run.batch.micro);
  const double stages = real(parallel.pipeline);
  double bytes = tokens * h * (18 + 4 * real(model.ffn) / h) * real(model.layers);
  bytes += 8 * tokens * stages + tokens * h * stages;  // embedding
  if (parallel.virtual_pipeline > 1)
    bytes *= 1 + (stages - 1) / (stages * real(parallel.virtual_pipeline));
  else if (parallel.pipeline > 1)
    bytes *= std::min(1.0, real(run.batch.micro_batches) / stages);
  else
    bytes += tokens * h * 4 * (1 + vocabulary / h);  // loss
  return bytes / real(parallel.tensor);
}

}  // namespace

std::optional<MemoryFigures> megatron_formula(const TrainingRun& run) {
  const Model& model = run.model;
  if ((model.kind != ModelClass::gpt && model.kind != ModelClass::bert) || model.layers == 0) return std::nullopt;
  const Parallel& parallel = run.parallel;
  const auto vocabulary = real(padded_vocabulary(run));
  const bool both = parallel.pipeline == 1 && !model.tied_embedding;
  const double parameters =
      (layer_parameters(model) / real(parallel.pipeline) + real(model.hidden) * vocabulary * (both ? 2 : 1)) /
      real(parallel.tensor);
  const double each = run.optimizer.distributed ? 6 + 12 / real(parallel.data) : 18;
  const double steady = parameters * each;
  return MemoryFigures{.steady_bytes = steady, .peak_bytes = steady + activation_bytes(run, vocabulary)};
}

}  // namespace tidemark::estimate
