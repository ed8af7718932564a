#pragma once
// Small training jobs at random, always valid: every combination of attention, norm, MLP, experts, parallel layout and
// schedule that the planner accepts. Same seed, same job.

#include <cstdint>
#include <random>

#include "planner/graph_build/job_spec.h"
#include "tests/support/pangu.h"

namespace tidemark::testing {

class JobGenerator {
 public:
  explicit JobGenerator(std::uint32_t seed) : random_(seed) {}

  graph_build::JobSpec next() {
    graph_build::JobSpec job{.model = model(), .device = "ascend-910b-64g"};
    graph_build::ParallelSpec& p = job.parallel;
    p.tensor = pick({1, 2, 4});
    p.sequence_parallel = p.tensor > 1 && flip();
    p.pipeline = pick({1, 2, 4});
    p.virtual_pipeline = p.pipeline > 1 ? pick({1, 2}) : 1;
    p.context = pick({1, 1, 2});
    p.data = pick({2, 4});
    p.expert = job.model.moe.experts > 0 ? pick({1, 2}) : 1;
    p.tensor_extends_expert = job.model.moe.experts > 0 && p.tensor > 1 && flip();
    p.hierarchical_expert_communication = p.expert > 1 && flip();
    p.micro_batch = pick({1, 2});
    const std::int64_t micro_batches = std::int64_t{p.pipeline} * pick({1, 2, 3});
    p.global_batch = micro_batches * p.micro_batch * p.data;
    p.overlap_forward_backward = p.pipeline > 1 && flip();
    p.distributed_optimizer = flip();
    p.gradient_bytes = pick({2, 4});
    const bool exchanges = p.expert > 1 || (p.tensor > 1 && job.model.moe.experts > 0);
    p.expert_exchange_parts = exchanges ? pick({1, 1, 1, 2, 3}) : 1;
    fill_slots(job);
    return job;
  }

  /// The same with parts that newer models and layouts have: each at random.
  graph_build::JobSpec next_of_newer_parts() {
    graph_build::JobSpec job = next();
    graph_build::ModelSpec& m = job.model;
    graph_build::ParallelSpec& p = job.parallel;
    if (m.attention.kind == graph_build::AttentionSpec::Kind::gqa) {
      m.attention.qk_norm = flip();
      m.attention.qkv_bias = flip();
    }
    if (flip()) m.attention.window = 128 * (1 + below(8));
    if (m.attention.window > 0) m.attention.global_every = pick({0, 2, 3});
    if (flip()) m.activation = graph_build::Activation::geglu;
    m.moe.shared_gate = m.moe.shared_width > 0 && flip();
    if (below(3) == 0) {
      p.compute = graph_build::ParallelSpec::Compute::fp8;
    } else if (flip()) {
      p.overlap_forward_backward = false;
      p.distributed_optimizer = p.sharded_gradients = true;
      p.sharded_parameters = p.pipeline == 1;
    }
    return job;
  }

  /// A number in [0, n).
  std::int32_t below(std::int32_t n) { return static_cast<std::int32_t>(random_() % static_cast<std::uint32_t>(n)); }

 private:
  bool flip() { return below(2) == 0; }
  std::int32_t pick(std::initializer_list<std::int32_t> choices) {
    return *(choices.begin() + below(static_cast<std::int32_t>(choices.size())));
  }

  graph_build::ModelSpec model() {
    graph_build::ModelSpec m{
        .name = "random", .hidden = 256 * pick({1, 2, 4}), .vocabulary = 4096, .sequence = 1024 * pick({1, 2})};
    const std::int32_t layers = 2 + below(7);
    const bool experts = flip();
    for (std::int32_t i = 0; i < layers; ++i) {
      m.layers.push_back(experts && (i + 1 == layers || below(3) != 0) ? graph_build::LayerKind::moe
                                                                       : graph_build::LayerKind::dense);
    }
    if (flip()) {
      m.attention = {.kind = graph_build::AttentionSpec::Kind::mla,
                     .heads = 16,
                     .q_lora_rank = flip() ? 128 : 0,
                     .kv_lora_rank = 64,
                     .qk_rope_dim = 32,
                     .qk_nope_dim = 64,
                     .v_head_dim = 64,
                     .v_own_storage = flip(),
                     .v_padded = flip()};
    } else {
      m.attention = {
          .kind = graph_build::AttentionSpec::Kind::gqa, .heads = 16, .kv_heads = pick({4, 8, 16}), .head_dim = 64};
    }
    m.activation = flip() ? graph_build::Activation::swiglu : graph_build::Activation::gelu;
    m.dense_width = 1024;
    if (experts)
      m.moe = {.experts = 16,
               .top_k = 2,
               .width = 256,
               .shared_width = flip() ? 256 : 0,
               .router_fp32 = flip(),
               .probabilities = flip() ? graph_build::MoeSpec::Probabilities::at_unpermute
                                       : graph_build::MoeSpec::Probabilities::in_activation};
    m.mtp_layers = below(3) == 0 ? 1 : 0;
    m.norm = flip() ? graph_build::NormPlacement::sandwich : graph_build::NormPlacement::pre;
    m.tied_embedding = flip();
    return m;
  }

  std::mt19937 random_;
};

}  // namespace tidemark::testing
