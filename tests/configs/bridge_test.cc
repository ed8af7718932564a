#include "integrations/configs/bridge.h"

#include <gtest/gtest.h>

#include <utility>

#include "integrations/configs/config_keys.h"
#include "planner/estimate/rank_memory.h"
#include "tests/configs/config_text.h"

namespace tidemark::configs {
namespace {

using estimate::ImportedRun;
using estimate::Standing;
using testing::judged;
using testing::kBridgeText;
using testing::with;

constexpr std::string_view kFile = "run_config.yaml";

Result<ImportedRun> read(std::string_view text, std::int64_t devices = 16) {
  return testing::read(text, kFile, devices);
}

std::string error_of(std::string_view text, std::int64_t devices = 16) {
  const Result<ImportedRun> run = read(text, devices);
  return run ? "none" : run.error().message;
}

TEST(Bridge, ReadsTheShapeAndTheParallelSizes) {
  const Result<ImportedRun> read_run = read(kBridgeText);
  ASSERT_TRUE(read_run) << read_run.error().message;
  const estimate::TrainingRun& run = read_run.value().run;
  EXPECT_EQ(run.model.layers, 32);
  EXPECT_EQ(run.model.hidden, 4096);
  EXPECT_EQ(run.model.attention.groups, 8);
  EXPECT_EQ(run.model.attention.backend, estimate::AttentionBackend::flash);
  EXPECT_TRUE(run.model.gated);
  EXPECT_FALSE(run.model.unfused_gate);
  EXPECT_FALSE(run.model.tied_embedding);
  EXPECT_FALSE(run.model.linear_bias);
  EXPECT_EQ(run.model.norm, estimate::Norm::rms_norm);
  EXPECT_EQ(run.parallel.tensor, 4);
  EXPECT_EQ(run.parallel.pipeline, 2);
  EXPECT_EQ(run.parallel.data, 2);
  EXPECT_EQ(run.batch.micro, 2);
  EXPECT_EQ(run.batch.micro_batches, 32);
  EXPECT_EQ(run.precision, estimate::Precision::bf16);
  EXPECT_EQ(run.recompute.granularity, estimate::Recompute::Granularity::full);
  EXPECT_TRUE(run.optimizer.overlap_grad_reduce);
  EXPECT_TRUE(testing::not_understood(read_run.value()).empty()) << testing::not_understood(read_run.value()).front();
  EXPECT_TRUE(estimate::estimate_rank(run, 0));
}

TEST(Bridge, KeysRememberTheirLine) {
  const Result<ImportedRun> run = read(kBridgeText);
  ASSERT_TRUE(run);
  const estimate::JudgedArgument* layers = judged(run.value(), "model.num_layers");
  ASSERT_NE(layers, nullptr);
  EXPECT_EQ(layers->name, "num-layers");
  EXPECT_EQ(layers->place, "run_config.yaml:53");
  EXPECT_EQ(layers->standing, Standing::used);
  const estimate::JudgedArgument* save = judged(run.value(), "checkpoint.save");
  ASSERT_NE(save, nullptr);
  EXPECT_EQ(save->standing, Standing::no_effect);
  EXPECT_EQ(save->reason, "checkpoints");
}

TEST(Bridge, EveryKeyIsJudgedOnceInTheOrderOfTheFile) {
  const Result<ImportedRun> run = read(kBridgeText);
  ASSERT_TRUE(run);
  const auto keys = yaml_keys(kBridgeText, kFile);
  ASSERT_TRUE(keys);
  for (const ConfigKey& key : keys.value()) EXPECT_NE(judged(run.value(), key.path), nullptr) << key.path;
  int last = 0;
  for (const estimate::JudgedArgument& one : run.value().judged) {
    const int line = std::stoi(one.place.substr(one.place.rfind(':') + 1));
    EXPECT_LE(last, line) << one.key;
    last = line;
  }
}

TEST(Bridge, OfEqualKeysTheLastCountsAndNoKeyIsForgotten) {
  const Result<ImportedRun> twice = read(with(kBridgeText, "  num_layers: 32", "  num_layers: 30\n  num_layers: 28"));
  ASSERT_TRUE(twice) << twice.error().message;
  EXPECT_EQ(twice.value().run.model.layers, 28);
  const Result<ImportedRun> flex = read(
      with(kBridgeText, "  moe_layer_freq: 1", "  moe_enable_deepep: true\n  moe_token_dispatcher_type: alltoall"));
  ASSERT_TRUE(flex) << flex.error().message;
  EXPECT_EQ(flex.value().run.model.moe.dispatcher, estimate::Dispatcher::flex);
  const estimate::JudgedArgument* other = judged(flex.value(), "model.moe_token_dispatcher_type");
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->standing, Standing::no_effect);
}

TEST(Bridge, SectionsThatSayTheSameAreAddedAsTheFrameworkDoes) {
  // ddp says no, optimizer says yes: either shards the optimizer.
  const Result<ImportedRun> run = read(kBridgeText);
  ASSERT_TRUE(run);
  EXPECT_TRUE(run.value().run.optimizer.distributed);
  // mixed_precision replaces what the other sections say about gradients.
  EXPECT_TRUE(run.value().run.optimizer.gradient_16bit);
  const Result<ImportedRun> wide =
      read(with(kBridgeText, "tensorwise\n  grad_reduce_in_fp32: false", "tensorwise\n  grad_reduce_in_fp32: true"));
  ASSERT_TRUE(wide) << wide.error().message;
  EXPECT_FALSE(wide.value().run.optimizer.gradient_16bit);
}

TEST(Bridge, TheVocabularyIsPaddedWhereTheModelSaysSo) {
  const Result<ImportedRun> padded = read(kBridgeText);
  ASSERT_TRUE(padded);
  EXPECT_EQ(padded.value().run.model.vocabulary.padded, 128512);  // a multiple of 128 * 4
  const Result<ImportedRun> plain = read(with(kBridgeText, "should_pad_vocab: true", "should_pad_vocab: false"));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain.value().run.model.vocabulary.padded, 128256);
  const Result<ImportedRun> tokenizer = read(with(kBridgeText, "  vocab_size: 128256", "  vocab_size: null"));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer.value().run.model.vocabulary.padded, 32256);  // 32,000 and the end of a document
}

TEST(Bridge, ReadsPrecisionRecipesByName) {
  const std::string mixed = with(kBridgeText,
                                 "mixed_precision:\n  bf16: true\n  fp16: false\n  fp8: null\n"
                                 "  fp8_recipe: tensorwise\n  grad_reduce_in_fp32: false\n",
                                 "mixed_precision: bf16_mixed\n");
  const Result<ImportedRun> run = read(mixed);
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run.value().run.precision, estimate::Precision::bf16);
  EXPECT_FALSE(run.value().run.optimizer.gradient_16bit);
  EXPECT_FALSE(run.value().run.quantization.used);
  const Result<ImportedRun> eight = read(with(mixed, "bf16_mixed", "bf16-with-fp8-subchannel-scaling-mixed"));
  ASSERT_TRUE(eight) << eight.error().message;
  EXPECT_TRUE(eight.value().run.quantization.used);
  EXPECT_TRUE(eight.value().run.quantization.both_layouts);
  const Result<ImportedRun> some = read(with(mixed, "bf16_mixed", "bf16_with_fp8_current_scaling_mixed"));
  ASSERT_TRUE(some);
  EXPECT_EQ(testing::not_understood(some.value()), std::vector<std::string>{"mixed_precision"});
  EXPECT_EQ(error_of(with(mixed, "bf16_mixed", "bf17_mixed")),
            "run_config.yaml:22: mixed_precision: this recipe is not known; give its fields (bf16, fp8, "
            "grad_reduce_in_fp32, ...)");
}

TEST(Bridge, ReadsLayoutsAsTextAndAsLists) {
  const std::string list = with(kBridgeText, "pipeline_model_parallel_layout: null",
                                "pipeline_model_parallel_layout: [[embedding, decoder], [decoder, decoder, loss]]");
  const std::string small = with(list, "num_layers: 32", "num_layers: 3");
  const Result<ImportedRun> run = read(small);
  ASSERT_TRUE(run) << run.error().message;
  ASSERT_EQ(run.value().run.parallel.chunks.size(), 2U);
  EXPECT_EQ(run.value().run.parallel.chunks[1][0].layers, (std::vector<std::int64_t>{1, 2}));
  const Result<ImportedRun> text =
      read(with(kBridgeText, "pipeline_model_parallel_layout: null", "pipeline_model_parallel_layout: Et*15|t*17L"));
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(text.value().run.parallel.chunks[1][0].layers.size(), 17U);
}

TEST(Bridge, ListsOfExpertLayersAreTakenOnePerLayer) {
  std::string moe = with(kBridgeText, "moe_layer_freq: 1", "moe_layer_freq: [0, 1]\n  moe_ffn_hidden_size: 1024");
  moe = with(moe, "num_layers: 32", "num_layers: 2");
  moe = with(moe, "num_moe_experts: null", "num_moe_experts: 8\n  moe_router_topk: 2");
  const Result<ImportedRun> run = read(moe);
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run.value().run.model.moe.is_moe, (std::vector<bool>{false, true}));
  EXPECT_EQ(run.value().run.model.moe.experts, 8);
}

TEST(Bridge, UnknownKeysAreReportedWithANearMiss) {
  const Result<ImportedRun> run = read(with(kBridgeText, "  num_layers: 32", "  num_layers: 32\n  num_layer: 33"));
  ASSERT_TRUE(run) << run.error().message;
  const estimate::JudgedArgument* unknown = judged(run.value(), "model.num_layer");
  ASSERT_NE(unknown, nullptr);
  EXPECT_EQ(unknown->standing, Standing::not_understood);
  EXPECT_EQ(unknown->reason, estimate::kUnknownKey);
  EXPECT_EQ(unknown->place, "run_config.yaml:54");
  EXPECT_EQ(unknown->hint, " (did you mean model.num_layers?)");
}

TEST(Bridge, AMisspeltKeyBesideKeysInUseIsNoDefault) {
  for (const auto& [from, to] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"  fp8: null", "  fp88: hybrid"},
           {"bf16: true", "bf61: true"},
           {"use_torch_fsdp2: false", "use_torch_fsdp3: true"}}) {
    const Result<ImportedRun> run = read(with(kBridgeText, from, to));
    ASSERT_TRUE(run) << run.error().message;
    EXPECT_EQ(testing::not_understood(run.value()).size(), 1U) << to;
  }
}

TEST(Bridge, WhatIsNotModelledIsReportedWhereItIsOn) {
  const Result<ImportedRun> graphs = read(with(kBridgeText, "cuda_graph_impl: none", "cuda_graph_impl: local"));
  ASSERT_TRUE(graphs);
  EXPECT_EQ(testing::not_understood(graphs.value()), std::vector<std::string>{"model.cuda_graph_impl"});
  const Result<ImportedRun> length = read(with(kBridgeText, "sequence_length: 4096", "sequence_length: 2048"));
  ASSERT_TRUE(length);
  EXPECT_EQ(testing::not_understood(length.value()), std::vector<std::string>{"dataset.sequence_length"});
}

TEST(Bridge, AdaptersAndOtherShardingAreRefused) {
  EXPECT_EQ(error_of(with(kBridgeText, "peft: null", "peft:\n  _target_: megatron.bridge.peft.lora.LoRA\n  dim: 32")),
            "run_config.yaml:78: peft._target_: LoRA and other adapters: memory of frozen layers is not modelled");
  EXPECT_EQ(error_of(with(kBridgeText, "use_torch_fsdp2: false", "use_torch_fsdp2: true")),
            "run_config.yaml:20: dist.use_torch_fsdp2: PyTorch FSDP2 is not modelled here; Megatron FSDP is");
}

TEST(Bridge, MistakesNameFileLineAndKey) {
  EXPECT_EQ(error_of(with(kBridgeText, "num_layers: 32", "num_layers: many")),
            "run_config.yaml:53: model.num_layers: 'many' is not a value it takes; write a whole number from 1 to "
            "100000");
  EXPECT_EQ(error_of(with(kBridgeText, "num_attention_heads: 32", "num_attention_heads: 30")),
            "run_config.yaml:55: model.num_query_groups: 8 does not divide the 30 attention heads");
  EXPECT_EQ(
      error_of(kBridgeText, 12),
      "run_config.yaml:67: model.tensor_model_parallel_size: tensor 4 x pipeline 2 x context 1 does not divide 12 "
      "devices");
  EXPECT_TRUE(error_of("model: [1, 2\ntrain: 1\nddp: 2\n").starts_with("run_config.yaml:2: this is not valid YAML ("));
  EXPECT_TRUE(error_of("_target_: megatron.bridge.x\n- 1\n").starts_with("run_config.yaml:"));
  EXPECT_TRUE(error_of("model:\n  seq_length: 4\ntrain:\n  a: 1\nddp:\n  b: 1\n")
                  .starts_with("run_config.yaml:1: the file has no model.num_layers and model.hidden_size"));
}

TEST(Bridge, ReadersAreBounded) {
  std::string large = "_target_: megatron.bridge.x\n";
  large.resize(kMostYamlBytes + 1, '#');
  EXPECT_TRUE(error_of(large).starts_with("run_config.yaml:1: the file has 1048577 bytes; a training configuration"));
  std::string many = "_target_: megatron.bridge.x\nmodel:\n";
  for (std::size_t i = 0; i <= kMostKeys; ++i) many += "  k" + std::to_string(i) + ": 1\n";
  EXPECT_NE(error_of(many).find("the keys up to here are more than 10000"), std::string::npos);
}

}  // namespace
}  // namespace tidemark::configs
