#include "planner/estimate/static_cuda.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "planner/estimate/attention_backend.h"
#include "planner/estimate/static_state.h"

namespace tidemark::estimate {
namespace {

constexpr double kKiB = 1024;
constexpr double kMiB = 1024 * kKiB;

double number(std::int64_t value) {
  return static_cast<double>(value);
}

/// Elements of matrices an 8-bit run quantises.
double linear_elements(const RankView& view) {
  double sum = 0;
  for (const Parameter& parameter : view.parameters)
    if (parameter.role == ParameterRole::linear) sum += number(parameter.elements);
  return sum;
}

/// Row- and column-wise copies: before Blackwell matrix products read only one layout, block scales differ by
/// direction.
Term quantized_weights(const RankView& view) {
  const Quantization& quantization = view.run.quantization;
  Term term{"quantized_weights", 0, Origin::code, "transformer_engine/pytorch/tensor: row- and column-wise data"};
  if (!quantization.used) return term;
  if (view.run.optimizer.fsdp) {
    term.origin = Origin::fitted;
    term.source = "measured: gathered 8-bit weight and transpose stay";
    if (quantization.parameters) term.bytes = 2 * quantized_bytes(quantization) * linear_elements(view);
    return term;
  }
  const bool both = view.run.platform.accelerator != Accelerator::gb200 || quantization.both_layouts;
  const double instead_of_weight = quantization.parameters ? 2 : 0;
  term.bytes = ((both ? 2 : 1) * quantized_bytes(quantization) - instead_of_weight) * linear_elements(view);
  return term;
}

Term cublas_workspaces(const RankView& view) {
  constexpr double kThreads = 2;  // forward and autograd
  return {"cublas_workspaces", kThreads * cublas_workspace_bytes(view.run.platform), Origin::library_default,
          "pytorch aten/src/ATen/cuda/CublasHandlePool.cpp: parseChosenWorkspaceSize"};
}

double te_workspace_bytes(const Platform& platform) {
  return (platform.accelerator == Accelerator::a100 ? 4 : 32) * kMiB;
}

/// The local implementation has no Transformer Engine in it, but its experts do.
Term te_workspace(const RankView& view) {
  const bool used = !view.run.model.transformer_impl_local || view.run.model.moe.experts > 0;
  return {"te_gemm_workspace", used ? te_workspace_bytes(view.run.platform) : 0, Origin::code,
          "transformer_engine/pytorch/module/base.py: get_cublas_workspace_size_bytes"};
}

Term te_grouped_workspaces(const RankView& view) {
  constexpr double kStreams = 4;
  const Experts& moe = view.run.model.moe;
  const bool used = moe.experts > 0 && moe.grouped_gemm && !moe.legacy_grouped_gemm;
  return {"te_grouped_gemm_workspaces", used ? kStreams * te_workspace_bytes(view.run.platform) : 0, Origin::code,
          "transformer_engine/pytorch/module/base.py: get_multi_stream_cublas_workspace"};
}

/// The global memory buffer keeps one tensor per name: the largest request made under "mpu".
Term global_buffer(const RankView& view) {
  const TrainingRun& run = view.run;
  const LocalSizes& sizes = view.sizes;
  double bytes = 0;
  if (shards_sequence(run)) bytes = sizes.tokens * sizes.hidden * sizes.element_bytes;
  if (gathers_tokens(run)) {
    const double group = number(run.parallel.expert * run.parallel.expert_tensor);
    bytes = std::max(bytes, group * sizes.boundary_bytes);
  }
  if (attention_backend(run) == AttentionBackend::local && run.model.transformer_impl_local) {
    const double scores = sizes.sequences * sizes.heads * sizes.queries * sizes.keys;
    bytes = std::max(bytes, scores * sizes.element_bytes);
  }
  return {"global_memory_buffer", bytes, Origin::code,
          "megatron/core/utils.py: GlobalMemoryBuffer; tensor_parallel/layers.py, moe/token_dispatcher.py, "
          "transformer/dot_product_attention.py"};
}

/// Input and its gradient of the last call of each chunk. The first chunk of stage 0 has no input.
Term pipeline_residue(const RankView& view) {
  double chunks = view.run.parallel.pipeline > 1 ? number(static_cast<std::int64_t>(view.chunks.size())) : 0;
  if (view.place.stage == 0 && chunks > 0) --chunks;
  return {"pipeline_residue", view.knobs.boundary_tensors * chunks * view.sizes.boundary_bytes, Origin::fitted,
          "measured: exact on runs with expandable segments"};
}

/// Cached blocks of the large pool are not split where less than 1 MiB would remain.
Term split_slack(const RankView& view) {
  const bool used = view.run.parallel.pipeline > 1 && !view.run.platform.expandable_segments;
  return {"split_slack", used ? view.knobs.split_slack_bytes : 0, Origin::fitted,
          "pytorch c10/cuda/CUDACachingAllocator.cpp: should_split; amount measured"};
}

Term deferred_embedding_gradient(const RankView& view) {
  const bool used = view.run.loss.deferred_embedding_gradient && view.has_loss();
  return {"deferred_embedding_gradient",
          used ? view.sizes.vocabulary * view.sizes.hidden * view.sizes.element_bytes : 0, Origin::fitted,
          "measured: one gradient of the output matrix, defer-embedding-wgrad-compute"};
}

/// A second compute stream has a workspace of its own.
Term overlap_workspace(const RankView& view) {
  const bool used = view.run.parallel.overlap_expert_communication;
  return {"overlap_workspace", used ? cublas_workspace_bytes(view.run.platform) : 0, Origin::fitted,
          "measured: one workspace more with overlap-moe-expert-parallel-comm"};
}

Term flex_buffers(const RankView& view) {
  const TrainingRun& run = view.run;
  const bool used = run.model.moe.experts > 0 && run.model.moe.dispatcher == Dispatcher::flex;
  const double rows = view.sizes.shard_tokens * number(run.parallel.expert);
  return {"flex_dispatcher_buffers", used ? view.knobs.flex_buffers * rows * view.sizes.hidden * 2 : 0, Origin::fitted,
          "megatron/core/transformer/moe/fused_a2a.py sizes by tokens of a rank; amount measured"};
}

/// Logits and softmax of the last micro-batch stay referenced by the encoder-decoder's training script.
Term last_logits(const RankView& view) {
  double bytes = 0;
  if (view.run.model.kind == ModelClass::t5)
    bytes = number(view.run.model.decoder_sequence) * view.sizes.sequences * view.sizes.vocabulary * (2 + 4);
  return {"last_logits", bytes, Origin::fitted, "measured on encoder-decoder runs"};
}

/// The long-term line keeps the loaded fp32 state, not sharded, beside the optimizer's own.
Term resumed_state(const RankView& view) {
  const TrainingRun& run = view.run;
  const bool used = run.platform.lts && run.platform.resumed && run.optimizer.distributed;
  return {"resumed_state", used ? 4 * count_elements(view.parameters) : 0, Origin::fitted,
          "measured on resumed runs of the long-term container"};
}

}  // namespace

double cublas_workspace_bytes(const Platform& platform) {
  const std::string& text = platform.cublas_workspace_config;  // :KiB:count, repeated
  std::vector<double> values;
  for (std::size_t i = 0; i < text.size() && values.size() < 16;) {
    if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) {
      ++i;
      continue;
    }
    double value = 0;
    for (; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0; ++i)
      value = std::min(1e9, value * 10 + (text[i] - '0'));
    values.push_back(value);
  }
  if (values.size() >= 2) {
    double bytes = 0;
    for (std::size_t i = 0; i + 1 < values.size(); i += 2) bytes += values[i] * kKiB * values[i + 1];
    return bytes;
  }
  if (platform.accelerator == Accelerator::h100) return 32 * kMiB;
  return (4096 * 2 + 16 * 8) * kKiB;
}

std::vector<Term> static_cuda(const RankView& view) {
  TermList terms;
  add_state_terms(view, terms);
  terms.add(quantized_weights(view));
  terms.add(cublas_workspaces(view));
  terms.add(te_workspace(view));
  terms.add(te_grouped_workspaces(view));
  terms.add(global_buffer(view));
  terms.add(pipeline_residue(view));
  terms.add(split_slack(view));
  terms.add(deferred_embedding_gradient(view));
  terms.add(overlap_workspace(view));
  terms.add(flex_buffers(view));
  terms.add(last_logits(view));
  terms.add(resumed_state(view));
  return std::move(terms).take();
}

}  // namespace tidemark::estimate
