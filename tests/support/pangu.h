#pragma once
// The reference job in C++: Pangu Ultra MoE 718B at TP8, PP16, VPP2, EP4 with tensor-extends-expert, DP48, micro-batch
// 2, on a 64 GB Ascend 910B. The shipped YAML files must describe the same values. Also the other public models that
// counts are checked against. Hyper-parameters: OpenPanguMoEConfig; DeepSeek-V3, Mixtral 8x7B and Llama-3-70B as
// published.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/bytes.h"
#include "core/machine.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::testing {

/// `dense` dense layers followed by `moe` MoE layers.
inline std::vector<graph_build::LayerKind> layer_kinds(std::size_t dense, std::size_t moe) {
  std::vector<graph_build::LayerKind> kinds(dense + moe, graph_build::LayerKind::moe);
  std::fill_n(kinds.begin(), dense, graph_build::LayerKind::dense);
  return kinds;
}

/// Fills rank x chunk slots of equal size in pipeline order; slot numbers >= layers are no-ops. For tests that need no
/// exceptions.
inline void fill_slots(graph_build::JobSpec& job) {
  graph_build::ParallelSpec& parallel = job.parallel;
  const std::int64_t stages = std::int64_t{parallel.pipeline} * parallel.virtual_pipeline;
  const auto layers = static_cast<std::int64_t>(job.model.layers.size());
  const std::int64_t per_stage = (layers + stages - 1) / stages;
  parallel.slots.assign(
      static_cast<std::size_t>(parallel.pipeline),
      std::vector<std::vector<graph_build::Slot>>(static_cast<std::size_t>(parallel.virtual_pipeline)));
  for (std::int64_t slot = 0; slot < per_stage * stages; ++slot) {
    const std::int64_t stage = slot / per_stage;
    auto& chunk = parallel.slots[static_cast<std::size_t>(stage % parallel.pipeline)]
                                [static_cast<std::size_t>(stage / parallel.pipeline)];
    chunk.push_back(slot < layers ? graph_build::Slot{.kind = graph_build::Slot::Kind::layer,
                                                      .layer = static_cast<std::int32_t>(slot)}
                                  : graph_build::Slot{.kind = graph_build::Slot::Kind::noop, .layer = -1});
  }
  for (std::int64_t module = 0; module < job.model.mtp_layers; ++module) {
    parallel.slots.back().back().push_back(
        {.kind = graph_build::Slot::Kind::mtp, .layer = static_cast<std::int32_t>(module)});
  }
}

inline graph_build::ModelSpec pangu_model() {
  return {.name = "pangu-ultra-moe-718b",
          .hidden = 7680,
          .vocabulary = 153600,
          .sequence = 8192,
          .layers = layer_kinds(3, 58),
          .mtp_layers = 1,
          .attention = {.kind = graph_build::AttentionSpec::Kind::mla,
                        .heads = 128,
                        .q_lora_rank = 1536,
                        .kv_lora_rank = 512,
                        .qk_rope_dim = 64,
                        .qk_nope_dim = 128,
                        .v_head_dim = 128},
          .dense_width = 18432,
          .moe = {.experts = 256, .top_k = 8, .width = 2048, .shared_width = 2048},
          .norm = graph_build::NormPlacement::sandwich};
}

/// Slot i holds layer i; slots 61 and 63 are no-ops, slot 62 the MTP module; the main head sits with layer 60.
inline graph_build::JobSpec pangu_job() {
  graph_build::JobSpec job{.model = pangu_model(),
                           .parallel = {.tensor = 8,
                                        .sequence_parallel = true,
                                        .pipeline = 16,
                                        .virtual_pipeline = 2,
                                        .expert = 4,
                                        .tensor_extends_expert = true,
                                        .data = 48,
                                        .micro_batch = 2,
                                        .global_batch = 6144,
                                        .overlap_forward_backward = true,
                                        .hierarchical_expert_communication = true},
                           .device = "ascend-910b-64g"};
  job.parallel.head_stage = 30;
  auto& slots = job.parallel.slots;
  slots.assign(16, std::vector<std::vector<graph_build::Slot>>(2));
  for (std::int32_t slot = 0; slot < 64; ++slot) {
    const auto stage = static_cast<std::size_t>(slot / 2);
    auto& chunk = slots[stage % 16][stage / 16];
    if (slot == 62) {
      chunk.push_back({.kind = graph_build::Slot::Kind::mtp, .layer = 0});
    } else if (slot == 61 || slot == 63) {
      chunk.push_back({.kind = graph_build::Slot::Kind::noop, .layer = -1});
    } else {
      chunk.push_back({.kind = graph_build::Slot::Kind::layer, .layer = slot});
    }
  }
  return job;
}

/// devices/chips/ascend-910b-800t-a2.yaml.
inline Chip ascend_chip() {
  return {.sheet = {.flops_per_s = {313e12, 313e12, 78.25e12},
                    .memory_bytes_per_s = 1.6e12,
                    .cores = 20,
                    .tiles = {{256, 128, 1.0}, {128, 128, 0.93}},
                    .intra_bytes_per_s = 196e9,
                    .inter_bytes_per_s = 25e9,
                    .host_bytes_per_s = 23.4e9,
                    .devices_per_node = 8},
          .rates = {.matmul = 0.6699,
                    .tile_start = 157.3,
                    .memory = 0.3075,
                    .launch_s = 18e-6,
                    .intra_link = 0.6413,
                    .inter_link = 0.854,
                    .hop_s = 22e-6,
                    .attention = 0.3384,
                    .grouped_matmul = 0.9078,
                    .fp8 = 0.9}};
}

inline Machine ascend_910b() {
  return {.name = "ascend-910b-64g",
          .visible_bytes = static_cast<Bytes>(60.97 * static_cast<double>(kGiB)),
          .context_bytes = 896 * kMiB,
          .workspace_bytes = 512 * kMiB,
          .collective_buffer_bytes = 400 * kMiB,
          .alignment_bytes = 512,
          .chip = ascend_chip(),
          .copy_launch_ns = 10000,
          .softmax_statistics_width = 8,
          .d2h = {.bytes_per_s = 23.4e9, .latency_ns = 10000},
          .h2d = {.bytes_per_s = 23.4e9, .latency_ns = 10000},
          .host_bytes_per_device = 64 * kGiB,
          .host_bytes_per_node = 512 * kGiB};
}

inline graph_build::ModelSpec deepseek_v3_model() {
  graph_build::ModelSpec model = pangu_model();
  model.name = "deepseek-v3-671b";
  model.hidden = 7168;
  model.vocabulary = 129280;
  model.sequence = 4096;
  model.norm = graph_build::NormPlacement::pre;
  return model;
}

inline graph_build::ModelSpec mixtral_model() {
  return {.name = "mixtral-8x7b",
          .hidden = 4096,
          .vocabulary = 32000,
          .sequence = 4096,
          .layers = layer_kinds(0, 32),
          .attention = {.kind = graph_build::AttentionSpec::Kind::gqa, .heads = 32, .kv_heads = 8, .head_dim = 128},
          .moe = {.experts = 8,
                  .top_k = 2,
                  .width = 14336,
                  .router_fp32 = false,
                  .probabilities = graph_build::MoeSpec::Probabilities::in_activation}};
}

inline graph_build::ModelSpec llama3_70b_model() {
  return {.name = "llama-3-70b",
          .hidden = 8192,
          .vocabulary = 128256,
          .sequence = 8192,
          .layers = layer_kinds(80, 0),
          .attention = {.kind = graph_build::AttentionSpec::Kind::gqa, .heads = 64, .kv_heads = 8, .head_dim = 128},
          .dense_width = 28672};
}

/// Llama-3-70B, TP8 with sequence parallelism, PP4, VPP2, DP4, context parallel 2.
inline graph_build::JobSpec llama3_70b_job() {
  graph_build::JobSpec job{.model = llama3_70b_model(),
                           .parallel = {.tensor = 8,
                                        .sequence_parallel = true,
                                        .pipeline = 4,
                                        .virtual_pipeline = 2,
                                        .context = 2,
                                        .data = 4,
                                        .micro_batch = 1,
                                        .global_batch = 64},
                           .device = "ascend-910b-64g"};
  fill_slots(job);
  return job;
}

/// Mixtral 8x7B, TP2 with experts split by tensor, PP2 (1F1B), EP8 over nodes, DP8.
inline graph_build::JobSpec mixtral_job() {
  graph_build::JobSpec job{.model = mixtral_model(),
                           .parallel = {.tensor = 2,
                                        .sequence_parallel = true,
                                        .pipeline = 2,
                                        .expert = 8,
                                        .data = 8,
                                        .micro_batch = 1,
                                        .global_batch = 64},
                           .device = "ascend-910b-64g"};
  fill_slots(job);
  return job;
}

/// A small MLA + MoE job without parallelism inside a stage: PP2, one MTP module.
inline graph_build::JobSpec small_job() {
  graph_build::JobSpec job{.model = {.name = "small",
                                     .hidden = 256,
                                     .vocabulary = 1024,
                                     .sequence = 128,
                                     .layers = layer_kinds(1, 3),
                                     .mtp_layers = 1,
                                     .attention = {.kind = graph_build::AttentionSpec::Kind::mla,
                                                   .heads = 4,
                                                   .kv_lora_rank = 64,
                                                   .qk_rope_dim = 16,
                                                   .qk_nope_dim = 32,
                                                   .v_head_dim = 32},
                                     .dense_width = 512,
                                     .moe = {.experts = 8, .top_k = 2, .width = 128}},
                           .parallel = {.pipeline = 2, .data = 1, .micro_batch = 1, .global_batch = 6},
                           .device = "ascend-910b-64g"};
  fill_slots(job);
  return job;
}

}  // namespace tidemark::testing
