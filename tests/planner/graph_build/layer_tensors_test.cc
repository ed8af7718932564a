// What a layer saves for its backward pass, tensor by tensor, against the table of the public analysis of the reference
// job (rows 1 to 19 of an MoE layer; the dense layer beside it). Exact to the byte.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "planner/graph_build/step_graph.h"
#include "tests/support/pangu.h"

namespace tidemark::graph_build {
namespace {

using testing::pangu_job;

struct TableRow {
  const char* name;
  double mib = 0;         ///< fixed
  double routed_mib = 0;  ///< times f
};

constexpr TableRow kAttentionRows[] = {
    {"x", 30},  {"y1", 30}, {"latent", 8.25},           {"latent_q_norm", 6},  {"latent_kv_norm", 2}, {"q", 96},
    {"k", 96},  {"v", 64},  {"attention_out_core", 64}, {"softmax_stats", 16}, {"attention_out", 30}, {"x1", 30},
    {"y2", 30},
};
constexpr TableRow kMoeRows[] = {
    {"router", 6.5},          {"fc1_in", 0, 240},     {"fc1_out", 0, 128},   {"act_out", 0, 64},
    {"unpermute_in", 0, 240}, {"shared_fc1_out", 16}, {"shared_act_out", 8}, {"mlp_out", 30},
};
constexpr TableRow kDenseRows[] = {{"fc1_out", 144}, {"act_out", 72}, {"mlp_out", 30}};

Graph build(const JobSpec& job, std::int32_t rank, double load = 1.0, const Machine& machine = testing::ascend_910b()) {
  return std::move(build_step_graph(job, machine, rank, load)).value();
}

/// Saved storages of the block named `name`, by name.
std::map<std::string, StorageTemplate> saved_storages(const Graph& graph, const std::string& name) {
  std::map<std::string, StorageTemplate> saved;
  for (const Block& block : graph.blocks) {
    if (block.name != name) continue;
    for (std::int32_t local = 0; local < block.storage_count; ++local) {
      const StorageTemplate& t =
          graph.storage_templates[row(block.first_storage_template) + static_cast<std::size_t>(local)];
      if (!t.saved_for_backward) continue;
      EXPECT_TRUE(saved.emplace(t.name, t).second) << t.name;
    }
  }
  return saved;
}

Bytes saved_bytes(const Graph& graph, const std::string& block, double load) {
  Bytes sum = 0;
  for (const auto& [name, storage] : saved_storages(graph, block)) sum += storage_bytes(storage, load);
  return sum;
}

Bytes bytes_of(double mib) {
  return static_cast<Bytes>(mib * static_cast<double>(kMiB));
}

/// Prints the table beside the graph and compares every row.
void compare(const Graph& graph, const std::string& block, std::span<const TableRow> first,
             std::span<const TableRow> second) {
  const auto saved = saved_storages(graph, block);
  fmt::print("{:<20} {:>12} {:>12}   {}\n", block, "table MiB", "graph MiB", "(at f = 1)");
  std::size_t rows = 0;
  for (const auto rows_of : {first, second}) {
    for (const TableRow& expected : rows_of) {
      ++rows;
      const auto found = saved.find(expected.name);
      ASSERT_NE(found, saved.end()) << expected.name << " is not saved";
      const StorageTemplate& t = found->second;
      fmt::print("{:<20} {:>12.2f} {:>12.2f}\n", expected.name, expected.mib + expected.routed_mib,
                 static_cast<double>(storage_bytes(t, 1.0)) / static_cast<double>(kMiB));
      EXPECT_EQ(t.fixed_bytes, bytes_of(expected.mib)) << expected.name;
      EXPECT_EQ(t.routed_rows * t.routed_row_bytes, bytes_of(expected.routed_mib)) << expected.name;
      EXPECT_EQ(t.role, StorageRole::activation) << expected.name;
      EXPECT_TRUE(t.swappable) << expected.name;
    }
  }
  EXPECT_EQ(saved.size(), rows) << "something is saved that the table does not list";
}

TEST(LayerTensors, MoeLayerEqualsTheTable) {
  const Graph graph = build(pangu_job(), 2);
  compare(graph, "moe_layer", kAttentionRows, kMoeRows);
  for (const double load : {1.0, 1.5, 2.0}) {
    EXPECT_EQ(saved_bytes(graph, "moe_layer", load), bytes_of(802.75 + 432 * load)) << load;
  }
}

TEST(LayerTensors, DenseLayerEqualsTheTable) {
  const Graph graph = build(pangu_job(), 0);
  compare(graph, "dense_layer", kAttentionRows, kDenseRows);
  EXPECT_EQ(saved_bytes(graph, "dense_layer", 1.0), bytes_of(748.25));
}

TEST(LayerTensors, StoragesOfASiteScaleWithItsLoad) {
  const Graph graph = build(pangu_job(), 0, 1.37);
  for (const Storage& storage : graph.storages) {
    const StorageTemplate& t = graph.storage_templates[row(storage.storage_template)];
    EXPECT_EQ(storage.expected_bytes, storage_bytes(t, 1.0));
    if (t.routed_rows == 0) {
      EXPECT_EQ(storage.bytes, storage.expected_bytes);
    } else {
      // A node has eight devices, which vary apart from each other.
      const double load = t.rows_of == RowsOf::received ? 1.37 : 1 + 0.37 / std::sqrt(8);
      EXPECT_NEAR(static_cast<double>(storage.bytes) / static_cast<double>(storage.expected_bytes), load, 1e-4);
    }
  }
}

TEST(LayerTensors, FoldedProbabilitiesDropTheUnpermuteInput) {
  JobSpec job = pangu_job();
  job.model.moe.probabilities = MoeSpec::Probabilities::in_activation;
  const Graph graph = build(job, 2);
  EXPECT_FALSE(saved_storages(graph, "moe_layer").contains("unpermute_in"));
  EXPECT_EQ(saved_bytes(graph, "moe_layer", 1.0), bytes_of(994.75));
}

TEST(LayerTensors, AViewedValuePinsTheWholeUpProjection) {
  JobSpec job = pangu_job();
  job.model.attention.v_own_storage = false;
  const auto saved = saved_storages(build(job, 2), "moe_layer");
  EXPECT_FALSE(saved.contains("v"));
  ASSERT_TRUE(saved.contains("kv"));
  const StorageTemplate& kv = saved.at("kv");
  EXPECT_EQ(kv.fixed_bytes, bytes_of(128));
  ASSERT_EQ(kv.tensors.size(), 2U);
  EXPECT_EQ(kv.tensors[1].name, "v");
  EXPECT_EQ(kv.tensors[1].offset_bytes, 256);  // rows of 128 nope and 128 value elements
  EXPECT_EQ(saved_bytes(build(job, 2), "moe_layer", 1.0), bytes_of(1234.75 + 64));
}

TEST(LayerTensors, PaddedValueIsAsWideAsTheKey) {
  JobSpec job = pangu_job();
  job.model.attention.v_padded = true;
  const auto saved = saved_storages(build(job, 2), "moe_layer");
  EXPECT_EQ(saved.at("v").fixed_bytes, bytes_of(96));
  EXPECT_EQ(saved.at("attention_out_core").fixed_bytes, bytes_of(64));
}

TEST(LayerTensors, SoftmaxStatisticsAreNarrowOffAscend) {
  Machine machine = testing::ascend_910b();
  machine.softmax_statistics_width = 1;
  EXPECT_EQ(saved_storages(build(pangu_job(), 2, 1.0, machine), "moe_layer").at("softmax_stats").fixed_bytes, kMiB);
}

TEST(LayerTensors, PreNormSavesNoSubLayerOutputs) {
  JobSpec job = pangu_job();
  job.model.norm = NormPlacement::pre;
  const Graph graph = build(job, 2);
  EXPECT_EQ(saved_bytes(graph, "moe_layer", 1.0), bytes_of(1234.75 - 60));
}

TEST(LayerTensors, WithoutSequenceParallelismTokensAreWhole) {
  JobSpec job = pangu_job();
  job.parallel.sequence_parallel = false;
  const auto saved = saved_storages(build(job, 0), "dense_layer");
  EXPECT_EQ(saved.at("x").fixed_bytes, bytes_of(240));
  EXPECT_EQ(saved.at("y2").fixed_bytes, bytes_of(240));
  EXPECT_EQ(saved.at("q").fixed_bytes, bytes_of(96));
  EXPECT_EQ(saved.at("fc1_out").fixed_bytes, bytes_of(144));
}

TEST(LayerTensors, GroupedQueryAttentionOfLlama) {
  const JobSpec job = testing::llama3_70b_job();
  const auto saved = saved_storages(build(job, 1), "dense_layer");
  // 4096 tokens per context rank, 512 of them here; 8 query heads and one key-value head of 128 on each device.
  EXPECT_EQ(saved.at("x").fixed_bytes, Bytes{512} * 8192 * 2);
  EXPECT_EQ(saved.at("q").fixed_bytes, Bytes{4096} * 8 * 128 * 2);
  EXPECT_EQ(saved.at("k").fixed_bytes, Bytes{4096} * 128 * 2);
  EXPECT_EQ(saved.at("v").fixed_bytes, Bytes{4096} * 128 * 2);
  EXPECT_EQ(saved.at("softmax_stats").fixed_bytes, Bytes{4096} * 8 * 64);
  EXPECT_EQ(saved.at("fc1_out").fixed_bytes, Bytes{4096} * 2 * 28672 / 8 * 2);
  EXPECT_FALSE(saved.contains("attention_out"));
  JobSpec gelu = job;
  gelu.model.activation = Activation::gelu;
  const auto plain = saved_storages(build(gelu, 1), "dense_layer");
  EXPECT_EQ(plain.at("fc1_out").fixed_bytes, plain.at("act_out").fixed_bytes);
}

TEST(LayerTensors, ExpertsSplitByTensorSeeAllTokens) {
  const auto saved = saved_storages(build(testing::mixtral_job(), 0), "moe_layer");
  // 4096 tokens, top 2: every device of a tensor group processes all rows with half of each expert.
  EXPECT_EQ(saved.at("fc1_in").routed_rows, 8192);
  EXPECT_EQ(saved.at("fc1_out").routed_row_bytes, 2 * 14336 / 2 * 2);
  EXPECT_FALSE(saved.contains("unpermute_in"));
}

}  // namespace
}  // namespace tidemark::graph_build
