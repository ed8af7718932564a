#include "planner/graph_build/static_memory.h"

#include <gtest/gtest.h>

#include "planner/graph_build/parameter_groups.h"
#include "tests/support/pangu.h"

namespace tidemark::graph_build {
namespace {

using testing::pangu_job;

constexpr double kBillion = 1e9;

double gib(Bytes bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kGiB);
}
double mib(Bytes bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kMiB);
}

TEST(ParameterCount, PanguUltraMoe) {
  const ParameterCount count = count_parameters(testing::pangu_model());
  EXPECT_NEAR(count.total / kBillion, 717.9, 0.1);
  EXPECT_NEAR(count.total_both / kBillion, 719.1, 0.1);
  EXPECT_NEAR(count.total_with_mtp / kBillion, 731.5, 0.1);
  EXPECT_NEAR(count.active / kBillion, 39.19, 0.01);
}

TEST(ParameterCount, PublishedSizesOfOtherModels) {
  const ParameterCount deepseek = count_parameters(testing::deepseek_v3_model());
  EXPECT_NEAR(deepseek.total_both / kBillion, 671.0, 0.1);
  EXPECT_NEAR(deepseek.active / kBillion, 36.6, 0.1);          // one embedding matrix
  EXPECT_NEAR(deepseek.active / kBillion + 0.927, 37.5, 0.1);  // both: the "37B" of its report
  const ParameterCount mixtral = count_parameters(testing::mixtral_model());
  EXPECT_NEAR(mixtral.total_both / kBillion, 46.7, 0.05);
  EXPECT_NEAR(mixtral.active / kBillion + 0.131, 12.9, 0.05);
  EXPECT_NEAR(count_parameters(testing::llama3_70b_model()).total_both / kBillion, 70.6, 0.05);
}

TEST(ParameterCount, TiedEmbeddingCountsOnce) {
  ModelSpec model = testing::llama3_70b_model();
  model.tied_embedding = true;
  const ParameterCount count = count_parameters(model);
  EXPECT_EQ(count.total, count.total_both);
  EXPECT_EQ(count.total, count_parameters(testing::llama3_70b_model()).total);
}

TEST(ParameterCount, RanksAddUpToTheModel) {
  // Without tensor and expert splitting every element lives once, except the MTP module's copy of the embedding.
  JobSpec job = testing::small_job();
  double held = 0;
  for (std::int32_t rank = 0; rank < job.parallel.pipeline; ++rank) {
    const StaticMemory memory = static_memory(job, rank);
    held += static_cast<double>(memory.dense_parameters + memory.expert_parameters);
  }
  const double copy = static_cast<double>(job.model.vocabulary) * static_cast<double>(job.model.hidden);
  EXPECT_DOUBLE_EQ(held, count_parameters(job.model).total_with_mtp + copy);
}

TEST(StaticMemory, PanguStages) {
  const JobSpec job = pangu_job();
  EXPECT_NEAR(gib(static_memory(job, 0).total()), 7.4, 0.05);
  EXPECT_NEAR(gib(static_memory(job, 1).total()), 8.7, 0.05);
  for (std::int32_t rank = 2; rank < 14; ++rank) EXPECT_NEAR(gib(static_memory(job, rank).total()), 10.9, 0.05);
  EXPECT_NEAR(gib(static_memory(job, 14).total()), 9.06, 0.05);  // 0.86 of it the main head
  EXPECT_NEAR(gib(static_memory(job, 15).total()), 10.0, 0.05);
}

TEST(StaticMemory, PanguElementsPerDevice) {
  const JobSpec job = pangu_job();
  const auto moe = layer_parameters(job.model, job.parallel, LayerKind::moe);
  ASSERT_EQ(moe.size(), 4U);
  EXPECT_NEAR(static_cast<double>(moe[0].elements()) / 1e6, 38.77, 0.01);
  EXPECT_NEAR(static_cast<double>(moe[0].elements() + moe[1].elements() + moe[2].elements()) / 1e6, 46.66, 0.01);
  EXPECT_EQ(moe[3].elements(), std::int64_t{8} * 3 * 7680 * 2048);
  const auto dense = layer_parameters(job.model, job.parallel, LayerKind::dense);
  EXPECT_NEAR(static_cast<double>(dense[0].elements() + dense[1].elements() + dense[2].elements()) / 1e6, 91.88, 0.01);
  EXPECT_EQ(static_memory(job, 2).expert_parameters, 4 * moe[3].elements());
}

/// Ascend CI case deepseek_v3_mcore_tp1_pp2_ep4: 16 experts, one dense and one MoE layer on stage 0, the MTP module
/// alone on stage 1. Measured "allocated" after the first iteration.
JobSpec deepseek_ci_job() {
  JobSpec job{
      .model = testing::deepseek_v3_model(),
      .parallel =
          {.pipeline = 2, .expert = 4, .data = 4, .micro_batch = 1, .global_batch = 16, .reuse_fp32_parameter = true},
      .device = "ascend-910b-64g"};
  job.model.layers = testing::layer_kinds(1, 1);
  job.model.moe.experts = 16;
  const Slot noop{.kind = Slot::Kind::noop};
  job.parallel.slots = {{{{.layer = 0}, {.layer = 1}}}, {{noop, noop, {.kind = Slot::Kind::mtp, .layer = 0}}}};
  return job;
}

TEST(StaticMemory, MeasuredRanksOfTheDeepSeekCase) {
  const JobSpec job = deepseek_ci_job();
  const StaticMemory first = static_memory(job, 0);
  EXPECT_NEAR(static_cast<double>(first.dense_parameters) / 1e6, 1741.3, 0.2);
  EXPECT_NEAR(static_cast<double>(first.expert_parameters) / 1e6, 176.2, 0.1);
  EXPECT_NEAR(mib(first.total()) / 16809.0, 1.0, 0.006);
  const StaticMemory last = static_memory(job, 1);
  EXPECT_NEAR(static_cast<double>(last.dense_parameters) / 1e6, 2187.3, 0.2);
  EXPECT_NEAR(mib(last.total()) / 20536.3, 1.0, 0.006);
}

TEST(StaticMemory, ShardsByDataAndExpertData) {
  JobSpec job = pangu_job();
  EXPECT_EQ(optimizer_shards(job.parallel, false), 48);
  EXPECT_EQ(optimizer_shards(job.parallel, true), 12);
  job.parallel.context = 2;
  EXPECT_EQ(optimizer_shards(job.parallel, false), 96);
  job.parallel.distributed_optimizer = false;
  EXPECT_EQ(optimizer_shards(job.parallel, true), 1);
  const StaticMemory memory = static_memory(job, 3);
  EXPECT_EQ(memory.optimizer_bytes, 12 * (memory.dense_parameters + memory.expert_parameters));
  job.parallel.reuse_fp32_parameter = true;
  EXPECT_EQ(static_memory(job, 3).optimizer_bytes, 10 * (memory.dense_parameters + memory.expert_parameters));
}

TEST(StaticMemory, LeavesAnUpdateOnTheDeviceAndWhatTheHostCannotTake) {
  const StaticMemory memory = static_memory(pangu_job(), 3);
  EXPECT_EQ(memory.offloadable_bytes, memory.optimizer_bytes);
  EXPECT_EQ(memory.least_device_bytes(0), memory.total());
  EXPECT_EQ(memory.least_device_bytes(kMiB), memory.total() - kMiB);
  const Bytes least = memory.total() - memory.optimizer_bytes + memory.largest_update_bytes;
  EXPECT_LT(least, memory.total());
  EXPECT_EQ(memory.least_device_bytes(memory.optimizer_bytes - memory.largest_update_bytes), least);
  EXPECT_EQ(memory.least_device_bytes(memory.optimizer_bytes), least);
  EXPECT_EQ(memory.least_device_bytes(kGiB * 1024), least);
}

TEST(StaticMemory, TiedEmbeddingHasACopyOnTheLastRankOnly) {
  JobSpec job = testing::llama3_70b_job();
  const StaticMemory untied_first = static_memory(job, 0);
  const StaticMemory untied_last = static_memory(job, 3);
  job.model.tied_embedding = true;
  EXPECT_EQ(static_memory(job, 0).total(), untied_first.total());
  EXPECT_EQ(static_memory(job, 3).total(), untied_last.total());
  job.parallel.pipeline = 1;
  job.parallel.virtual_pipeline = 1;
  testing::fill_slots(job);
  const std::int64_t tied = static_memory(job, 0).dense_parameters;
  job.model.tied_embedding = false;
  EXPECT_EQ(static_memory(job, 0).dense_parameters - tied, job.model.vocabulary / 8 * job.model.hidden);
}

TEST(StaticMemory, ReserveIsFourAndAHalfGibibytes) {
  const ReserveMemory reserve = reserve_memory(testing::ascend_910b(), pangu_job().parallel);
  EXPECT_EQ(reserve.total(), 9 * kGiB / 2);
  EXPECT_EQ(reserve.collective_bytes, 3200 * kMiB);
}

TEST(StaticMemory, ReserveHoldsWhatTheFrameworkKeeps) {
  ParallelSpec parallel = pangu_job().parallel;
  parallel.framework_bytes = 5 * kMiB;
  const ReserveMemory reserve = reserve_memory(testing::ascend_910b(), parallel);
  EXPECT_EQ(reserve.framework_bytes, 5 * kMiB);
  EXPECT_EQ(reserve.total(), 9 * kGiB / 2 + 5 * kMiB);
}

TEST(TokenFlops, PanguReproducesThePublishedUtilisation) {
  const TokenFlops flops = flops_per_token(testing::pangu_model());
  EXPECT_NEAR(flops.full_square / 3.965e11, 1.0, 1e-3);
  const double tokens_per_s = 1.46e6;
  EXPECT_NEAR(100 * flops.full_square * tokens_per_s / (6144 * 313e12), 30.10, 0.05);
  EXPECT_LT(flops.causal, flops.full_square);
}

}  // namespace
}  // namespace tidemark::graph_build
