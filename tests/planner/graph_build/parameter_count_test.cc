// The closed form of parameters against what graphs hold, and against the published sizes of public models.

#include "planner/graph_build/parameter_count.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "planner/graph_build/step_parts.h"
#include "tests/support/random_job.h"
#include "tests/support/sanitized.h"

namespace tidemark::graph_build {
namespace {

/// The model on one device: no rank holds a part or a copy of anything.
JobSpec on_one_device(ModelSpec model) {
  JobSpec job{.model = std::move(model), .parallel = {.micro_batch = 1, .global_batch = 1}, .device = "any"};
  testing::fill_slots(job);
  return job;
}

/// Bytes of every parameter storage of the graph over those of an element.
double held_by_graph(const JobSpec& job) {
  const StepParts parts = make_step_parts(job, testing::ascend_910b(), 0, 1.0);
  Bytes bytes = 0;
  for (std::size_t s = 0; s < parts.static_storages; ++s) {
    const Storage& storage = parts.graph.storages[s];
    if (parts.graph.storage_templates[row(storage.storage_template)].role == StorageRole::parameter)
      bytes += storage.bytes;
  }
  EXPECT_EQ(bytes % job.parallel.parameter_bytes, 0);
  return static_cast<double>(bytes / job.parallel.parameter_bytes);
}

TEST(ParameterCount, IsWhatTheGraphHolds) {
  testing::JobGenerator generator(20261130);
  std::set<std::pair<AttentionSpec::Kind, bool>> kinds;
  for (int i = 0; i < testing::cases(200); ++i) {
    JobSpec job = on_one_device(generator.next_of_newer_parts().model);
    job.model.mtp_layers = generator.below(3);
    testing::fill_slots(job);
    ASSERT_TRUE(find_problems(job).empty()) << find_problems(job).front().message;
    EXPECT_EQ(count_parameters(job.model).total_with_mtp, held_by_graph(job)) << i;
    kinds.insert({job.model.attention.kind, job.model.has_experts()});
  }
  EXPECT_EQ(kinds.size(), testing::cases(200) == 200 ? 4U : kinds.size());
}

TEST(ParameterCount, OfTokenLeavesOutTheExpertsItDoesNotMeet) {
  testing::JobGenerator generator(20261201);
  for (int i = 0; i < testing::cases(100); ++i) {
    const ModelSpec model = generator.next_of_newer_parts().model;
    const ParameterCount count = count_parameters(model);
    ModelSpec met = model;
    met.moe.experts = met.moe.top_k;  // as if there were no others; their rows of the router remain
    const auto layers = static_cast<double>(std::ranges::count(model.layers, LayerKind::moe));
    const double rows = layers * static_cast<double>((model.moe.experts - model.moe.top_k) * model.hidden);
    EXPECT_EQ(count.active, count_parameters(met).total + rows) << i;
  }
}

/// A layer with another mixer differs from one with attention by the mixer alone, worked out tensor by tensor.
TEST(ParameterCount, OfOtherMixersIsTheirTensors) {
  ModelSpec model = testing::mixtral_model();
  model.mamba = {.heads = 128, .head_dim = 64, .state_dim = 128, .groups = 8, .convolution = 4};
  model.linear_attention = {.key_heads = 16, .key_dim = 128, .value_heads = 32, .value_dim = 128, .convolution = 4};
  const double attention = 4096.0 * (32 + 2 * 8) * 128 + 32.0 * 128 * 4096;
  const double mamba = 4096.0 * (8192 + 8192 + 1024 + 1024 + 128)           // gate, values, B, C, steps
                       + (8192.0 + 1024 + 1024) * 4 + (8192 + 1024 + 1024)  // convolution and its bias
                       + 128 + 128 + 128                                    // step bias, A, D
                       + 8192                                               // norm
                       + 8192.0 * 4096;                                     // back
  const double linear = 4096.0 * (2048 + 2048 + 4096 + 4096)                // queries, keys, values, gate
                        + 4096.0 * (32 + 32)                                // decay and step a head
                        + (2048.0 + 2048 + 4096) * 4                        // convolution
                        + 32 + 32 + 128                                     // step bias, A, norm
                        + 4096.0 * 4096;                                    // back
  for (const bool experts : {false, true}) {
    model.dense_width = experts ? 0 : 14336;
    const double of_attention = count_layer(model, experts ? LayerKind::moe : LayerKind::dense).total - attention;
    EXPECT_EQ(count_layer(model, experts ? LayerKind::mamba_moe : LayerKind::mamba_dense).total - mamba, of_attention);
    EXPECT_EQ(count_layer(model, experts ? LayerKind::linear_moe : LayerKind::linear_dense).total - linear,
              of_attention);
  }
}

}  // namespace
}  // namespace tidemark::graph_build
