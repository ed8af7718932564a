// Estimate of a launch script and plan of the same job: two models of what a layer keeps, written apart, that agree.

#include <gtest/gtest.h>

#include <string>

#include "planner/estimate/saved_cuda.h"
#include "planner/estimate/to_job.h"
#include "planner/graph_build/static_memory.h"
#include "planner/graph_build/step_graph.h"
#include "tests/planner/estimate/memory_runs.h"
#include "tests/support/pangu.h"

namespace tidemark::estimate::testing {
namespace {

using graph_build::JobSpec;

/// One softmax statistic a row, as on CUDA.
Machine cuda_like() {
  Machine machine = tidemark::testing::ascend_910b();
  machine.softmax_statistics_width = 1;
  return machine;
}

double kept_in_plan(const JobSpec& job, bool experts) {
  const auto graph = graph_build::build_step_graph(job, cuda_like(), 1, 1.0);
  EXPECT_TRUE(graph.ok());
  Bytes bytes = 0;
  for (const Block& block : graph.value().blocks) {
    if (block.name != (experts ? "moe_layer" : "dense_layer")) continue;
    for (std::int32_t i = 0; i < block.storage_count; ++i) {
      const StorageTemplate& storage =
          graph.value().storage_templates[row(block.first_storage_template) + static_cast<std::size_t>(i)];
      if (storage.saved_for_backward) bytes += storage_bytes(storage, 1.0);
    }
  }
  return static_cast<double>(bytes);
}

double kept_in_estimate(const JobSpec& job, bool experts) {
  TrainingRun run = run_of(job);
  run.model.attention.backend = AttentionBackend::flash;
  run.model.attention.dropout = run.model.hidden_dropout = 0;
  return layer_cost_cuda(run, local_sizes(run, {.routing_load = 1}), experts, true).kept;
}

/// The kernel's output: in 16 bits estimate has it once for the kernel and once for the projection.
double attention_output(const JobSpec& job) {
  const graph_build::ParallelSpec& p = job.parallel;
  return 2.0 * static_cast<double>(job.model.sequence * p.micro_batch / p.context) *
         static_cast<double>(job.model.attention.heads * job.model.attention.head_dim / p.tensor);
}

void expect_agreement(JobSpec job, bool experts) {
  for (const bool qk_norm : {false, true})
    for (const bool fp8 : {false, true}) {
      using Compute = graph_build::ParallelSpec::Compute;
      job.model.attention.qk_norm = qk_norm;
      job.parallel.compute = fp8 ? Compute::fp8 : Compute::bf16;
      EXPECT_DOUBLE_EQ(kept_in_plan(job, experts), kept_in_estimate(job, experts) - (fp8 ? 0 : attention_output(job)))
          << (qk_norm ? "QK norm, " : "") << (fp8 ? "fp8" : "bf16");
    }
}

TEST(PlanAgreement, DenseLayersKeepWhatEstimateSays) {
  expect_agreement(tidemark::testing::llama3_70b_job(), false);
}

TEST(PlanAgreement, LayersWithExpertsKeepWhatEstimateSays) {
  JobSpec job = tidemark::testing::mixtral_job();
  job.model.moe.probabilities = graph_build::MoeSpec::Probabilities::in_activation;
  job.model.moe.router_fp32 = true;
  expect_agreement(job, true);
  job.model.moe.shared_width = 4096;
  expect_agreement(job, true);
}

TEST(PlanAgreement, CopiesOfWeightsInEightBitsAreAsManyAsEstimateSays) {
  JobSpec job = tidemark::testing::llama3_70b_job();
  const double before = static_cast<double>(graph_build::static_memory(job, 1).parameter_bytes);
  job.parallel.compute = graph_build::ParallelSpec::Compute::fp8;
  const TrainingRun run = run_of(job);
  const std::int64_t of_stage_1 = run.parallel.world / run.parallel.pipeline;
  EXPECT_DOUBLE_EQ(static_cast<double>(graph_build::static_memory(job, 1).parameter_bytes) - before,
                   by_name(estimate(run, of_stage_1).steady)["quantized_weights"]);
}

TEST(PlanAgreement, ScriptsBringTheirPartsIntoThePlan) {
  JobSpec job = tidemark::testing::mixtral_job();
  job.model.attention.qk_norm = job.model.attention.qkv_bias = true;
  job.model.moe.shared_width = 4096;
  job.model.moe.shared_gate = true;
  job.parallel.compute = graph_build::ParallelSpec::Compute::fp8;
  TrainingRun run = run_of(job);
  run.precision = Precision::bf16;
  run.model.attention.backend = AttentionBackend::flash;
  const Result<PlannedRun> planned = to_job(run, "mixtral");
  ASSERT_TRUE(planned.ok()) << planned.error().message;
  EXPECT_TRUE(planned.value().job.model.attention.qk_norm && planned.value().job.model.attention.qkv_bias);
  EXPECT_TRUE(planned.value().job.model.moe.shared_gate);
  EXPECT_EQ(planned.value().job.parallel.compute, job.parallel.compute);
  for (const std::string& line : planned.value().left_out) {
    EXPECT_EQ(line.find("8-bit"), std::string::npos) << line;
    EXPECT_EQ(line.find("norms"), std::string::npos) << line;
  }
  run.quantization.parameters = true;
  const Result<PlannedRun> narrow = to_job(run, "mixtral");
  ASSERT_TRUE(narrow.ok());
  EXPECT_EQ(narrow.value().job.parallel.compute, graph_build::ParallelSpec::Compute::bf16);
  EXPECT_NE(narrow.value().left_out.front().find("planned in 16 bits"), std::string::npos)
      << narrow.value().left_out.front();
}

}  // namespace
}  // namespace tidemark::estimate::testing
