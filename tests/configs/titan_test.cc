#include "integrations/configs/titan.h"

#include <gtest/gtest.h>

#include "integrations/configs/config_keys.h"
#include "planner/estimate/rank_memory.h"
#include "tests/configs/config_text.h"

namespace tidemark::configs {
namespace {

using estimate::Fsdp2;
using estimate::ImportedRun;
using estimate::Standing;
using testing::judged;
using testing::kTitanText;
using testing::with;

constexpr std::string_view kFile = "llama3_8b.toml";

Result<ImportedRun> read(std::string_view text, std::int64_t devices = 0) {
  return testing::read(text, kFile, devices);
}

std::string error_of(std::string_view text, std::int64_t devices = 0) {
  const Result<ImportedRun> run = read(text, devices);
  return run ? "none" : run.error().message;
}

TEST(Titan, ReadsTheFlavorAndTheDegrees) {
  const Result<ImportedRun> read_run = read(kTitanText);
  ASSERT_TRUE(read_run) << read_run.error().message;
  const estimate::TrainingRun& run = read_run.value().run;
  EXPECT_EQ(run.platform.framework, estimate::Framework::torchtitan);
  EXPECT_EQ(run.model.layers, 32);
  EXPECT_EQ(run.model.ffn, 14336);
  EXPECT_EQ(run.model.vocabulary.padded, 128256);
  EXPECT_EQ(run.parallel.world, 8);
  EXPECT_EQ(run.parallel.data, 8);
  EXPECT_EQ(run.batch.micro, 2);
  EXPECT_EQ(run.batch.micro_batches, 1);
  EXPECT_EQ(run.fsdp2.checkpoint, Fsdp2::Checkpoint::every_second_product);
  EXPECT_TRUE(run.fsdp2.compiled_loss);
  EXPECT_FALSE(run.fsdp2.keeps_gathered);
  const Result<estimate::RankMemory> memory = estimate::estimate_rank(run, 0);
  ASSERT_TRUE(memory);
  // The published parameter count of the model.
  EXPECT_NEAR(memory.value().parameters, 8.03e9, 0.01e9);
}

TEST(Titan, NoRunIsUnderstoodInFull) {
  const Result<ImportedRun> run = read(kTitanText);
  ASSERT_TRUE(run);
  EXPECT_EQ(testing::not_understood(run.value()), std::vector<std::string>{""});
}

TEST(Titan, EveryKeyIsJudgedAndRemembersItsLine) {
  const Result<ImportedRun> run = read(kTitanText);
  ASSERT_TRUE(run);
  const auto keys = toml_keys(kTitanText, kFile);
  ASSERT_TRUE(keys);
  for (const ConfigKey& key : keys.value()) EXPECT_NE(judged(run.value(), key.path), nullptr) << key.path;
  const estimate::JudgedArgument* batch = judged(run.value(), "training.local_batch_size");
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->place, "llama3_8b.toml:16");
  EXPECT_EQ(batch->standing, Standing::used);
}

TEST(Titan, ReadsCheckpointsOfEveryKind) {
  const auto kind = [](std::string_view mode, std::string_view option) {
    std::string text = with(kTitanText, "mode = \"selective\"", "mode = \"" + std::string(mode) + "\"");
    text = with(text, "selective_ac_option = \"op\"", "selective_ac_option = " + std::string(option));
    const Result<ImportedRun> run = read(text);
    return run ? std::pair{run.value().run.fsdp2.checkpoint, run.value().run.fsdp2.nth}
               : std::pair{Fsdp2::Checkpoint::none, std::int64_t{-1}};
  };
  EXPECT_EQ(kind("none", "\"op\"").first, Fsdp2::Checkpoint::none);
  EXPECT_EQ(kind("full", "\"op\"").first, Fsdp2::Checkpoint::full);
  EXPECT_EQ(kind("selective", "\"3\""), (std::pair{Fsdp2::Checkpoint::nth_layer, std::int64_t{3}}));
  EXPECT_EQ(kind("selective", "2"), (std::pair{Fsdp2::Checkpoint::nth_layer, std::int64_t{2}}));
}

TEST(Titan, MoreCheckpointsKeepLess) {
  const auto peak = [](std::string_view mode) {
    const Result<ImportedRun> run =
        read(with(kTitanText, "mode = \"selective\"", "mode = \"" + std::string(mode) + "\""));
    return run ? estimate::estimate_rank(run.value().run, 0).value().peak_bytes : 0;
  };
  EXPECT_LT(peak("full"), peak("selective"));
  EXPECT_LT(peak("selective"), peak("none"));
}

TEST(Titan, OlderFilesHaveOtherNames) {
  std::string old = with(kTitanText, "local_batch_size = 2", "batch_size = 2\ncompile = true");
  old = with(old, "[compile]\nenable = true\ncomponents = [\"model\", \"loss\"]\n", "");
  const Result<ImportedRun> run = read(old);
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run.value().run.batch.micro, 2);
  EXPECT_TRUE(run.value().run.fsdp2.compiled_loss);
}

TEST(Titan, DegreesSayTheNumberOfDevicesOrTheCallerDoes) {
  const std::string left = with(kTitanText, "data_parallel_shard_degree = 8", "data_parallel_shard_degree = -1");
  const Result<ImportedRun> many = read(left, 128);
  ASSERT_TRUE(many) << many.error().message;
  EXPECT_EQ(many.value().run.parallel.world, 128);
  const Result<ImportedRun> unsaid = read(left);
  ASSERT_TRUE(unsaid);
  EXPECT_EQ(unsaid.value().run.parallel.world, 8);
  EXPECT_EQ(testing::not_understood(unsaid.value()).back(), "parallelism.data_parallel_shard_degree");
  EXPECT_EQ(error_of(kTitanText, 16),
            "llama3_8b.toml:22: parallelism.data_parallel_shard_degree: the parallel degrees make 8 devices, not 16");
}

TEST(Titan, APipelineIsDividedAsTorchtitanDoes) {
  std::string text = with(kTitanText, "tensor_parallel_degree = 1", "pipeline_parallel_degree = 4");
  text = with(text, "local_batch_size = 2", "local_batch_size = 8");
  const Result<ImportedRun> run = read(text);
  ASSERT_TRUE(run) << run.error().message;
  const auto& chunks = run.value().run.parallel.chunks;
  ASSERT_EQ(chunks.size(), 4U);
  // 34 with embedding and output: 9, 9, 8, 8, of which the first and the last have one other thing.
  EXPECT_EQ(chunks[0][0].layers.size(), 8U);
  EXPECT_EQ(chunks[1][0].layers.size(), 9U);
  EXPECT_EQ(chunks[2][0].layers.size(), 8U);
  EXPECT_EQ(chunks[3][0].layers.size(), 7U);
  EXPECT_EQ(run.value().run.batch.micro, 1);
  EXPECT_EQ(run.value().run.batch.micro_batches, 8);
  EXPECT_TRUE(run.value().run.fsdp2.keeps_gathered);
  EXPECT_EQ(testing::not_understood(run.value()).back(), "parallelism.pipeline_parallel_degree");
}

TEST(Titan, ReadsModelsWithExperts) {
  std::string text = with(kTitanText, "name = \"llama3\"", "name = \"deepseek_v3\"");
  text = with(text, "flavor = \"8B\"", "flavor = \"16B\"");
  text = with(text, "tensor_parallel_degree = 1", "expert_parallel_degree = 8");
  const Result<ImportedRun> run = read(text);
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run.value().run.parallel.expert, 8);
  const Result<estimate::RankMemory> memory = estimate::estimate_rank(run.value().run, 0);
  ASSERT_TRUE(memory) << memory.error().message;
  // 64 experts of 27 - 1 layers, an eighth of them here; 15.7e9 in all.
  EXPECT_NEAR(memory.value().parameters, 15.7e9 / 8 + 1.2e9, 0.5e9);
}

TEST(Titan, UnknownNamesAreReportedOrRefused) {
  const Result<ImportedRun> run = read(with(kTitanText, "seq_len = 8192", "seq_len = 8192\nlocal_batch_sise = 4"));
  ASSERT_TRUE(run) << run.error().message;
  const estimate::JudgedArgument* unknown = judged(run.value(), "training.local_batch_sise");
  ASSERT_NE(unknown, nullptr);
  EXPECT_EQ(unknown->standing, Standing::not_understood);
  EXPECT_EQ(unknown->hint, " (did you mean training.local_batch_size?)");
  EXPECT_EQ(error_of(with(kTitanText, "flavor = \"8B\"", "flavor = \"9B\"")),
            "llama3_8b.toml:7: model.flavor: '9B' is none of the flavors of llama3 that are known here: debugmodel, "
            "8B, 70B, 405B");
  EXPECT_EQ(error_of(with(kTitanText, "name = \"llama3\"", "name = \"flux\"")),
            "llama3_8b.toml:6: model.name: 'flux' is none of the models whose shapes are known here: llama3, qwen3, "
            "deepseek_v3");
}

TEST(Titan, WhatIsNotModelledIsReported) {
  const Result<ImportedRun> offload = read(with(kTitanText, "steps = 1000", "enable_cpu_offload = true"));
  ASSERT_TRUE(offload);
  EXPECT_EQ(testing::not_understood(offload.value()), (std::vector<std::string>{"", "training.enable_cpu_offload"}));
}

TEST(Titan, MistakesNameFileLineAndKey) {
  EXPECT_EQ(error_of(with(kTitanText, "seq_len = 8192", "seq_len = \"long\"")),
            "llama3_8b.toml:17: training.seq_len: 'long' is not a value it takes; write a whole number from 1 to "
            "134217728");
  EXPECT_EQ(error_of(with(kTitanText, "mode = \"selective\"", "mode = \"memory_budget\"")),
            "llama3_8b.toml:33: activation_checkpoint.mode: 'memory_budget' is not modelled; write none, selective or "
            "full");
  EXPECT_EQ(error_of(with(kTitanText, "name = \"AdamW\"", "name = \"Muon\"")),
            "llama3_8b.toml:12: optimizer.name: AdamW and Adam are modelled");
  EXPECT_TRUE(error_of("[model\nname = 1\n").starts_with("llama3_8b.toml:1: this is not valid TOML ("));
  EXPECT_TRUE(error_of("a = 1\na = 2\n").starts_with("llama3_8b.toml:2: this is not valid TOML ("));
  EXPECT_EQ(error_of(""), "llama3_8b.toml:1: model.name is not given; torchtitan names models by name and flavor");
}

TEST(Titan, ReadersAreBounded) {
  EXPECT_TRUE(error_of("a = \"\xff\xfe\"\n").starts_with("llama3_8b.toml:1: this is not valid TOML ("));
  EXPECT_TRUE(
      error_of(std::string(kMostTomlBytes + 1, '#')).starts_with("llama3_8b.toml:1: the file has 262145 bytes"));
  std::string deep = "a = ";
  for (int i = 0; i < 40; ++i) deep += '[';
  EXPECT_TRUE(error_of(deep).starts_with("llama3_8b.toml:1: this is not valid TOML ("));
  std::string dotted = "a";
  for (int i = 0; i < 100'000; ++i) dotted += ".a";
  EXPECT_EQ(error_of(dotted + " = 1\n"), "llama3_8b.toml:1: more than 64 dots in a line; write tables as [sections]");
  // Dots in strings are none of a key's.
  std::string stages = "[parallelism]\nmodule_fqns_per_model_part = [[";
  for (int i = 0; i < 100; ++i) stages += "\"layers." + std::to_string(i) + "\", ";
  EXPECT_TRUE(error_of(stages + "]]\n").starts_with("llama3_8b.toml:1: model.name is not given"));
}

}  // namespace
}  // namespace tidemark::configs
