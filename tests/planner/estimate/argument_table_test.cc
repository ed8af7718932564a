#include "planner/estimate/argument_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <ostream>
#include <random>
#include <set>

#include "planner/estimate/rank_memory.h"
#include "planner/estimate/run_layout.h"
#include "planner/estimate/to_job.h"
#include "planner/graph_build/static_memory.h"
#include "tests/planner/estimate/argument_sets.h"
#include "tests/support/data.h"
#include "tests/support/json_text.h"

namespace tidemark::estimate {
namespace {

using testing::arguments;
using testing::import_small;
using testing::on_ascend;

TrainingRun small_run(std::string_view more, const RunHints& hints = testing::on_eight()) {
  const Result<ImportedRun> imported = testing::import_small(more, hints);
  EXPECT_TRUE(imported.ok()) << (imported ? "" : imported.error().message);
  return imported ? imported.value().run : TrainingRun{};
}

// ---- the table ----------------------------------------------------------------------------------------------------

TEST(ArgumentTable, NamesEachArgumentOnceInOrder) {
  const std::vector<std::string_view> known = known_arguments();
  EXPECT_TRUE(std::ranges::is_sorted(known));
  EXPECT_EQ(std::set<std::string_view>(known.begin(), known.end()).size(), known.size());
  EXPECT_GT(known.size(), 600U);
  for (const std::string_view name : known)
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string_view::npos) << name;
}

TEST(ArgumentTable, JudgesEveryArgumentInTheOrderGiven) {
  const auto imported = testing::import_small("--lr 1e-4 --cuda-graph-impl local --frobnicate 3 --rl-nothing False");
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  const std::vector<JudgedArgument>& judged = imported.value().judged;
  ASSERT_EQ(judged.size(), 11U);
  EXPECT_EQ(judged[0].standing, Standing::used);
  const std::array<Standing, 4> expected = {Standing::no_effect, Standing::not_understood, Standing::not_understood,
                                            Standing::no_effect};
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(judged[7 + i].standing, expected[i]) << judged[7 + i].name;
  EXPECT_EQ(judged[9].name, "frobnicate");
  EXPECT_EQ(judged[9].place, "run.sh:10");
  for (const JudgedArgument& argument : judged)
    EXPECT_EQ(argument.reason.empty(), argument.standing == Standing::used) << argument.name;
}

TEST(ArgumentTable, OfEqualNamesTheLastCounts) {
  const auto imported = testing::import_small("--num_layers 7 --NUM-LAYERS 3");
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_EQ(imported.value().run.model.layers, 7);  // names have a case, as in argparse
  EXPECT_EQ(imported.value().judged[0].standing, Standing::no_effect);
}

TEST(ArgumentTable, TakesPythonsSpellings) {
  const TrainingRun run =
      small_run("--swiglu True --fp16 False --hidden-size 512.0 --kv-channels None --sequence-parallel 1");
  EXPECT_TRUE(run.model.gated);
  EXPECT_EQ(run.precision, Precision::bf16);
  EXPECT_EQ(run.model.attention.head_dim, 64);
  EXPECT_FALSE(run.parallel.sequence_parallel) << "only with tensor ranks";
}

TEST(ArgumentTable, LeavesOutUnresolvedVariablesBehindValues) {
  const auto imported = testing::import_small("--num-layers 4 $MORE_ARGS --swiglu $OTHER_ARGS");
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_EQ(imported.value().run.model.layers, 4);
  EXPECT_TRUE(imported.value().run.model.gated);
  EXPECT_NE(imported.value().notes.front().find("$MORE_ARGS"), std::string::npos);
}

TEST(ArgumentTable, InvertsSwitchesWithNo) {
  EXPECT_TRUE(small_run("--qk-layernorm").model.attention.qk_norm);
  EXPECT_TRUE(small_run("").optimizer.gradient_fusion);
  EXPECT_FALSE(small_run("--no-gradient-accumulation-fusion").optimizer.gradient_fusion);
}

/// Megatron-LM has the opposite of switches that are on where nothing is said, and of no other.
TEST(ArgumentTable, InvertsNoSwitchThatTheFrameworkDoesNotInvert) {
  EXPECT_TRUE(small_run("--qk-layernorm --no-qk-layernorm").model.attention.qk_norm);
  EXPECT_EQ(testing::import_small("--no-qk-layernorm", {}).value().judged.back().standing, Standing::not_understood);
}

TEST(ArgumentTable, SaysWhatMayFollowAnArgument) {
  for (const char* name :
       {"bf16", "overlap_param_gather", "no-load-rng", "use-mcore-models", "disable-bias-linear", "no-qk-layernorm",
        "disable-qk-layernorm", "log-throughput", "log-timers-to-tensorboard", "finetune"})
    EXPECT_EQ(takes(name), Takes::nothing) << name;
  for (const char* name : {"num-layers", "lr", "save", "log-interval", "wandb-project", "optimizer", "norm-epsilon"})
    EXPECT_EQ(takes(name), Takes::value) << name;
  for (const char* name : {"data-path", "recompute-modules", "rampup-batch-size", "frobnicate", "profile-ranks"})
    EXPECT_EQ(takes(name), Takes::list) << name;
}

TEST(ArgumentTable, ARecordOfARunThatStartedIsNotRefused) {
  RunHints hints;
  hints.recorded = true;
  for (const char* more :
       {"--expert-model-parallel-size 2", "--recompute-granularity full", "--max-position-embeddings 512",
        "--use-precision-aware-optimizer", "--num-experts 8 --tensor-model-parallel-size 2"})
    EXPECT_TRUE(testing::import_small(more, hints).ok()) << more;
}

TEST(ArgumentTable, NamesUnknownArgumentsWhereOneIsMissing) {
  const auto imported = import_run(testing::arguments("--num-layers 4 --hiden-size 512 --lr 1"), {});
  ASSERT_FALSE(imported.ok());
  EXPECT_NE(imported.error().message.find("--hidden-size: it is not given"), std::string::npos);
  EXPECT_NE(imported.error().message.find("unknown here: --hiden-size (run.sh:2)"), std::string::npos);
}

/// Random jobs of every dispatcher and layout; what one argument more does to them.
TEST(ArgumentTable, CausesMoveFiguresTheirWay) {
  struct Cause {
    const char* more;
    int steady;  ///< -1: no more than without, 1: no less
    int peak;
  };
  constexpr std::array<Cause, 8> kCauses = {{{"--micro-batch-size 8", 1, 1},
                                             {"--seq-length 2048", 1, 1},
                                             {"--use-distributed-optimizer", -1, -1},
                                             {"--optimizer sgd", -1, -1},
                                             {"--optimizer lion", -1, -1},
                                             {"--recompute-granularity full --recompute-method uniform", -1, -1},
                                             {"--tokenizer-type NullTokenizer --vocab-size 200000", 1, 1},
                                             {"--mtp-num-layers 1", 1, 1}}};
  constexpr std::array<const char*, 3> kModels = {"", "--num-experts 8 --moe-token-dispatcher-type alltoall ",
                                                  "--num-experts 8 --moe-token-dispatcher-type flex "};
  std::array<int, kCauses.size()> moved{};  // rounds in which the peak is another
  std::mt19937 random(31);
  const auto draw = [&random](int most) { return std::to_string(1 << std::uniform_int_distribution(0, most)(random)); };
  for (int round = 0; round < 60; ++round) {
    std::string job = kModels[static_cast<std::size_t>(round) % kModels.size()];
    job += "--tensor-model-parallel-size " + draw(1) + " --sequence-parallel --pipeline-model-parallel-size " +
           draw(1) + " --context-parallel-size " + draw(1) + " --expert-model-parallel-size " +
           (round % 3 == 0 ? "1" : draw(1)) + " --transformer-impl transformer_engine --attention-backend flash ";
    const RankMemory before = estimate_rank(small_run(job), 0).value();
    for (std::size_t i = 0; i < kCauses.size(); ++i) {
      const Cause& cause = kCauses[i];
      const RankMemory after = estimate_rank(small_run(job + cause.more), 0).value();
      EXPECT_GE((after.steady_bytes - before.steady_bytes) * cause.steady, 0) << job << cause.more;
      EXPECT_GE((after.peak_bytes - before.peak_bytes) * cause.peak, 0) << job << cause.more;
      moved[i] += after.peak_bytes != before.peak_bytes ? 1 : 0;
    }
  }
  for (std::size_t i = 0; i < kCauses.size(); ++i) EXPECT_GT(moved[i], 20) << kCauses[i].more;
}

TEST(ArgumentTable, OptimizersOfOneMomentHoldLess) {
  const auto state_of = [](const std::string& optimizer) {
    return estimate_rank(small_run("--swiglu --optimizer " + optimizer), 0).value().steady_bytes;
  };
  EXPECT_EQ(state_of("lion"), state_of("sgd"));
  const double parameters = estimate_rank(small_run("--swiglu"), 0).value().parameters;
  EXPECT_NEAR(state_of("adam") - state_of("lion"), 4 * parameters, 0.02 * parameters);
}

TEST(ArgumentTable, ShardedGradientsHoldLessThanWholeOnesAndMoreThanShardedWeights) {
  const auto steady = [](const std::string& strategy) {
    const std::string fsdp = "--use-megatron-fsdp --data-parallel-sharding-strategy ";
    return estimate_rank(small_run(fsdp + strategy), 0).value().steady_bytes;
  };
  EXPECT_GT(steady("optim"), steady("optim_grads"));
  EXPECT_GT(steady("optim_grads"), steady("optim_grads_params"));
  const auto judged =
      testing::import_small("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads").value().judged;
  EXPECT_EQ(judged.back().standing, Standing::not_understood);
}

TEST(ArgumentTable, ReadsWholeNumbersAsPythonDoes) {
  for (const char* layers : {"1_0", "1e1", "10.0", "010"})
    EXPECT_EQ(small_run(std::string("--num-layers ") + layers).model.layers, 10) << layers;
}

TEST(ArgumentTable, CountsTheIdANullTokenizerAdds) {
  const std::string null = "--tokenizer-type NullTokenizer --make-vocab-size-divisible-by 128 --vocab-size ";
  EXPECT_EQ(small_run(null + "128255").model.vocabulary.padded, 128256);
  EXPECT_EQ(small_run(null + "128256").model.vocabulary.padded, 128384);
  EXPECT_EQ(small_run("--vocab-size 128256").model.vocabulary.padded, 128256);
}

TEST(ArgumentTable, NotesArgumentsWithoutEffectBesideOthers) {
  for (const char* more : {"--num-query-groups 2", "--recompute-num-layers 1"}) {
    const auto imported = testing::import_small(more);
    ASSERT_TRUE(imported.ok()) << imported.error().message;
    EXPECT_TRUE(std::ranges::any_of(imported.value().notes, [](const std::string& note) {
      return note.find("has no effect without") != std::string::npos;
    })) << more;
  }
}

struct BadArgument {
  const char* name;
  const char* more;
  const char* message;  ///< a part of it
  RunHints hints = testing::on_eight();
};
std::ostream& operator<<(std::ostream& out, const BadArgument& bad) {
  return out << bad.more;
}

class Refused : public ::testing::TestWithParam<BadArgument> {};

TEST_P(Refused, WithOneLineThatNamesTheArgument) {
  const auto imported = testing::import_small(GetParam().more, GetParam().hints);
  ASSERT_FALSE(imported.ok());
  EXPECT_EQ(imported.error().code, Error::Code::bad_input);
  EXPECT_NE(imported.error().message.find(GetParam().message), std::string::npos) << imported.error().message;
  EXPECT_EQ(imported.error().message.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Arguments, Refused,
    ::testing::Values(
        BadArgument{"NoNumber", "--num-layers many", "run.sh:8: --num-layers: 'many' is not a value it takes"},
        BadArgument{"Empty", "--hidden-size", "--hidden-size: '' is not a value"},
        BadArgument{"Zero", "--hidden-size 0", "from 1 to"},
        BadArgument{"Negative", "--micro-batch-size -1", "from 1 to"},
        BadArgument{"Fraction", "--num-layers 1.5", "whole number"},
        BadArgument{"TwoBars", "--num-layers 1__2", "whole number"},
        BadArgument{"Huge", "--hidden-size 99999999999999999999", "--hidden-size"},
        BadArgument{"NotFinite", "--hidden-dropout nan", "--hidden-dropout"},
        BadArgument{"SwitchWithText", "--swiglu maybe", "it is a switch"},
        BadArgument{"UnknownWord", "--recompute-granularity half", "write full or selective"},
        BadArgument{"Unresolved", "--num-layers $LAYERS", "nothing in the file says what '$LAYERS' is"},
        BadArgument{"HeadsOverTensor", "--tensor-model-parallel-size 3 --nproc-per-node 8", "does not divide 8 dev"},
        BadArgument{"HeadSize", "--num-attention-heads 7", "7 does not divide hidden size 512"},
        BadArgument{"Groups", "--group-query-attention --num-query-groups 3",
                    "3 does not divide the 8 attention heads"},
        BadArgument{"Layers", "--pipeline-model-parallel-size 8 --num-layers 11", "11 layers do not divide into 8"},
        BadArgument{"Layout", "--pipeline-model-parallel-layout Et*2|(tt|L", "is not a layout"},
        BadArgument{"EndlessLayout", "--pipeline-model-parallel-layout (((t*9999)*9999)*9999)*9999L",
                    "is not a layout"},
        BadArgument{"LayoutMissesLayers", "--pipeline-model-parallel-layout Et*2L",
                    "places 2 layers; the model has 12"},
        BadArgument{"LayoutWithoutLoss", "--pipeline-model-parallel-layout Et*12", "one L in the last"},
        BadArgument{"ManyStages", "--pipeline-model-parallel-layout Et*12||L --pipeline-model-parallel-size 2",
                    "3 stages do not divide over 2"},
        BadArgument{"MoePattern", "--num-experts 8 --moe-layer-freq ([0]*3", "is neither a number nor a list"},
        BadArgument{"MoeListTooShort", "--num-experts 8 --moe-layer-freq [0,1]", "the list has 2 entries"},
        BadArgument{"TopK", "--num-experts 2 --moe-router-topk 4", "exceeds the 2 experts"},
        BadArgument{"Noop", "--noop-layers 1,12", "is not a list of layers from 0 to 11", testing::on_ascend()},
        BadArgument{"LayerList", "--num-layer-list 4,4,5 --pipeline-model-parallel-size 2", "is not a list of 2 stages",
                    testing::on_ascend()},
        BadArgument{"Split", "--pipeline-model-parallel-size 2 --num-layers 7",
                    "account-for-loss-in-pipeline-split make those count as layers"},
        BadArgument{"ChunksOfOneRank", "--num-virtual-stages-per-pipeline-rank 2", "more than one pipeline rank"},
        BadArgument{"UnknownVocabulary", "--tokenizer-type NullTokenizer", "give --vocab-size"},
        BadArgument{"ExpertsOfNoModel", "--expert-model-parallel-size 2", "2 needs --num-experts"},
        BadArgument{"ExpertsOfWholeSequences", "--num-experts 8 --tensor-model-parallel-size 2",
                    "2 beside --num-experts needs --sequence-parallel"},
        BadArgument{"FullWithoutMethod", "--recompute-granularity full", "full needs --recompute-method"},
        BadArgument{"MethodOfSelective", "--recompute-granularity selective --recompute-method block", "takes none"},
        BadArgument{"FewPositions", "--max-position-embeddings 512", "fewer than the 1024 of a sequence"},
        BadArgument{"CapacityOfAllgather", "--num-experts 8 --moe-expert-capacity-factor 1.5", "has no capacity"},
        BadArgument{"PaddingToNothing", "--num-experts 8 --moe-pad-expert-input-to-capacity", "needs --moe-expert-cap"},
        BadArgument{"PrecisionAwareAlone", "--use-precision-aware-optimizer", "needs --use-distributed-optimizer"},
        BadArgument{"NoLayerHasExperts", "--num-experts 8 --moe-layer-freq 0", "a number from 1"},
        BadArgument{"PaddedBelow", "--vocab-size 3000 --padded-vocab-size 100", "fewer than the 3000"},
        BadArgument{"EndsOfAll",
                    "--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 5 "
                    "--decoder-last-pipeline-num-layers 6",
                    "5 + 6 layers of the first and the last stage are not the model's 12"},
        BadArgument{"TwoPrecisions", "--fp16", "exclude each other"},
        BadArgument{"NoWorld",
                    "--tensor-model-parallel-size 1048576 --context-parallel-size 1048576",
                    "exceeds the 16777216 devices",
                    {}},
        BadArgument{"Product",
                    "--hidden-size 16777216 --num-attention-heads 8 --ffn-hidden-size 16777216 --num-layers 1000",
                    "is a number far off?"},
        BadArgument{"Tensors", "--num-layers 99996 --num-experts 65536 --moe-ffn-hidden-size 1 --hidden-size 8",
                    "far off"},
        BadArgument{"Image", "--img-h 336", "multimodal"},
        BadArgument{"OtherFile", "--yaml-cfg job.yaml", "replaces all arguments"},
        BadArgument{"Rl", "--rl-partial-rollouts", "reinforcement"}, BadArgument{"Lora", "--lora-r 16", "LoRA"},
        BadArgument{"Distillation", "--export-kd-cfg x.yaml", "distillation"},
        BadArgument{"Sparse", "--enable-dsa-indexer", "sparse attention"},
        BadArgument{"Mamba", "--spec some.mamba_spec layer", "--hybrid-layer-pattern"},
        BadArgument{"T5Pipeline",
                    "--encoder-num-layers 4 --decoder-num-layers 4 --decoder-seq-length 8 "
                    "--pipeline-model-parallel-size 2",
                    "T5 over several pipeline stages"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ArgumentTable, NeedsTheSizesOfTheModel) {
  for (const char* needed : {"hidden-size", "num-layers", "num-attention-heads", "seq-length", "micro-batch-size"}) {
    ArgumentSet set = testing::arguments(testing::kSmall);
    std::erase_if(set.arguments, [&](const Argument& argument) { return argument.name == needed; });
    const auto imported = import_run(set, {});
    ASSERT_FALSE(imported.ok()) << needed;
    EXPECT_NE(imported.error().message.find(needed), std::string::npos) << imported.error().message;
  }
  EXPECT_FALSE(import_run({}, {}).ok());
}

// ---- what the frameworks derive -----------------------------------------------------------------------------------

TEST(DerivedSizes, FollowTheFrameworksDefaults) {
  const TrainingRun run = small_run("");
  EXPECT_EQ(run.model.ffn, 2048);
  EXPECT_EQ(run.parallel.world, 8);
  EXPECT_EQ(run.parallel.data, 8);
  EXPECT_EQ(run.batch.micro_batches, 1);
  EXPECT_EQ(run.model.vocabulary.padded, 50304);
  EXPECT_EQ(run.model.positions, PositionEmbedding::learned_absolute);
  EXPECT_EQ(small_run("--swiglu").model.ffn, 1344);  // 4 * 512 * 2 / 3 = 1365.3, down to a multiple of 64
  EXPECT_EQ(small_run("--group-query-attention").model.attention.groups, 1);
  EXPECT_EQ(small_run("--tensor-model-parallel-size 4").model.vocabulary.padded, 50688);
  EXPECT_EQ(small_run("--vocab-size 1000 --vocab-extra-ids 100").model.vocabulary.padded, 1152);
  EXPECT_EQ(small_run("--padded-vocab-size 12345").model.vocabulary.padded, 12345);
  EXPECT_EQ(small_run("--use-rotary-position-embeddings").model.positions, PositionEmbedding::rope);
}

TEST(DerivedSizes, SplitDevicesBetweenDenseAndExpertGroups) {
  const TrainingRun run = small_run(
      "--tensor-model-parallel-size 2 --context-parallel-size 2 --pipeline-model-parallel-size 2 --num-experts 8 "
      "--expert-model-parallel-size 4 --expert-tensor-parallel-size 1 --nproc_per_node 8 --nnodes 4 "
      "--sequence-parallel",
      {});
  EXPECT_EQ(run.parallel.world, 32);
  EXPECT_EQ(run.parallel.data, 4);
  EXPECT_EQ(run.parallel.expert_data, 4);
  EXPECT_EQ(run.batch.micro_batches, 2);
  const TrainingRun extended = small_run(
      "--tensor-model-parallel-size 2 --num-experts 8 --expert-model-parallel-size 2 "
      "--moe-tp-extend-ep --sequence-parallel",
      testing::on_ascend());
  EXPECT_EQ(extended.parallel.expert, 4);
  EXPECT_EQ(extended.parallel.expert_tensor, 1);
  EXPECT_EQ(extended.parallel.expert_data, 2);
}

TEST(DerivedSizes, AssumeTheLeastDevicesThatFit) {
  EXPECT_EQ(small_run("--tensor-model-parallel-size 2", {}).parallel.world, 8);
  const TrainingRun run = small_run(
      "--num-experts 12 --expert-model-parallel-size 6 --expert-tensor-parallel-size 1 "
      "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --sequence-parallel",
      {});
  EXPECT_EQ(run.parallel.world, 24);
  EXPECT_EQ(run.parallel.data, 3);
  EXPECT_EQ(run.parallel.expert_data, 2);
  const auto recorded = testing::import_small("--pipeline-model-parallel-size 12", {.recorded = true});
  ASSERT_FALSE(recorded.ok());
  EXPECT_NE(recorded.error().message.find("the number of devices is not given"), std::string::npos);
}

/// State sharded over an unknown number of devices would be off by a factor.
TEST(DerivedSizes, AreRefusedWhereAnUnknownNumberOfDevicesDecidesThem) {
  for (const char* more : {"--use-distributed-optimizer", "--optimizer dist_muon",
                           "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params"})
    for (const bool recorded : {false, true}) {
      const auto refused = testing::import_small(more, {.recorded = recorded});
      ASSERT_FALSE(refused.ok()) << more;
      EXPECT_NE(refused.error().message.find("the number of devices is not given"), std::string::npos);
      EXPECT_TRUE(testing::import_small(more, {.platform = {.devices = 16}, .recorded = recorded}).ok()) << more;
      EXPECT_TRUE(
          testing::import_small(std::string(more) + " --nnodes 2 --nproc-per-node 8", {.recorded = recorded}).ok())
          << more;
    }
}

TEST(DerivedSizes, TakeTheVocabularyOfTheLastNameInAPath) {
  const auto size_of = [](const std::string& path) {
    return small_run("--make-vocab-size-divisible-by 1 --tokenizer-type PretrainedFromHF --tokenizer-name-or-path " +
                     path)
        .model.vocabulary.padded;
  };
  EXPECT_EQ(size_of("/models/Qwen/gemma-3/tokenizer"), 262144);
  EXPECT_EQ(size_of("/models/gemma"), 256000);
  EXPECT_EQ(size_of("/baichuan2/hf"), 125696);
  EXPECT_EQ(size_of("codellama-2"), 32016);
  EXPECT_EQ(size_of("/models/unheard-of/"), 32000);
}

TEST(DerivedSizes, TellT5ByItsScriptOrItsDecoder) {
  const TrainingRun run = small_run("--decoder-seq-length 128");
  EXPECT_EQ(run.model.kind, ModelClass::t5);
  EXPECT_EQ(run.model.encoder_layers, 12);
  EXPECT_EQ(run.model.layers, 12);
  EXPECT_EQ(small_run("--decoder-seq-length 128 --encoder-num-layers 4").model.layers, 4);
  EXPECT_EQ(small_run("").model.kind, ModelClass::gpt);
  const auto unsized = testing::import_small("", {.t5 = true});
  ASSERT_FALSE(unsized.ok());
  EXPECT_NE(unsized.error().message.find("decoder-seq-length"), std::string::npos);
}

TEST(ArgumentTable, DoubtsWhatItDoesNotModelOfAValue) {
  const auto standing_of = [](std::string_view more, const RunHints& hints = testing::on_eight()) {
    const auto imported = testing::import_small(more, hints);
    EXPECT_TRUE(imported.ok()) << more;
    return imported ? imported.value().judged.back().standing : Standing::no_effect;
  };
  const std::string selective = "--recompute-granularity selective --recompute-modules ";
  EXPECT_EQ(standing_of(selective + "core_attn moe_act mlp"), Standing::used);
  EXPECT_EQ(standing_of(selective + "core_atn"), Standing::not_understood);
  EXPECT_EQ(standing_of("--offload-modules attn_norm"), Standing::used);
  EXPECT_EQ(standing_of("--offload-modules attn_norm other"), Standing::not_understood);
  EXPECT_EQ(standing_of("--swap-attention"), Standing::not_understood) << "Megatron-LM has no such argument";
  EXPECT_EQ(standing_of("--swap-attention", testing::on_ascend()), Standing::used);
  EXPECT_FALSE(testing::import_small("--swap-attention").value().run.offload.attention);
}

TEST(DerivedSizes, TakeTheEnvironment) {
  ArgumentSet set = testing::arguments(testing::kSmall);
  set.environment = {{.name = "NNODES", .value = "2"},
                     {.name = "GPUS_PER_NODE", .value = "4"},
                     {.name = "NVTE_FLASH_ATTN", .value = "0"},
                     {.name = "PYTORCH_CUDA_ALLOC_CONF", .value = "expandable_segments:True"},
                     {.name = "CUBLAS_WORKSPACE_CONFIG", .value = ":4096:8"},
                     {.name = "ANYTHING", .value = "else"}};
  const auto imported = import_run(set, {});
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  const TrainingRun& run = imported.value().run;
  EXPECT_EQ(run.parallel.world, 8);
  EXPECT_EQ(run.model.attention.backend, AttentionBackend::fused);
  EXPECT_TRUE(run.platform.expandable_segments);
  EXPECT_EQ(run.platform.cublas_workspace_config, ":4096:8");
  set.environment[4].value = ":4096";
  const auto refused = import_run(set, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("CUBLAS_WORKSPACE_CONFIG"), std::string::npos) << refused.error().message;
}

TEST(DerivedSwitches, ImplyOneAnother) {
  EXPECT_EQ(small_run("--recompute-activations").recompute.modules, std::vector<std::string>{"core_attn"});
  EXPECT_EQ(small_run("--moe-layer-recompute").recompute.modules, std::vector<std::string>{"moe"});
  EXPECT_EQ(small_run("--recompute-granularity selective").recompute.modules, std::vector<std::string>{"core_attn"});
  EXPECT_EQ(small_run("--recompute-granularity selective --recompute-modules mlp moe_act").recompute.modules.size(),
            2U);
  EXPECT_TRUE(small_run("--cross-entropy-fusion-impl te --cross-entropy-loss-fusion").loss.fused_by_te);
  EXPECT_FALSE(small_run("--cross-entropy-fusion-impl te").loss.fused_by_te);
  EXPECT_TRUE(small_run("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params").optimizer.fsdp);
  EXPECT_FALSE(small_run("--use-megatron-fsdp --data-parallel-sharding-strategy no_shard").optimizer.fsdp);
  EXPECT_EQ(small_run("--optimizer-offload-fraction 0.5").optimizer.host_share, 0);
  EXPECT_EQ(small_run("--optimizer-offload-fraction 0.5 --optimizer-cpu-offload").optimizer.host_share, 0.5);
}

// ---- layouts ------------------------------------------------------------------------------------------------------

TEST(Layouts, OfPublishedModelsAreRead) {
  const auto stages = expand_layout("Et*3|(tt|)*29m|L");
  ASSERT_TRUE(stages.has_value());
  EXPECT_EQ(stages->size(), 32U);
  EXPECT_EQ(stages->front(), "Ettt");
  EXPECT_EQ((*stages)[29], "tt");
  EXPECT_EQ(stages->back(), "L");
  EXPECT_EQ(expand_layout("E|(t|)*3,m|m||L")->size(), 8U);
  for (const char* broken : {"", "(", ")", "x", "t*", "t*-1", "(t", "t)", "t**2", "*3", "t*99999999999999999999"})
    EXPECT_FALSE(expand_layout(broken).has_value()) << broken;
}

/// A random layout and what it means, built side by side.
struct RandomLayout {
  std::string text;
  std::string flat;
};
RandomLayout random_layout(std::mt19937& random, int depth) {
  RandomLayout layout;
  for (auto parts = 1 + random() % 4; parts > 0; --parts) {
    RandomLayout unit;
    if (depth > 0 && random() % 3 == 0) {
      unit = random_layout(random, depth - 1);
      unit.text = "(" + unit.text + ")";
    } else {
      unit.flat = unit.text = std::string(1, "tt|m"[random() % 4]);
    }
    const auto times = random() % 4;
    if (times != 1) unit.text += "*" + std::to_string(times);
    layout.text += unit.text + (random() % 5 == 0 ? "," : "");
    for (auto i = times; i > 0; --i) layout.flat += unit.flat;
  }
  return layout;
}

TEST(Layouts, ExpandAsTheyAreBuilt) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const RandomLayout layout = random_layout(random, 3);
    const auto stages = expand_layout("E" + layout.text + "L");
    ASSERT_TRUE(stages.has_value()) << layout.text;
    std::string flat;
    for (std::size_t i = 0; i < stages->size(); ++i) flat += (i > 0 ? "|" : "") + (*stages)[i];
    EXPECT_EQ(flat, "E" + layout.flat + "L") << layout.text;
  }
}

TEST(Layouts, PatternsOfExpertLayers) {
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(expand_pattern("([0]*3+[1]*2)", 100), (Numbers{0, 0, 0, 1, 1}));
  EXPECT_EQ(expand_pattern("([0]+[1]*2)*2", 100), (Numbers{0, 1, 1, 0, 1, 1}));
  EXPECT_EQ(expand_pattern("[0, 1]", 100), (Numbers{0, 1}));
  EXPECT_EQ(expand_pattern("0 1 1", 100), (Numbers{0, 1, 1}));
  EXPECT_EQ(expand_pattern("2", 100), (Numbers{2}));
  for (const char* broken : {"([0]", "[0]*", "[a]", "[0]+", "[0]]", "([1]*1000)*1000"})
    EXPECT_FALSE(expand_pattern(broken, 100).has_value()) << broken;
}

std::vector<std::size_t> layers_by_stage(const TrainingRun& run) {
  std::vector<std::size_t> counts;
  for (std::size_t chunk = 0; chunk < static_cast<std::size_t>(run.parallel.virtual_pipeline); ++chunk)
    for (const auto& rank : run.parallel.chunks) counts.push_back(rank[chunk].layers.size());
  return counts;
}

TEST(Layouts, PlaceLayersAsTheFrameworksDo) {
  using Counts = std::vector<std::size_t>;
  EXPECT_EQ(layers_by_stage(small_run("--pipeline-model-parallel-size 4")), (Counts{3, 3, 3, 3}));
  EXPECT_EQ(layers_by_stage(small_run("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2")),
            (Counts{2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(layers_by_stage(small_run("--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 2 "
                                      "--decoder-last-pipeline-num-layers 4")),
            (Counts{2, 3, 3, 4}));
  EXPECT_EQ(
      layers_by_stage(small_run("--num-layers 14 --pipeline-model-parallel-size 4 "
                                "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split")),
      (Counts{3, 4, 4, 3}));
  EXPECT_EQ(
      layers_by_stage(small_run("--num-layer-list 1,2,4,5 --pipeline-model-parallel-size 4", testing::on_ascend())),
      (Counts{1, 2, 4, 5}));
  EXPECT_EQ(layers_by_stage(small_run("--noop-layers 0,11 --pipeline-model-parallel-size 4", testing::on_ascend())),
            (Counts{2, 3, 3, 2}));
  // The record of a run that did start: what made its layers divide is missing there.
  EXPECT_EQ(layers_by_stage(small_run("--num-layers 6 --pipeline-model-parallel-size 4", {.recorded = true})),
            (Counts{1, 2, 2, 1}));
  const TrainingRun v =
      small_run("--schedules-method dualpipev --pipeline-model-parallel-size 2", testing::on_ascend());
  EXPECT_EQ(v.parallel.chunks[0][1].layers, (std::vector<std::int64_t>{9, 10, 11}));
  EXPECT_TRUE(v.parallel.chunks[0][1].loss);
}

TEST(Layouts, MarkTheLayersWithExperts) {
  const auto experts = [](std::string_view more, const RunHints& hints) {
    const TrainingRun run = small_run("--num-layers 4 --num-experts 8 " + std::string(more), hints);
    std::string marks;
    for (const bool moe : run.model.moe.is_moe) marks += moe ? '1' : '0';
    return marks;
  };
  EXPECT_EQ(experts("", {}), "1111");
  EXPECT_EQ(experts("--moe-layer-freq 2", {}), "1010");
  EXPECT_EQ(experts("--moe-layer-freq ([0]*1+[1]*3)", {}), "0111");
  EXPECT_EQ(experts("--moe-layer-freq -1 --first-k-dense-replace -1", testing::on_ascend()), "1111");
  EXPECT_EQ(experts("--moe-layer-freq 1 --first-k-dense-replace 3", testing::on_ascend()), "0001");
}

/// Random sizes and switches: nothing crashes, and what is accepted is consistent and can be estimated.
TEST(RandomArguments, AreImportedConsistentlyOrRefused) {
  std::mt19937 random(20'241'121);
  const std::vector<std::string_view> known = known_arguments();
  const std::array<std::string_view, 14> values = {
      "0", "1", "2", "4", "8", "16", "1024", "16777216", "True", "false", "[0]*3", "x", "full", "9007199254740993"};
  std::map<bool, int> taken;
  for (int round = 0; round < 4000; ++round) {
    ArgumentSet set = testing::arguments(testing::kSmall);
    for (auto more = random() % 6; more > 0; --more) {
      const std::string_view name = known[random() % known.size()];
      set.arguments.push_back({.name = std::string(name), .value = std::string(values[random() % values.size()])});
    }
    const bool ascend = random() % 2 == 0;
    const auto imported = import_run(set, ascend ? testing::on_ascend(1 << random() % 6) : testing::on_eight());
    ++taken[imported.ok()];
    if (!imported.ok()) {
      EXPECT_EQ(imported.error().message.find('\n'), std::string::npos);
      continue;
    }
    const TrainingRun& run = imported.value().run;
    // Doubts about what is not there have no name.
    EXPECT_EQ(
        std::ranges::count_if(imported.value().judged, [](const JudgedArgument& one) { return !one.name.empty(); }),
        std::ssize(set.arguments));
    EXPECT_EQ(run.parallel.data * run.parallel.tensor * run.parallel.pipeline * run.parallel.context,
              run.parallel.world);
    EXPECT_EQ(run.parallel.expert_data * run.parallel.expert * run.parallel.expert_tensor * run.parallel.pipeline,
              run.parallel.world);
    EXPECT_EQ(run.model.vocabulary.padded % run.parallel.tensor, 0);
    std::set<std::int64_t> layers;
    for (const auto& rank : run.parallel.chunks)
      for (const Chunk& chunk : rank) layers.insert(chunk.layers.begin(), chunk.layers.end());
    EXPECT_LE(std::ssize(layers), run.model.layers);
    const Result<RankMemory> memory = estimate_rank(run, logged_rank(run));
    EXPECT_TRUE(!memory || std::isfinite(memory.value().peak_bytes));
  }
  EXPECT_GT(taken[true], 300);
  EXPECT_GT(taken[false], 300);
}

// ---- as a plan's job ----------------------------------------------------------------------------------------------

Result<PlannedRun> small_job(std::string_view more, const RunHints& hints = testing::on_eight()) {
  return to_job(
      small_run("--attention-backend flash --hidden-dropout 0 --position-embedding-type rope " + std::string(more),
                hints),
      "m");
}

TEST(ToJob, SaysWhatARunSays) {
  auto planned = small_job(
      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --num-experts 8 --expert-model-parallel-size 4 "
      "--expert-tensor-parallel-size 1 --moe-layer-freq ([0]*2+[1]*10) --mtp-num-layers 1 --swiglu --sequence-parallel "
      "--untie-embeddings-and-output-weights --use-distributed-optimizer --micro-batch-size 1 --recompute-activations "
      "--pipeline-model-parallel-layout Et*7|t*5mL --multi-latent-attention --q-lora-rank 64 --kv-lora-rank 32");
  ASSERT_TRUE(planned.ok()) << planned.error().message;
  graph_build::JobSpec& job = planned.value().job;
  job.device = "any";
  const std::vector<graph_build::SpecProblem> problems = graph_build::find_problems(job);
  EXPECT_TRUE(problems.empty()) << problems.front().key << ": " << problems.front().message;
  EXPECT_EQ(job.parallel.expert, 2);
  EXPECT_TRUE(job.parallel.tensor_extends_expert);
  EXPECT_EQ(job.parallel.data, 2);
  EXPECT_EQ(std::ranges::count(job.model.layers, graph_build::LayerKind::moe), 10);
  EXPECT_EQ(job.parallel.slots[0][0].size(), 7U);
  EXPECT_EQ(job.parallel.slots[1][0].back(), (graph_build::Slot{.kind = graph_build::Slot::Kind::mtp, .layer = 0}));
  EXPECT_EQ(job.model.attention.kind, graph_build::AttentionSpec::Kind::mla);
  EXPECT_EQ(job.model.attention.qk_nope_dim, 128);
  ASSERT_EQ(planned.value().left_out.size(), 2U);
  EXPECT_NE(planned.value().left_out[0].find("recompute"), std::string::npos);
  EXPECT_EQ(planned.value().left_out[1], "not in the plan: biases of linear layers, but for queries, keys and values");
}

/// What estimate counts of a capacity is what the plan's devices hold (local_sizes.cc): padded rows are the factor
/// times the mean, others are at most that.
TEST(ToJob, TakesTheCapacity) {
  const std::string experts =
      "--num-experts 8 --expert-model-parallel-size 4 --micro-batch-size 1 --moe-token-dispatcher-type alltoall ";
  const auto moe_of = [&](const std::string& more) {
    const auto planned = small_job(experts + more);
    EXPECT_TRUE(planned.ok()) << planned.error().message;
    EXPECT_EQ(planned.value().job.expert_load.mean, 1);
    return planned.value().job.model.moe;
  };
  EXPECT_FALSE(moe_of("").drops());
  EXPECT_FALSE(moe_of("--moe-expert-capacity-factor -1").drops());
  const graph_build::MoeSpec drops = moe_of("--moe-expert-capacity-factor 1.5 --moe-token-drop-policy position");
  EXPECT_EQ(drops.capacity_factor, 1.5);
  EXPECT_EQ(drops.capacity_level, graph_build::MoeSpec::CapacityLevel::expert);
  EXPECT_FALSE(drops.pads());
  const graph_build::MoeSpec pads = moe_of("--moe-expert-capacity-factor 1.25 --moe-pad-expert-input-to-capacity");
  EXPECT_EQ(pads.capacity_factor, 1.25);
  EXPECT_TRUE(pads.pads());
}

TEST(ToJob, RenumbersLayersBehindNoOps) {
  auto planned = small_job(
      "--pipeline-model-parallel-size 4 --noop-layers 0,11 --micro-batch-size 1 --disable-bias-linear "
      "--use-flash-attn",
      testing::on_ascend());
  ASSERT_TRUE(planned.ok()) << planned.error().message;
  graph_build::JobSpec& job = planned.value().job;
  job.device = "any";
  EXPECT_TRUE(graph_build::find_problems(job).empty()) << graph_build::find_problems(job).front().message;
  EXPECT_EQ(job.model.layers.size(), 10U);
  EXPECT_EQ(job.parallel.slots[0][0].size(), 2U);
  EXPECT_GT(job.parallel.framework_bytes, 0);
  EXPECT_TRUE(planned.value().left_out.empty());
}

TEST(ToJob, HasTheParametersTheFrameworkHas) {
  const TrainingRun run = small_run(
      "--attention-backend flash --hidden-dropout 0 --position-embedding-type rope --disable-bias-linear --swiglu "
      "--normalization RMSNorm --untie-embeddings-and-output-weights --tensor-model-parallel-size 2 "
      "--pipeline-model-parallel-size 2");
  const auto planned = to_job(run, "m");
  ASSERT_TRUE(planned.ok()) << planned.error().message;
  for (std::int32_t stage = 0; stage < 2; ++stage) {
    const graph_build::StaticMemory memory = graph_build::static_memory(planned.value().job, stage);
    const auto framework = estimate_rank(run, stage * 4);
    ASSERT_TRUE(framework.ok());
    EXPECT_NEAR(static_cast<double>(memory.dense_parameters + memory.expert_parameters), framework.value().parameters,
                0.001 * framework.value().parameters);
  }
}

TEST(ToJob, RefusesWhatAPlanCannotSay) {
  for (const auto& [more, part] : std::map<std::string, std::string>{
           {"--attention-backend unfused", "keeps its scores"},
           {"--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params", "FSDP"},
           {"--bf16 false", "fp32"},
           {"--hybrid-layer-pattern M*-M*-", "state-space"},
           {"--encoder-num-layers 2 --decoder-num-layers 2 --decoder-seq-length 128", "T5"}}) {
    const auto planned = small_job(more);
    ASSERT_FALSE(planned.ok()) << more;
    EXPECT_NE(planned.error().message.find(part), std::string::npos) << planned.error().message;
  }
}

// ---- measured rows ------------------------------------------------------------------------------------------------

std::string text_of_value(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump();
}

/// How many rows are refused, by what the message says.
std::map<std::string, int> refusals(const char* file, bool ascend, int& rows) {
  std::map<std::string, int> by_reason;
  const auto path = tidemark::testing::data_path(file);
  if (!path) return by_reason;
  const auto document = tidemark::testing::parsed(tidemark::testing::text_of(*path));
  for (const auto& row : document["rows"]) {
    ++rows;
    ArgumentSet set;
    for (const auto& [name, value] : row["args"].items())
      set.arguments.push_back({.name = name,
                               .value = value.is_boolean() ? "" : text_of_value(value),
                               .is_switch = value.is_boolean(),
                               .place = "row"});
    for (const auto& [name, value] : row["env"].items())
      set.environment.push_back({.name = name, .value = text_of_value(value)});
    RunHints hints = ascend ? testing::on_ascend(row["npus"].get<std::int64_t>()) : RunHints{};
    if (!ascend && row["gpus"].is_number()) hints.platform.devices = row["gpus"].get<std::int64_t>();
    if (row.contains("gpus_inferred")) hints.platform.devices = row["gpus_inferred"].get<std::int64_t>();
    hints.bert = row.value("suite", "") == "bert";
    hints.recorded = true;
    const auto imported = import_run(set, hints);
    if (imported.ok()) continue;
    const std::string& message = imported.error().message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    constexpr std::array<const char*, 9> kReasons = {
        "no arguments", "number of devices", "reinforcement", "distillation",    "vision tower",
        "LoRA",         "state-space",       "sparse",        "linear attention"};
    const auto* const reason =
        std::ranges::find_if(kReasons, [&](const char* part) { return message.find(part) != std::string::npos; });
    EXPECT_NE(reason, kReasons.end()) << message;
    if (reason != kReasons.end()) ++by_reason[*reason];
  }
  return by_reason;
}

TEST(MeasuredRows, OfMegatronAreImportedButForWhatIsNotModelled) {
  int rows = 0;
  const auto by_reason = refusals("truth/megatron_lm_ci_memory.dev.json", false, rows);
  if (rows == 0) GTEST_SKIP() << "no reference data: set TIDEMARK_DATA";
  int refused = 0;
  for (const auto& [reason, count] : by_reason) refused += count;
  EXPECT_LT(10 * refused, rows);
  EXPECT_EQ(by_reason.count("sparse") + by_reason.count("LoRA"), 0U);
}

TEST(MeasuredRows, OfMindSpeedAreImportedButForWhatIsNotModelled) {
  int rows = 0;
  const auto by_reason = refusals("truth/mindspeed_llm_ascend_ci_memory.dev.json", true, rows);
  if (rows == 0) GTEST_SKIP() << "no reference data: set TIDEMARK_DATA";
  int refused = 0;
  for (const auto& [reason, count] : by_reason) refused += count;
  EXPECT_LE(3 * refused, rows);
  EXPECT_EQ(by_reason.count("number of devices"), 0U);
}

bool narrow_gradients(const std::string& more) {
  return small_run(more).optimizer.gradient_16bit;
}

TEST(ArgumentNumerics, GradientsAreNarrowOnlyWhereAnArgumentKeepsThem) {
  EXPECT_FALSE(narrow_gradients(""));
  EXPECT_TRUE(narrow_gradients("--grad-reduce-in-bf16"));
  EXPECT_TRUE(narrow_gradients("--use-distributed-optimizer --use-precision-aware-optimizer --main-grads-dtype bf16"));
  EXPECT_FALSE(narrow_gradients("--use-distributed-optimizer --use-precision-aware-optimizer --main-grads-dtype fp32"));
  EXPECT_TRUE(narrow_gradients("--bf16 False --fp16"));
  EXPECT_FALSE(narrow_gradients("--bf16 False --fp16 --accumulate-allreduce-grads-in-fp32"));
  const std::string fsdp = "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params ";
  EXPECT_TRUE(narrow_gradients(fsdp + "--megatron-fsdp-main-grads-dtype bf16"));
  EXPECT_FALSE(narrow_gradients(fsdp + "--megatron-fsdp-main-grads-dtype fp32"));
}

TEST(ArgumentNumerics, ValuesThatAreNotModelledAreReported) {
  for (const std::string value : {"auto", "bf16", "fp16"}) {
    const auto imported = testing::import_small("--megatron-fsdp-main-params-dtype " + value);
    ASSERT_TRUE(imported.ok()) << imported.error().message;
    EXPECT_EQ(imported.value().judged.back().standing, Standing::not_understood) << value;
  }
  EXPECT_EQ(testing::import_small("--megatron-fsdp-main-params-dtype fp32").value().judged.back().standing,
            Standing::used);
  EXPECT_EQ(testing::import_small("--fp8-format hybrid", testing::on_ascend()).value().judged.back().standing,
            Standing::not_understood);
}

TEST(ArgumentOptimizer, OnlyDistMuonIsShardedUnasked) {
  EXPECT_FALSE(small_run("--optimizer muon").optimizer.distributed);
  EXPECT_TRUE(small_run("--optimizer dist_muon").optimizer.distributed);
  EXPECT_FALSE(testing::import_small("--optimizer adaptive_muon").ok());  // it has a second moment
}

TEST(ArgumentRecompute, ExpertsJoinTheModulesGivenOrTheDefaultOne) {
  using Modules = std::vector<std::string>;
  const auto modules = [](const std::string& more) {
    return small_run("--moe-layer-recompute " + more).recompute.modules;
  };
  EXPECT_EQ(modules(""), Modules({"moe"}));
  EXPECT_EQ(modules("--recompute-granularity selective"), Modules({"core_attn", "moe"}));
  EXPECT_EQ(modules("--recompute-granularity selective --recompute-modules mlp"), Modules({"mlp", "moe"}));
  EXPECT_TRUE(modules("--recompute-granularity full --recompute-method uniform").empty());
}

TEST(ArgumentNumerics, AGateIsUnfusedOnlyWhereEveryKernelIsOff) {
  EXPECT_FALSE(small_run("--swiglu").model.unfused_gate);
  EXPECT_TRUE(small_run("--swiglu --no-bias-swiglu-fusion").model.unfused_gate);
  EXPECT_FALSE(small_run("--no-bias-swiglu-fusion").model.unfused_gate);
  EXPECT_FALSE(
      small_run("--swiglu --no-bias-swiglu-fusion --use-fused-swiglu", testing::on_ascend()).model.unfused_gate);
}

TEST(ArgumentParallel, CachedKeysFollowTheRing) {
  const auto cached = [](const std::string& more) {
    const TrainingRun run =
        small_run("--context-parallel-size 4 --context-parallel-kv-cache-policy " + more, testing::on_ascend());
    return std::pair(run.model.attention.cached_keys, run.model.attention.cached_values);
  };
  EXPECT_EQ(cached("full"), std::pair(3.0, 3.0));
  EXPECT_EQ(cached("half --context-parallel-cache-interval 1"), std::pair(1.5, 0.0));
  EXPECT_EQ(cached("full --context-parallel-algo ulysses_cp_algo"), std::pair(0.0, 0.0));
  EXPECT_EQ(cached("full --context-parallel-algo hybrid_cp_algo --ulysses-degree-in-cp 2"), std::pair(1.0, 1.0));
}

/// mindspeed_llm/training/arguments.py and training/utils.py, megatron_basic/training_basic.py.
TEST(ArgumentAttention, MasksFollowDataAndKernel) {
  const auto mask = [](const std::string& more) {
    return small_run("--use-flash-attn " + more, testing::on_ascend()).model.attention.mask;
  };
  EXPECT_EQ(mask(""), AttentionMask::compressed);
  EXPECT_EQ(mask("--attention-mask-type general"), AttentionMask::whole);
  EXPECT_EQ(mask("--cp-attention-mask-type general"), AttentionMask::whole);
  EXPECT_EQ(mask("--use-fusion-attn-v2"), AttentionMask::whole);
  EXPECT_EQ(mask("--use-flash-attn false"), AttentionMask::whole);
  EXPECT_EQ(mask("--use-flash-attn false --context-parallel-size 2"), AttentionMask::compressed);
  EXPECT_EQ(mask("--reset-attention-mask"), AttentionMask::compressed);
  EXPECT_EQ(mask("--reset-attention-mask --attention-mask-type general"), AttentionMask::loaded);
  EXPECT_EQ(mask("--tokenizer-padding-side left"), AttentionMask::loaded);
  EXPECT_EQ(mask("--is-instruction-dataset"), AttentionMask::made);
  EXPECT_EQ(mask("--is-pairwise-dataset --attention-mask-type general"), AttentionMask::made);
  EXPECT_EQ(mask("--is-instruction-dataset --reset-position-ids"), AttentionMask::compressed);
}

TEST(ArgumentAttention, KeysAreRepeatedWhereHeadsAreExchangedOrNoKernelIsFused) {
  const auto repeats = [](const std::string& more) {
    return small_run("--use-flash-attn --group-query-attention --num-query-groups 2 " + more, testing::on_ascend())
        .model.attention.repeats_keys;
  };
  const std::string hybrid =
      "--context-parallel-size 4 --context-parallel-algo hybrid_cp_algo --ulysses-degree-in-cp 2";
  EXPECT_FALSE(repeats(""));
  EXPECT_TRUE(repeats("--use-flash-attn false"));
  EXPECT_FALSE(repeats("--use-flash-attn false --num-query-groups 8"));
  EXPECT_FALSE(repeats("--context-parallel-size 2"));
  EXPECT_TRUE(repeats("--context-parallel-size 4"));  // more ranks than groups
  EXPECT_TRUE(repeats("--context-parallel-size 2 --kv-head-repeat-before-uly-alltoall"));
  EXPECT_FALSE(repeats("--context-parallel-size 4 --context-parallel-algo megatron_cp_algo"));
  EXPECT_FALSE(repeats(hybrid));
  EXPECT_TRUE(repeats(hybrid + " --kv-head-repeat-before-uly-alltoall"));
  EXPECT_EQ(small_run(hybrid, testing::on_ascend()).model.attention.ring, 2);
  EXPECT_EQ(small_run("--context-parallel-size 4", testing::on_ascend()).model.attention.ring, 1);
}

TEST(ArgumentTraining, OnlyUnpackedInstructionDataIsShorter) {
  const auto shorter = [](const std::string& more) {
    return small_run(more, testing::on_ascend()).model.variable_lengths;
  };
  EXPECT_FALSE(shorter("--variable-seq-lengths"));
  EXPECT_TRUE(shorter("--variable-seq-lengths --is-instruction-dataset"));
  EXPECT_FALSE(shorter("--variable-seq-lengths --is-instruction-dataset --reset-position-ids"));
  EXPECT_TRUE(shorter("--no-pad-to-seq-lengths"));
  EXPECT_FALSE(shorter("--no-pad-to-seq-lengths --neat-pack"));
}

TEST(ArgumentAttention, LatentAttentionHasOlderNames) {
  const TrainingRun run = small_run(
      "--multi-head-latent-attention --kv-lora-rank 64 --qk-nope-head-dim 96 --qk-rope-head-dim 32 --v-head-dim 96",
      testing::on_ascend());
  EXPECT_TRUE(run.model.attention.multi_latent);
  EXPECT_EQ(run.model.attention.qk_head_dim, 96);
  EXPECT_EQ(run.model.attention.qk_rope_dim, 32);
}

TEST(ArgumentAttention, FusedRotationIsAskedFor) {
  EXPECT_TRUE(small_run("", testing::on_ascend()).model.unfused_rope);
  EXPECT_FALSE(small_run("--use-fused-rotary-pos-emb", testing::on_ascend()).model.unfused_rope);
  EXPECT_FALSE(small_run("--use-fused-rotary-pos-emb-new", testing::on_ascend()).model.unfused_rope);
  EXPECT_FALSE(small_run("").model.unfused_rope);
  EXPECT_TRUE(small_run("--shape-order BNSD", testing::on_ascend()).model.attention.heads_first);
  EXPECT_FALSE(small_run("--shape-order SBH", testing::on_ascend()).model.attention.heads_first);
  EXPECT_FALSE(testing::import_small("--shape-order HSB", testing::on_ascend()).ok());
}

/// The reason an argument is doubted for; of what is not there, by a name that is empty.
std::string_view doubt(std::string_view more, std::string_view name, bool ascend = true) {
  const std::string line = (ascend ? "--use-flash-attn " : "") + std::string(more);
  const auto imported = testing::import_small(line, ascend ? testing::on_ascend() : testing::on_eight());
  for (const JudgedArgument& one : imported.value().judged)
    if (one.name == name && one.standing == Standing::not_understood) return one.reason;
  return {};
}

/// What no measured run shows, or the one that does contradicts, may not pass a check.
TEST(ArgumentDoubts, AreOfWhatNoMeasuredRunShows) {
  const std::string rms = "--normalization RMSNorm ";
  EXPECT_NE(doubt("--bf16 false --fp16", "fp16"), "");
  EXPECT_EQ(doubt("--bf16 false --fp16", "fp16", false), "");
  EXPECT_NE(doubt("--use-flash-attn false", ""), "");
  EXPECT_EQ(doubt("", ""), "");
  EXPECT_NE(doubt(rms, ""), "");
  EXPECT_EQ(doubt(rms + "--use-fused-rmsnorm", ""), "");
  EXPECT_EQ(doubt(rms, "", false), "");
  EXPECT_NE(doubt("--context-parallel-size 4 --context-parallel-algo hybrid_cp_algo --ulysses-degree-in-cp 2",
                  "context-parallel-algo"),
            "");
  EXPECT_NE(doubt("--context-parallel-size 2 --context-parallel-algo adaptive_cp_algo", "context-parallel-algo"), "");
  EXPECT_EQ(doubt("--context-parallel-algo hybrid_cp_algo", "context-parallel-algo"), "");
  EXPECT_EQ(doubt("--context-parallel-size 2 --context-parallel-algo megatron_cp_algo", "context-parallel-algo"), "");
  EXPECT_NE(doubt("--attention-mask-type general --seq-length 8192", "seq-length"), "");
  EXPECT_EQ(doubt("--attention-mask-type general --seq-length 4096", "seq-length"), "");
  EXPECT_EQ(doubt("--seq-length 8192", "seq-length"), "");
  EXPECT_NE(doubt("--output-logit-softcapping 30", "output-logit-softcapping"), "");
  EXPECT_NE(doubt("--pipeline-model-parallel-size 2 --schedules-method dualpipev", "schedules-method"), "");
  const std::string offload = "--fine-grained-activation-offloading ";
  EXPECT_NE(doubt(offload + "--offload-modules core_attn", "fine-grained-activation-offloading", false), "");
  EXPECT_EQ(doubt(offload, "fine-grained-activation-offloading", false), "");
}

TEST(ArgumentTraining, StateThatIsNotLoadedIsNotThere) {
  RunHints hints = testing::on_ascend();
  hints.platform.resumed = true;
  EXPECT_TRUE(small_run("", hints).platform.resumed);
  EXPECT_FALSE(small_run("--no-load-optim", hints).platform.resumed);
}

}  // namespace
}  // namespace tidemark::estimate
