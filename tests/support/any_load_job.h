#pragma once
// Training jobs at random for what expert loads do to a step: small layouts with and without experts, odd counts of
// experts, top-k 1 to 8, expert groups of 1 to 64 devices beside tensor, context and pipeline parallelism. Always
// valid. Same seed, same job.

#include <algorithm>
#include <cstdint>
#include <random>

#include "planner/graph_build/job_spec.h"
#include "tests/support/pangu.h"

namespace tidemark::testing {

class AnyLoadJobGenerator {
 public:
  explicit AnyLoadJobGenerator(std::uint64_t seed) : random_(static_cast<std::mt19937::result_type>(seed)) {}

  graph_build::JobSpec next() {
    graph_build::JobSpec job{.model = model(), .device = "ascend-910b-64g"};
    graph_build::ParallelSpec& p = job.parallel;
    p.tensor = pick({1, 1, 2, 4});
    p.sequence_parallel = p.tensor > 1 && flip();
    p.pipeline = pick({1, 1, 2, 3, 4});
    p.virtual_pipeline = p.pipeline > 1 ? pick({1, 2, 3}) : 1;
    p.context = pick({1, 1, 1, 2});
    p.data = pick({1, 2, 4});
    if (below(4) != 0) add_experts(job);
    p.micro_batch = pick({1, 1, 2, 3});
    p.global_batch = std::int64_t{p.pipeline} * pick({1, 2, 3}) * p.micro_batch * p.data;
    p.overlap_forward_backward = p.pipeline > 1 && flip();
    p.distributed_optimizer = flip();
    p.gradient_bytes = pick({2, 4});
    fill_slots(job);
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
    graph_build::ModelSpec m{.name = "random",
                             .hidden = 128 * pick({1, 2, 3, 4, 8}),
                             .vocabulary = 4096,
                             .sequence = 256 * pick({1, 2, 4, 8})};
    m.layers.assign(static_cast<std::size_t>(1 + below(8)), graph_build::LayerKind::dense);
    if (flip()) {
      m.attention = {.kind = graph_build::AttentionSpec::Kind::mla,
                     .heads = 8,
                     .q_lora_rank = flip() ? 128 : 0,
                     .kv_lora_rank = 64,
                     .qk_rope_dim = 32,
                     .qk_nope_dim = 64,
                     .v_head_dim = 64,
                     .v_own_storage = flip(),
                     .v_padded = flip()};
    } else {
      m.attention = {
          .kind = graph_build::AttentionSpec::Kind::gqa, .heads = 8, .kv_heads = pick({4, 8}), .head_dim = 64};
    }
    m.activation = flip() ? graph_build::Activation::swiglu : graph_build::Activation::gelu;
    m.dense_width = 128 * pick({2, 5, 8});
    m.mtp_layers = below(4) == 0 ? 1 : 0;
    m.norm = flip() ? graph_build::NormPlacement::sandwich : graph_build::NormPlacement::pre;
    m.tied_embedding = flip();
    return m;
  }

  void add_experts(graph_build::JobSpec& job) {
    graph_build::ParallelSpec& p = job.parallel;
    p.expert = below(3) == 0 ? 1 + below(64) : pick({1, 2, 3, 4, 5, 7, 8, 16, 32, 64});
    p.data = p.expert * pick({1, 1, 2});
    p.tensor_extends_expert = p.tensor > 1 && flip();
    p.hierarchical_expert_communication = p.expert > 1 && flip();
    if (p.expert > 1) p.expert_exchange_parts = pick({1, 1, 1, 2, 3, 7});
    graph_build::MoeSpec& moe = job.model.moe;
    moe.experts = p.expert_ranks() * pick({1, 1, 2, 3, 4, 5, 7, 16});
    moe.top_k = 1 + below(static_cast<std::int32_t>(std::min<std::int64_t>(8, moe.experts)));
    moe.width = 64 * pick({1, 2, 3, 4, 7, 16});
    moe.shared_width = flip() ? 256 : 0;
    moe.router_fp32 = flip();
    moe.probabilities =
        flip() ? graph_build::MoeSpec::Probabilities::at_unpermute : graph_build::MoeSpec::Probabilities::in_activation;
    for (graph_build::LayerKind& kind : job.model.layers)
      if (below(3) != 0) kind = graph_build::LayerKind::moe;
    job.model.layers.back() = graph_build::LayerKind::moe;
  }

  std::mt19937 random_;
};

}  // namespace tidemark::testing
