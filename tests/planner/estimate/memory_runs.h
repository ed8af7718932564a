#pragma once
// Small training runs the tests of rank memory start from. Every size is written here or in the test that changes it.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "planner/estimate/rank_memory.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::estimate::testing {

inline constexpr double kMiB = 1024.0 * 1024;

/// `per_chunk` decoder layers in each chunk, embedding on the first, loss (and MTP) on the last.
inline void fill_layout(TrainingRun& run, std::int64_t per_chunk) {
  Parallel& parallel = run.parallel;
  const std::int64_t stages = parallel.pipeline * parallel.virtual_pipeline;
  parallel.chunks.assign(static_cast<std::size_t>(parallel.pipeline),
                         std::vector<Chunk>(static_cast<std::size_t>(parallel.virtual_pipeline)));
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    Chunk& chunk = parallel.chunks[static_cast<std::size_t>(stage % parallel.pipeline)]
                                  [static_cast<std::size_t>(stage / parallel.pipeline)];
    for (std::int64_t i = 0; i < per_chunk; ++i) chunk.layers.push_back(stage * per_chunk + i);
    chunk.embedding = stage == 0;
    chunk.loss = stage == stages - 1;
    chunk.mtp = chunk.loss ? run.model.mtp_layers : 0;
  }
  run.model.layers = stages * per_chunk;
}

/// Sets what follows from the other sizes. Call last.
inline void fill_world(TrainingRun& run) {
  Parallel& parallel = run.parallel;
  parallel.world = parallel.tensor * parallel.pipeline * parallel.context * parallel.data;
  parallel.expert_data = parallel.world / (parallel.expert_tensor * parallel.expert * parallel.pipeline);
}

/// GPT with learned positions and dropout: 12 layers of width 512 on one A100, bf16, no sharding of anything.
inline TrainingRun gpt_run() {
  TrainingRun run;
  run.platform.accelerator = Accelerator::a100;
  run.precision = Precision::bf16;
  Model& model = run.model;
  model.hidden = 512;
  model.ffn = 4 * 512;
  model.sequence = model.max_positions = 1024;
  model.vocabulary.padded = 50304;
  model.attention = {.heads = 8, .groups = 8, .head_dim = 64, .backend = AttentionBackend::unfused};
  run.batch = {.micro = 4, .global = 32, .micro_batches = 8};
  fill_layout(run, 12);
  fill_world(run);
  return run;
}

/// Llama-like on Ascend: no dropout, no biases, gated, untied, fused attention.
inline TrainingRun ascend_run() {
  TrainingRun run;
  run.platform.framework = Framework::mindspeed_llm;
  run.platform.accelerator = Accelerator::ascend;
  run.precision = Precision::bf16;
  Model& model = run.model;
  model.hidden = 4096;
  model.ffn = 11008;
  model.gated = true;
  model.sequence = model.max_positions = 4096;
  model.positions = PositionEmbedding::rope;
  model.norm = Norm::rms_norm;
  model.linear_bias = false;
  model.hidden_dropout = 0;
  model.tied_embedding = false;
  model.vocabulary.padded = 32000;
  model.attention = {.heads = 32, .groups = 32, .head_dim = 128, .dropout = 0, .use_flash = true};
  run.optimizer.distributed = true;
  run.batch = {.micro = 1, .global = 16, .micro_batches = 16};
  return run;
}

/// A description of the planner's own as a framework's run: what both say about parameters must agree.
inline TrainingRun run_of(const graph_build::JobSpec& job) {
  const graph_build::ModelSpec& from = job.model;
  const graph_build::ParallelSpec& layout = job.parallel;
  TrainingRun run = ascend_run();
  run.platform = {.framework = Framework::megatron_lm, .accelerator = Accelerator::h100};
  Model& model = run.model;
  model.hidden = from.hidden;
  model.ffn = from.dense_width;
  model.sequence = from.sequence;
  model.layers = static_cast<std::int64_t>(from.layers.size());
  model.output_norms = from.norm == graph_build::NormPlacement::sandwich;
  model.tied_embedding = from.tied_embedding;
  model.mtp_layers = from.mtp_layers;
  model.vocabulary.padded = from.vocabulary;
  const graph_build::AttentionSpec& attention = from.attention;
  const bool latent = attention.kind == graph_build::AttentionSpec::Kind::mla;
  model.attention = {.heads = attention.heads,
                     .groups = latent ? attention.heads : attention.kv_heads,
                     .head_dim = latent ? attention.v_head_dim : attention.head_dim,
                     .multi_latent = latent,
                     .q_lora_rank = attention.q_lora_rank,
                     .kv_lora_rank = attention.kv_lora_rank,
                     .qk_head_dim = attention.qk_nope_dim,
                     .qk_rope_dim = attention.qk_rope_dim,
                     .v_head_dim = attention.v_head_dim,
                     .qk_norm = latent || attention.qk_norm,
                     .qkv_bias = attention.qkv_bias};
  model.moe = {.experts = from.moe.experts,
               .top_k = from.moe.top_k,
               .width = from.moe.width,
               .shared_width = from.moe.shared_width,
               .shared_gate = from.moe.shared_gate,
               .dispatcher = Dispatcher::alltoall};
  for (const graph_build::LayerKind kind : from.layers) model.moe.is_moe.push_back(kind == graph_build::LayerKind::moe);
  Parallel& parallel = run.parallel;
  parallel = {.tensor = layout.tensor,
              .sequence_parallel = layout.sequence_parallel,
              .pipeline = layout.pipeline,
              .virtual_pipeline = layout.virtual_pipeline,
              .context = layout.context,
              .expert = layout.expert_ranks(),
              .expert_tensor = layout.tensor_extends_expert ? 1 : layout.tensor,
              .data = layout.data};
  for (const auto& rank : layout.slots) {
    std::vector<Chunk>& chunks = parallel.chunks.emplace_back();
    for (const auto& slots : rank) {
      Chunk& chunk = chunks.emplace_back();
      for (const graph_build::Slot& slot : slots) {
        if (slot.kind == graph_build::Slot::Kind::layer) chunk.layers.push_back(slot.layer);
        if (slot.kind == graph_build::Slot::Kind::mtp) ++chunk.mtp;
      }
    }
  }
  parallel.chunks.front().front().embedding = true;
  parallel.chunks.back().back().loss = true;
  run.batch = {.micro = layout.micro_batch, .global = layout.global_batch, .micro_batches = layout.micro_batches()};
  run.quantization.used = layout.compute == graph_build::ParallelSpec::Compute::fp8;
  fill_world(run);
  return run;
}

inline std::map<std::string, double> by_name(const std::vector<Term>& terms) {
  std::map<std::string, double> bytes;
  for (const Term& term : terms) bytes[std::string(term.name)] += term.bytes;
  return bytes;
}

/// The estimate of a run the test knows to be valid.
inline RankMemory estimate(const TrainingRun& run, std::int64_t rank = 0, const MemoryKnobs& knobs = {}) {
  return estimate_rank(run, rank, knobs).value();
}

}  // namespace tidemark::estimate::testing
