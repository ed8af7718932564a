// A launch script's run as its time is priced: the same as a measured row of that job, and each option where it
// belongs.

#include "planner/estimate/to_timed_run.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "integrations/formats/import_arguments.h"
#include "planner/estimate/argument_table.h"
#include "planner/estimate/run_seconds.h"
#include "planner/step_time/row_run.h"
#include "planner/step_time/software.h"
#include "planner/step_time/step_seconds.h"
#include "tests/support/devices.h"

namespace tidemark::estimate::testing {
namespace {

using step_time::RecomputedModule;

const Chip& chip_of(const TrainingRun& run) {
  static const Chip hopper = tidemark::testing::shipped_chips()("h100").value();
  static const Chip ascend = tidemark::testing::shipped_chips()("ascend-910b-800t-a2").value();
  return run.platform.accelerator == Accelerator::ascend ? ascend : hopper;
}

TrainingRun run_of(const std::string& script) {
  const auto file = formats::read_arguments(script, "run.sh");
  EXPECT_TRUE(file.ok()) << file.error().message << "\n" << script;
  auto imported = import_run(file.value().set, file.value().hints);
  EXPECT_TRUE(imported.ok()) << imported.error().message << "\n" << script;
  return std::move(imported).value().run;
}

PricedRun priced(const std::string& script) {
  const TrainingRun run = run_of(script);
  return to_timed_run(run, chip_of(run));
}

double seconds(const std::string& script) {
  const TrainingRun run = run_of(script);
  return run_seconds(run, chip_of(run)).seconds();
}

/// Llama 2 70B of 16 layers on two nodes of H100.
std::string dense(const std::string& more = "") {
  return "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --tensor-model-parallel-size 4 --sequence-parallel "
         "--pipeline-model-parallel-size 2 --num-layers 16 --hidden-size 8192 --ffn-hidden-size 28672 "
         "--num-attention-heads 64 --group-query-attention --num-query-groups 8 --seq-length 4096 "
         "--max-position-embeddings 4096 --padded-vocab-size 32000 --swiglu --disable-bias-linear "
         "--untie-embeddings-and-output-weights --use-distributed-optimizer --overlap-grad-reduce "
         "--micro-batch-size 1 --global-batch-size 32 --bf16 " +
         more + "\n";
}

std::string experts(const std::string& more = "") {
  return dense(
      "--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 14336 --expert-model-parallel-size 2 "
      "--moe-grouped-gemm --moe-token-dispatcher-type alltoall " +
      more);
}

std::string mindspeed(const std::string& more = "") {
  return "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True\n" +
         dense("--use-flash-attn --normalization RMSNorm --position-embedding-type rope " + more);
}

/// The row that says the same.
step_time::RowWords dense_row() {
  step_time::RowWords row;
  row.id = "own";
  row.source = "NVIDIA/Megatron-LM@0:tests";
  row.device = "h100";
  row.precision = "bf16";
  row.devices = 16;
  row.model = {.name = "own",
               .layers = 16,
               .hidden = 8192,
               .ffn = 28672,
               .heads = 64,
               .kv_heads = 8,
               .head_dim = 128,
               .vocabulary = 32000,
               .is_gated = true};
  row.layout.tensor = 4;
  row.layout.pipeline = 2;
  row.layout.is_sequence_parallel = true;
  row.micro_batch = 1;
  row.global_batch = 32;
  row.sequence = 4096;
  return row;
}

void expect_same_seconds(const std::string& script, const step_time::RowWords& row) {
  const step_time::RowRun from_row = step_time::run_of(row);
  ASSERT_EQ(from_row.refused, "");
  const PricedRun from_script = priced(script);
  const Chip& chip = chip_of(run_of(script));
  EXPECT_DOUBLE_EQ(step_time::step_seconds(from_script.run, chip, from_script.software).seconds,
                   step_time::step_seconds(from_row.run, chip, *step_time::find_software(from_row.software)).seconds)
      << script;
}

TEST(ToTimedRun, IsTheRunOfARowThatSaysTheSame) {
  expect_same_seconds(dense(), dense_row());
  step_time::RowWords full = dense_row(), half = dense_row(), modules = dense_row(), routed = dense_row();
  full.recompute = {.granularity = "full", .method = "uniform", .layers = 1, .modules = {}};
  expect_same_seconds(dense("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"), full);
  half.recompute = {.granularity = "full", .method = "block", .layers = 4, .modules = {}};
  expect_same_seconds(dense("--recompute-granularity full --recompute-method block --recompute-num-layers 4"), half);
  modules.recompute.granularity = "selective";
  modules.recompute.modules = {"core_attn", "mlp"};
  expect_same_seconds(dense("--recompute-granularity selective --recompute-modules core_attn mlp"), modules);
  routed.model.experts = 8;
  routed.model.top_k = 2;
  routed.model.expert_ffn = 14336;
  routed.layout.expert = 2;
  routed.layout.expert_tensor = 4;
  expect_same_seconds(experts(), routed);
}

TEST(ToTimedRun, TakesAnInterleavedPipelineAndContextParallelRanks) {
  step_time::RowWords interleaved = dense_row(), ring = dense_row();
  interleaved.layout.virtual_pipeline = 4;
  expect_same_seconds(dense("--num-layers-per-virtual-pipeline-stage 2"), interleaved);
  ring.layout.context = 2;
  expect_same_seconds(dense("--context-parallel-size 2"), ring);
}

TEST(ToTimedRun, OverlapOfExpertExchangeHidesTheMeasuredShareOfIt) {
  EXPECT_EQ(priced(experts("--overlap-moe-expert-parallel-comm")).run.expert_hidden, 0.37);
  EXPECT_LT(seconds(experts("--overlap-moe-expert-parallel-comm")), seconds(experts()));
}

TEST(ToTimedRun, CountedOptionsCountTheLayersThatAreNotRunAgainWhole) {
  const std::string half = "--recompute-granularity full --recompute-method block --recompute-num-layers 4 ";
  const PricedRun run =
      priced(mindspeed(half + "--recompute-activation-function --recompute-activation-function-num-layers 2"));
  EXPECT_EQ(run.run.recomputed.layers, 0.5);
  EXPECT_EQ(run.run.recomputed.modules, (std::vector<RecomputedModule>{{"activation", 0.5}})) << "two of four a stage";
}

TEST(ToTimedRun, WindowsTakeAttentionsTimeAway) {
  const std::string windowed = dense("--window-size 512,0");
  EXPECT_EQ(priced(windowed).run.model.window, 512);
  EXPECT_LT(seconds(windowed), seconds(dense()));
  EXPECT_EQ(priced(dense("--window-size -1,0")).run.model.window, 0);
  EXPECT_TRUE(priced(dense("--window-size 512,0 --window-attn-skip-freq 4")).run.model.alternates_window);
  EXPECT_EQ(priced(mindspeed("--sliding-window 512")).run.model.window, 512);
}

TEST(ToTimedRun, PartsMakeUpTheStep) {
  for (const std::string& script : {dense(), experts(), mindspeed(), mindspeed("--swap-optimizer"),
                                    experts("--num-layers-per-virtual-pipeline-stage 2")}) {
    const PricedRun run = priced(script);
    const Chip& chip = chip_of(run_of(script));
    const step_time::StepSeconds step = step_time::step_seconds(run.run, chip, run.software);
    EXPECT_NEAR(seconds(script), step.seconds, 1e-9 * step.seconds) << script;
    EXPECT_GT(step.fill_s, 0) << script;
    EXPECT_GT(step.end_s, 0) << script;
  }
}

TEST(ToTimedRun, OptionsOfMindSpeedNameWhatRunsAgain) {
  const auto modules = [](const std::string& more) { return priced(mindspeed(more)).run.recomputed.modules; };
  EXPECT_TRUE(modules("").empty());
  EXPECT_EQ(modules("--recompute-activation-function"), (std::vector<RecomputedModule>{{"activation"}}));
  // Two of the eight layers of a stage.
  EXPECT_EQ(modules("--recompute-activation-function --recompute-activation-function-num-layers 2"),
            (std::vector<RecomputedModule>{{"activation", 0.25}}));
  EXPECT_EQ(modules("--recompute-norm"), (std::vector<RecomputedModule>{{"layernorm"}}));
}

TEST(ToTimedRun, OptionsThatRunMoreAgainTakeLonger) {
  const double none = seconds(mindspeed()), act = seconds(mindspeed("--recompute-activation-function"));
  EXPECT_GT(act, none);
  EXPECT_GT(seconds(mindspeed("--recompute-activation-function --recompute-norm")), act);
  EXPECT_LT(seconds(mindspeed("--recompute-activation-function --recompute-norm")),
            seconds(mindspeed("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1")));
}

TEST(ToTimedRun, WhatLiesInHostMemoryIsPricedWhereTheLinkShows) {
  const std::string offload = "--fine-grained-activation-offloading --offload-modules qkv_linear";
  EXPECT_EQ(priced(dense()).run.host.dense_bytes, 0);
  // The norm is computed inside the projections: what it reads and what it writes, 4096 tokens over four ranks, 8192
  // wide, 16 bits.
  EXPECT_EQ(priced(dense(offload)).run.host.dense_bytes, 2 * 4096.0 / 4 * 8192 * 2);
  const auto over = [](const std::string& script, double host_bytes_per_s) {
    const TrainingRun run = run_of(script);
    Chip chip = chip_of(run);
    chip.sheet.host_bytes_per_s = host_bytes_per_s;
    return run_seconds(run, chip).seconds();
  };
  EXPECT_EQ(over(dense(offload), 1e12), over(dense(), 1e12)) << "hidden beside the layer's work";
  EXPECT_GT(over(dense(offload), 1e9), over(dense(), 1e9));
  EXPECT_TRUE(priced(mindspeed("--swap-optimizer")).run.host.is_state_swapped);
  EXPECT_GT(seconds(mindspeed("--swap-optimizer")), seconds(mindspeed()));
  const std::string on_host = "--optimizer-cpu-offload --use-precision-aware-optimizer --optimizer-offload-fraction ";
  EXPECT_EQ(priced(dense(on_host + "0.5")).run.host.updated_share, 0.5);
  EXPECT_GT(seconds(dense(on_host + "1.0")), seconds(dense(on_host + "0.5")));
}

TEST(ToTimedRun, TheOptimizersTermsAreTheRuns) {
  EXPECT_EQ(priced(dense()).software.optimizer_bytes, 30);
  EXPECT_EQ(priced(dense("--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"))
                .software.optimizer_bytes,
            22);
  EXPECT_EQ(priced(dense("--grad-reduce-in-bf16")).software.gradient_bytes, 2);
  const std::string whole =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 "
      "--num-attention-heads 8 --seq-length 1024 --vocab-size 9000 --micro-batch-size 4 "
      "--global-batch-size 64 --bf16 ";
  EXPECT_EQ(priced(whole + "\n").software.weight_bytes, 0);
  EXPECT_GT(seconds(whole + "\n"), seconds(whole + "--use-distributed-optimizer\n"));
}

TEST(ToTimedRun, ExpertsRowsAreThoseOfTheFullestDevice) {
  EXPECT_EQ(priced(experts("--moe-router-force-load-balancing")).software.imbalance, 1);
  EXPECT_EQ(priced(experts("--moe-expert-capacity-factor 1.5 --moe-pad-expert-input-to-capacity")).software.imbalance,
            1.5);
  EXPECT_LT(seconds(experts()),
            seconds(experts("--moe-expert-capacity-factor 1.5 --moe-pad-expert-input-to-capacity")));
}

}  // namespace
}  // namespace tidemark::estimate::testing
