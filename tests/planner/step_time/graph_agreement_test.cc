// What a plan's graph and the model of measured rows say of one layer: products, attention, weights' gradients and
// launches are the same work, counted twice by code that shares only the kernels' prices and what software launches.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "planner/cost/launch_counts.h"
#include "planner/cost/memory_time.h"
#include "planner/cost/op_prices.h"
#include "planner/cost/op_work.h"
#include "planner/graph_build/step_graph.h"
#include "planner/step_time/layer_time.h"
#include "planner/step_time/software.h"
#include "tests/support/pangu.h"

namespace tidemark::step_time {
namespace {

using graph_build::AttentionSpec;
using graph_build::JobSpec;

TimedModel model_of(const graph_build::ModelSpec& model) {
  const AttentionSpec& attention = model.attention;
  const bool is_mla = attention.kind == AttentionSpec::Kind::mla;
  return {.layers = static_cast<std::int64_t>(model.layers.size()),
          .hidden = model.hidden,
          .ffn = model.dense_width,
          .heads = attention.heads,
          .kv_heads = is_mla ? attention.heads : attention.kv_heads,
          .head_dim = is_mla ? attention.qk_nope_dim + attention.qk_rope_dim : attention.head_dim,
          .vocabulary = model.vocabulary,
          .experts = model.moe.experts,
          .top_k = model.moe.top_k,
          .expert_ffn = model.moe.width,
          .shared_ffn = model.moe.shared_width,
          .moe_layers = std::ranges::count(model.layers, graph_build::LayerKind::moe),
          .is_mla = is_mla,
          .mla = {.q_lora = attention.q_lora_rank,
                  .kv_lora = attention.kv_lora_rank,
                  .qk_nope = attention.qk_nope_dim,
                  .qk_rope = attention.qk_rope_dim,
                  .v = attention.v_head_dim}};
}

TimedRun run_of(const JobSpec& job) {
  const graph_build::ParallelSpec& parallel = job.parallel;
  TimedRun run;
  run.model = model_of(job.model);
  run.tensor = parallel.tensor;
  run.context = parallel.context;
  run.expert = parallel.expert_ranks();
  run.expert_tensor = parallel.tensor_extends_expert ? 1 : parallel.tensor;
  run.data = parallel.data;
  run.is_sequence_parallel = parallel.sequence_parallel;
  run.micro_batch = parallel.micro_batch;
  run.global_batch = parallel.global_batch;
  run.sequence = job.model.sequence;
  return run;
}

/// Seconds of one layer and micro-batch on the compute lane.
struct LayerWork {
  double forward_products_s = 0, backward_products_s = 0, forward_attention_s = 0, backward_attention_s = 0;
  double gradient_bytes = 0;  ///< of weights: read and written
  double forward_launches = 0, backward_launches = 0;
  double host_s = 0;
  double step_s = 0;  ///< of all lanes, one behind the other
};

bool is_product(const OpCost& cost) {
  return cost.kind == WorkKind::matmul || cost.kind == WorkKind::grouped_matmul;
}

/// Of the first layer of the rank's graph that has op `named`.
LayerWork graph_work(const Graph& graph, const Machine& machine, const std::string& named) {
  const auto template_of = [&](const Op& op) -> const OpTemplate& { return graph.op_templates[row(op.op_template)]; };
  const auto first = std::ranges::find_if(graph.ops, [&](const Op& op) { return template_of(op).name == named; });
  const Site& site = graph.sites[row(first->site)];
  const cost::OpPrices prices(graph, machine);
  LayerWork work;
  for (const Op& op : graph.ops) {
    const OpTemplate& op_template = template_of(op);
    if (op.site == kNone<SiteId>) continue;
    const Site& other = graph.sites[row(op.site)];
    if (other.layer != site.layer || other.micro_batch != site.micro_batch) continue;
    const double seconds = prices.chunk_ns(op.op_template, 1, 1) * 1e-9;
    const bool is_forward = op_template.phase == OpPhase::forward;
    (is_forward ? work.forward_launches : work.backward_launches) += op_template.cost.launches;
    work.host_s += cost::op_work(op_template, machine.chip, 1, 1).host_s;
    work.step_s += seconds;
    if (op_template.lane != Lane::compute) continue;
    if (is_product(op_template.cost)) {
      (is_forward ? work.forward_products_s : work.backward_products_s) += seconds;
      work.gradient_bytes += op_template.cost.memory_bytes;
    }
    if (op_template.cost.kind == WorkKind::attention)
      (is_forward ? work.forward_attention_s : work.backward_attention_s) += seconds;
  }
  return work;
}

struct NamedJob {
  std::string name;
  JobSpec job;
  std::int32_t rank = 1;
  std::string named;  ///< an op that only layers of the kind have
};

TEST(GraphAgreement, ALayerTakesWhatRowsArePricedAt) {
  const NamedJob jobs[] = {{"Pangu Ultra MoE", testing::pangu_job(), 5, "moe.fc1"},
                           {"Llama 3 70B", testing::llama3_70b_job(), 1, "mlp.fc1"},
                           {"Mixtral 8x7B", testing::mixtral_job(), 1, "moe.fc1"}};
  const Machine machine = testing::ascend_910b();
  Software software = *find_software("mindspeed");
  software.imbalance = 1;
  software.layer_launches = cost::kLayerLaunches;
  for (const NamedJob& named : jobs) {
    const TimedRun run = run_of(named.job);
    const StepSetting setting{.run = run, .device = machine.chip, .software = software, .rank = rank_shape(run)};
    const LayerCost layer = layer_cost(setting, run.model.experts > 0 ? LayerKind::moe : LayerKind::dense);
    const auto graph = graph_build::build_step_graph(named.job, machine, named.rank, 1.0);
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    const LayerWork work = graph_work(graph.value(), machine, named.named);
    const PassCost &forward = layer.passes.forward, &backward = layer.passes.backward;
    const double gradient_s = cost::memory_s(work.gradient_bytes, machine.chip);
    EXPECT_NEAR(work.forward_products_s / forward.matmul_s, 1, 0.01) << named.name;
    EXPECT_NEAR(work.backward_products_s / (backward.matmul_s + gradient_s), 1, 0.03) << named.name;
    EXPECT_NEAR(work.forward_attention_s / forward.attention_s, 1, 0.001) << named.name;
    EXPECT_NEAR(work.backward_attention_s / backward.attention_s, 1, 0.001) << named.name;
    EXPECT_NEAR(work.forward_launches, forward.launches, 3) << named.name;
    EXPECT_NEAR(work.backward_launches, backward.launches, 5) << named.name;
    const double launches = forward.launches + backward.launches;
    const double latency_s = forward.latency_s + backward.latency_s;
    EXPECT_NEAR(work.host_s / (launches * machine.chip.rates.launch_s + latency_s), 1, 0.05) << named.name;
    // A host fifty times as slow keeps both waiting.
    Machine slow = machine;
    slow.chip.rates.launch_s *= 50;
    const double waited_s = launches * slow.chip.rates.launch_s + latency_s;
    EXPECT_NEAR(graph_work(graph.value(), slow, named.named).step_s / waited_s, 1, 0.05) << named.name;
  }
}

}  // namespace
}  // namespace tidemark::step_time
