#include "integrations/configs/mindformers.h"

#include <gtest/gtest.h>

#include "integrations/configs/config_keys.h"
#include "planner/estimate/rank_memory.h"
#include "tests/configs/config_text.h"

namespace tidemark::configs {
namespace {

using estimate::ImportedRun;
using estimate::Standing;
using testing::judged;
using testing::kMindformersText;
using testing::with;

constexpr std::string_view kFile = "pretrain.yaml";

Result<ImportedRun> read(std::string_view text, std::int64_t devices = 0) {
  return testing::read(text, kFile, devices);
}

std::string error_of(std::string_view text, std::int64_t devices = 0) {
  const Result<ImportedRun> run = read(text, devices);
  return run ? "none" : run.error().message;
}

TEST(Mindformers, ReadsTheShapeAndTheParallelSizes) {
  const Result<ImportedRun> read_run = read(kMindformersText);
  ASSERT_TRUE(read_run) << read_run.error().message;
  const estimate::TrainingRun& run = read_run.value().run;
  EXPECT_EQ(run.platform.accelerator, estimate::Accelerator::ascend);
  EXPECT_EQ(run.parallel.world, 32);
  EXPECT_EQ(run.parallel.tensor, 2);
  EXPECT_EQ(run.parallel.expert, 8);
  EXPECT_TRUE(run.parallel.sequence_parallel);
  EXPECT_EQ(run.batch.micro_batches, 16);
  EXPECT_TRUE(run.model.attention.multi_latent);
  EXPECT_EQ(run.model.attention.q_lora_rank, 1536);
  EXPECT_EQ(run.model.moe.experts, 64);
  EXPECT_EQ(run.model.moe.shared_width, 1024);
  EXPECT_EQ(std::ranges::count(run.model.moe.is_moe, false), 3);
  EXPECT_EQ(run.model.mtp_layers, 1);
  EXPECT_TRUE(run.optimizer.distributed);
  EXPECT_TRUE(estimate::estimate_rank(run, 0));
}

TEST(Mindformers, OffsetsMoveLayersBetweenStages) {
  const Result<ImportedRun> run = read(kMindformersText);
  ASSERT_TRUE(run);
  const auto& chunks = run.value().run.parallel.chunks;
  ASSERT_EQ(chunks.size(), 4U);
  EXPECT_EQ(chunks[0][0].layers.size(), 4U);
  EXPECT_EQ(chunks[1][0].layers.size(), 3U);
  EXPECT_EQ(chunks[3][0].layers.size(), 2U);
  EXPECT_EQ(error_of(with(kMindformersText, "offset: [1, 0, 0, -1]", "offset: [1, -1]")),
            "pretrain.yaml:43: model.model_config.offset: it is no list of 4 whole numbers, one a stage");
}

TEST(Mindformers, RecomputationIsTakenAsTheStageThatRecomputesLeast) {
  const Result<ImportedRun> even = read(kMindformersText);
  ASSERT_TRUE(even);
  EXPECT_EQ(even.value().run.recompute.layers, 2);
  EXPECT_EQ(even.value().run.recompute.method, estimate::Recompute::Method::block);
  const Result<ImportedRun> uneven = read(with(kMindformersText, "recompute: [2, 2, 2, 2]", "recompute: [3, 2, 2, 1]"));
  ASSERT_TRUE(uneven);
  EXPECT_EQ(uneven.value().run.recompute.layers, 1);
  EXPECT_EQ(testing::not_understood(uneven.value()).back(), "recompute_config.recompute");
  const Result<ImportedRun> all = read(with(kMindformersText, "recompute: [2, 2, 2, 2]", "recompute: True"));
  ASSERT_TRUE(all);
  EXPECT_EQ(all.value().run.recompute.method, estimate::Recompute::Method::uniform);
}

TEST(Mindformers, NoRunIsUnderstoodInFull) {
  const Result<ImportedRun> run = read(kMindformersText);
  ASSERT_TRUE(run);
  EXPECT_EQ(testing::not_understood(run.value()), std::vector<std::string>{""});
}

TEST(Mindformers, EveryKeyIsJudgedAndRemembersItsLine) {
  const Result<ImportedRun> run = read(kMindformersText);
  ASSERT_TRUE(run);
  const auto keys = yaml_keys(kMindformersText, kFile);
  ASSERT_TRUE(keys);
  for (const ConfigKey& key : keys.value()) EXPECT_NE(judged(run.value(), key.path), nullptr) << key.path;
  const estimate::JudgedArgument* hidden = judged(run.value(), "model.model_config.hidden_size");
  ASSERT_NE(hidden, nullptr);
  EXPECT_EQ(hidden->place, "pretrain.yaml:31");
  EXPECT_EQ(hidden->name, "hidden-size");
}

TEST(Mindformers, UnknownKeysAreReportedWithANearMiss) {
  const Result<ImportedRun> run =
      read(with(kMindformersText, "  micro_batch_num: 16", "  micro_batch_num: 16\n  pipeline_stages: 4"));
  ASSERT_TRUE(run) << run.error().message;
  const estimate::JudgedArgument* unknown = judged(run.value(), "parallel_config.pipeline_stages");
  ASSERT_NE(unknown, nullptr);
  EXPECT_EQ(unknown->standing, Standing::not_understood);
  EXPECT_EQ(unknown->hint, " (did you mean parallel_config.pipeline_stage?)");
}

TEST(Mindformers, AMisspeltKeyBesideKeysInUseIsNoDefault) {
  const Result<ImportedRun> run = read(with(kMindformersText, "  shared_expert_num: 1", "  shared_expert_nums: 1"));
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(testing::not_understood(run.value()).back(), "moe_config.shared_expert_nums");
}

TEST(Mindformers, OtherJobsAreRefused) {
  EXPECT_EQ(error_of(with(kMindformersText, "run_mode: 'train'", "run_mode: 'predict'")),
            "pretrain.yaml:2: run_mode: 'predict' is no training run; write train or finetune");
  EXPECT_EQ(error_of(with(kMindformersText, "type: DeepseekV3Config", "type: Blip2Config")),
            "pretrain.yaml:29: model.model_config.type: 'Blip2Config' is none of the kinds of model that are modelled: "
            "decoders like llama, deepseek, qwen, internlm, yi, mixtral, telechat, baichuan");
  EXPECT_TRUE(error_of(with(kMindformersText, "    offset: [1, 0, 0, -1]\n", "    pet_config:\n      pet_type: lora\n"))
                  .starts_with("pretrain.yaml:44: model.model_config.pet_config.pet_type: LoRA"));
}

TEST(Mindformers, MistakesNameFileLineAndKey) {
  EXPECT_EQ(error_of(with(kMindformersText, "model_parallel: 2", "model_parallel: two")),
            "pretrain.yaml:14: parallel_config.model_parallel: 'two' is not a value it takes; write a whole number "
            "from 1 to 1048576");
  EXPECT_EQ(error_of(kMindformersText, 64), "pretrain.yaml:8: parallel_config: its degrees make 32 devices, not 64");
  EXPECT_EQ(error_of(with(kMindformersText, "    hidden_size: 2048\n", "")),
            "pretrain.yaml: --hidden-size: it is not given, and nothing else says it");
}

}  // namespace
}  // namespace tidemark::configs
