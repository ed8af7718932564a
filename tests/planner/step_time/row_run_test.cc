// From what a row says to the run that is priced: each rule that fills a gap, each refusal, each note.

#include "planner/step_time/row_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace tidemark::step_time {
namespace {

/// A dense model on 64 devices, tp 4, pp 2, dp 8; nothing about it is refused or noted.
RowWords dense() {
  RowWords row;
  row.id = "ci/some/row";
  row.source = "Megatron-LM tests/functional_tests@0:x.json";
  row.device = "h100";
  row.precision = "bf16";
  row.devices = 64;
  row.model.name = "some";
  row.model.layers = 32;
  row.model.hidden = 4096;
  row.model.ffn = 14336;
  row.model.heads = 32;
  row.model.kv_heads = 8;
  row.model.head_dim = 128;
  row.model.vocabulary = 128256;
  row.model.is_gated = true;
  row.layout.tensor = 4;
  row.layout.pipeline = 2;
  row.layout.virtual_pipeline = 2;
  row.layout.schedule = "1f1b";
  row.micro_batch = 2;
  row.global_batch = 128;
  row.sequence = 4096;
  row.recompute.granularity = "none";
  return row;
}

RowWords of_source(const char* source) {
  RowWords row = dense();
  row.source = source;
  return row;
}

RowWords moe() {
  RowWords row = dense();
  row.model.ffn = 0;
  row.model.experts = 64;
  row.model.top_k = 6;
  row.model.expert_ffn = 1408;
  row.model.moe_every = 1;
  row.layout.expert = 8;
  return row;
}

constexpr const char* kTable = "NVIDIA-NeMo/Megatron-Bridge@0:docs/performance-summary-archive.md";
constexpr const char* kSkill = "NVIDIA-NeMo/Megatron-Bridge@0:skills/x/SKILL.md";

TimedRun run(const RowWords& row) {
  const RowRun made = run_of(row);
  EXPECT_EQ(made.refused, "");
  return made.run;
}

bool has_note(const RowWords& row, std::string_view beginning) {
  const RowRun made = run_of(row);
  EXPECT_EQ(made.refused, "");
  return std::ranges::any_of(made.notes, [&](const std::string& note) { return note.starts_with(beginning); });
}

TEST(RowRunTest, ArgumentsAreTakenAsTheyStand) {
  const RowRun made = run_of(dense());
  EXPECT_EQ(made.refused, "");
  EXPECT_TRUE(made.notes.empty()) << made.notes.front();
  EXPECT_EQ(made.software, "megatron-core");
  const TimedRun& run = made.run;
  EXPECT_EQ(run.model.layers, 32);
  EXPECT_EQ(run.model.kv_heads, 8);
  EXPECT_EQ(run.tensor, 4);
  EXPECT_EQ(run.pipeline, 2);
  EXPECT_EQ(run.virtual_pipeline, 2);
  EXPECT_EQ(run.context, 1);
  EXPECT_EQ(run.data, 8);
  EXPECT_EQ(run.expert, 1);
  EXPECT_EQ(run.expert_tensor, 1);
  EXPECT_EQ(run.sharded, 1);
  EXPECT_EQ(run.precision, Precision::bf16);
  EXPECT_EQ(run.micro_batches(), 8);
  EXPECT_EQ(run.recomputed, Recomputed{});
  EXPECT_TRUE(run.is_sequence_parallel);  // as Megatron-Core is where tensor parallel
  EXPECT_EQ(run.reduced_bytes, 4);
  EXPECT_EQ(run.network_share, 1);
  EXPECT_EQ(run.fused_vector_share, 1);
}

TEST(RowRunTest, WidthsThatAreLeftOutFollowFromOthers) {
  RowWords row = dense();
  row.model.kv_heads = row.model.head_dim = row.model.vocabulary = 0;
  EXPECT_EQ(run(row).model.kv_heads, 32);
  EXPECT_EQ(run(row).model.head_dim, 128);
  EXPECT_EQ(run(row).model.vocabulary, 32000);
  EXPECT_TRUE(has_note(row, "vocabulary not stated"));
}

TEST(RowRunTest, SequenceParallelismIsTheRowsElseTheSoftwares) {
  RowWords row = dense();
  row.layout.is_sequence_parallel = false;
  EXPECT_FALSE(run(row).is_sequence_parallel);
  row.layout.is_sequence_parallel.reset();
  row.layout.tensor = 1;
  EXPECT_FALSE(run(row).is_sequence_parallel);
  row = of_source("mosaicml/llm-foundry@0:x");
  EXPECT_FALSE(run(row).is_sequence_parallel);
}

TEST(RowRunTest, WindowsAlternateOrAreThePublishedOnes) {
  RowWords row = dense();
  row.model.window = 128;
  EXPECT_EQ(run(row).model.window, 128);
  EXPECT_FALSE(run(row).model.alternates_window);
  row.model.window_every = 2;
  EXPECT_TRUE(run(row).model.alternates_window);
  EXPECT_TRUE(has_note(row, "windows alternate"));
  row = dense();
  row.model.name = "Mistral-7B";
  EXPECT_EQ(run(row).model.window, 4096);
  EXPECT_TRUE(has_note(row, "window of attention from"));
}

TEST(RowRunTest, AttentionIsCausalSaveInBert) {
  RowWords row = dense();
  EXPECT_TRUE(run(row).model.is_causal);
  row.model.name = "bert_mcore_tp1_pp2";
  EXPECT_FALSE(run(row).model.is_causal);
}

// ---- experts --------------------------------------------------------------------------------------------------------

TEST(RowRunTest, LayersWithExpertsAreCounted) {
  EXPECT_EQ(run(moe()).model.moe_layers, 32);
  RowWords row = moe();
  row.model.ffn = 8192;
  row.model.dense_layers = 3;
  EXPECT_EQ(run(row).model.moe_layers, 29);
  row.model.moe_every = 2;
  EXPECT_EQ(run(row).model.moe_layers, 14);
  row.model.dense_layers = row.model.moe_every = -1;
  EXPECT_EQ(run(row).model.moe_layers, 32);
  EXPECT_TRUE(has_note(row, "which layers have experts"));
}

TEST(RowRunTest, ExpertTensorParallelismIsTpWhereExpertsFitWithoutIt) {
  EXPECT_EQ(run(moe()).expert_tensor, 4);
  RowWords row = moe();
  row.layout.expert = 32;  // dp x cp is 8
  EXPECT_EQ(run(row).expert_tensor, 1);
  row.layout.expert = 8;
  row.layout.expert_tensor = 2;
  EXPECT_EQ(run(row).expert_tensor, 2);
  RowWords plain = dense();
  plain.layout.expert_tensor = 4;
  EXPECT_EQ(run(plain).expert_tensor, 1);
}

TEST(RowRunTest, MultiTokenPredictionEvensTheStages) {
  RowWords row = moe();
  row.model.mtp_layers = 1;
  EXPECT_EQ(run(row).model.mtp_layers, 1);
  EXPECT_TRUE(run(row).is_even);
  EXPECT_FALSE(run(moe()).is_even);
}

TEST(RowRunTest, DispatchersDecideWhatANodeGetsAndWhatIsLaunched) {
  RowWords row = moe();
  row.source = kTable;
  EXPECT_TRUE(run(row).sends_once_a_node);
  EXPECT_EQ(run(row).more_moe_launches, 0);
  row.source = kSkill;
  EXPECT_FALSE(run(row).sends_once_a_node);
  EXPECT_EQ(run(row).more_moe_launches, 75);
  row.overlap.dispatcher = "alltoall";
  EXPECT_FALSE(run(row).sends_once_a_node);
  EXPECT_EQ(run(row).more_moe_launches, 60);
  for (const char* once : {"hybridep", "deepep", "flex"}) {
    row.overlap.dispatcher = once;
    EXPECT_TRUE(run(row).sends_once_a_node) << once;
  }
  row.overlap.dispatcher_cores = 32;
  EXPECT_EQ(run(row).more_moe_launches, 0);
  row.overlap.captured = {"moe_router", "moe_preprocess"};
  EXPECT_EQ(run(row).more_moe_launches, -15);
  EXPECT_FALSE(has_note(row, "CUDA graphs"));
  row.overlap.captured.emplace_back("attn");
  EXPECT_TRUE(has_note(row, "CUDA graphs"));
  EXPECT_EQ(run(moe()).more_moe_launches, 0);
}

TEST(RowRunTest, ExpertOverlapHidesItsMeasuredShare) {
  RowWords row = moe();
  EXPECT_EQ(run(row).expert_hidden, 0);
  row.overlap.is_expert = true;
  EXPECT_DOUBLE_EQ(run(row).expert_hidden, 0.37);
  row.overlap.is_moe = true;
  EXPECT_TRUE(has_note(row, "overlap of the exchange between experts"));
}

// ---- layout ---------------------------------------------------------------------------------------------------------

TEST(RowRunTest, WeightsThatNoDeviceHoldsAreSharded) {
  RowWords row = of_source("NVIDIA/dgxc-benchmarking@0:llama/README.md");
  row.model = {.name = "llama2-70b", .layers = 80, .hidden = 8192, .ffn = 28672, .heads = 64, .kv_heads = 8};
  row.model.is_gated = true;
  row.model.vocabulary = 32000;
  row.layout = {};
  EXPECT_EQ(run(row).sharded, 64);
  EXPECT_TRUE(has_note(row, "weights cannot be held whole"));
  row.layout.tensor = 2;  // 69 GB
  EXPECT_EQ(run(row).sharded, 1);
  EXPECT_FALSE(has_note(row, "weights cannot be held whole"));
}

TEST(RowRunTest, ShardingSaysHowOftenWeightsAreGathered) {
  RowWords row = of_source("mosaicml/llm-foundry@0:x");
  row.layout.sharded = 8;
  row.layout.sharding = "zero3";
  EXPECT_EQ(run(row).sharded, 8);
  EXPECT_FALSE(run(row).gathers_once);
  for (const char* once : {"hsdp", "grad_op"}) {
    row.layout.sharding = once;
    EXPECT_TRUE(run(row).gathers_once) << once;
  }
  row.layout.sharding = "zero3";
  row.id = "foundry/x/SHARD_GRAD_OP/y";
  EXPECT_TRUE(run(row).gathers_once);
}

TEST(RowRunTest, GradientsAreReducedInBf16WhereTheSourceDoes) {
  for (const char* source : {"pytorch/torchtitan@0:x", "foundation-model-stack/fms-fsdp@0:x", kTable})
    EXPECT_EQ(run(of_source(source)).reduced_bytes, 2) << source;
  RowWords row = of_source("mosaicml/llm-foundry@0:x");
  EXPECT_EQ(run(row).reduced_bytes, 4);
  row.id = "foundry/x/ac0/PURE@2024-04";
  EXPECT_EQ(run(row).reduced_bytes, 2);
}

TEST(RowRunTest, RecipesOfNemoInterleaveWhereTheTablePrintsOne) {
  for (const char* source : {"NVIDIA/dgxc-benchmarking@0:x", "NVIDIA/NeMo@0:x"}) {
    RowWords row = of_source(source);
    EXPECT_EQ(run(row).virtual_pipeline, 2);
    row.layout.virtual_pipeline = 1;
    EXPECT_EQ(run(row).virtual_pipeline, 16);
    EXPECT_TRUE(has_note(row, "interleaving is in the recipe"));
    row.layout.pipeline = 1;
    EXPECT_EQ(run(row).virtual_pipeline, 1);
  }
  RowWords other = dense();
  other.layout.virtual_pipeline = 1;
  EXPECT_EQ(run(other).virtual_pipeline, 1);
}

TEST(RowRunTest, OptimizerStateSpansWhatTheRowSays) {
  RowWords row = dense();
  EXPECT_EQ(run(row).optimizer_span, 0);
  row.layout.optimizer_span = 8;
  EXPECT_EQ(run(row).optimizer_span, 8);
  row.layout.shards_optimizer = false;
  EXPECT_TRUE(has_note(row, "optimizer state is held whole"));
}

TEST(RowRunTest, ClustersHaveLessBetweenNodesThanTheDeviceFile) {
  EXPECT_EQ(run(of_source("VIA-Research/vTrain@0:data/ground_truth_multi.csv")).network_share, 0.5);
  EXPECT_EQ(run(of_source("VIA-Research/vTrain@0:data/ground_truth_single.csv")).network_share, 1);
  EXPECT_EQ(run(of_source("InternLM/InternEvo@0:x")).network_share, 0.25);
  RowWords row = of_source("pytorch/torchtitan@0:x");
  EXPECT_EQ(run(row).network_share, 1);
  row.device = "a100-80g";
  EXPECT_EQ(run(row).network_share, 0.5);
}

// ---- recompute ------------------------------------------------------------------------------------------------------

struct RecomputeCase {
  const char* granularity;
  double share;
  bool is_half_of_products = false;
};

TEST(RowRunTest, RecomputeByGranularity) {
  for (const RecomputeCase& at :
       {RecomputeCase{"none", 0}, RecomputeCase{"False", 0}, RecomputeCase{"", 0}, RecomputeCase{"minimal_flash", 0},
        RecomputeCase{"full", 1}, RecomputeCase{"selective-layer", 0.5}, RecomputeCase{"selective-op", 0, true},
        RecomputeCase{"[4, 4]", 0.25}, RecomputeCase{"[0, 0]", 0}, RecomputeCase{"[900]", 1}, RecomputeCase{"[-4]", 0},
        RecomputeCase{"[4, x]", 0}, RecomputeCase{"[99999999999999999999]", 0}}) {
    RowWords row = dense();
    row.recompute.granularity = at.granularity;
    EXPECT_EQ(run(row).recomputed.is_half_of_products, at.is_half_of_products) << at.granularity;
    EXPECT_TRUE(run(row).recomputed.modules.empty()) << at.granularity;
    EXPECT_DOUBLE_EQ(run(row).recomputed.layers, at.share) << at.granularity;
  }
}

TEST(RowRunTest, BlocksAreLayersOfEachChunk) {
  RowWords row = dense();
  row.recompute.granularity = "full";
  row.recompute.method = "block";
  row.recompute.layers = 4;  // of 8 in each of 2 x 2 chunks
  EXPECT_DOUBLE_EQ(run(row).recomputed.layers, 0.5);
  row.recompute.layers = 48;
  EXPECT_DOUBLE_EQ(run(row).recomputed.layers, 1);
  row.recompute.method = "uniform";
  row.recompute.layers = 1;
  EXPECT_DOUBLE_EQ(run(row).recomputed.layers, 1);
}

TEST(RowRunTest, ModulesAreTheRowsOrMegatronsDefault) {
  RowWords row = dense();
  row.recompute.granularity = "selective";
  const auto modules = [&row] { return run(row).recomputed.modules; };
  EXPECT_EQ(modules(), (std::vector<RecomputedModule>{{"core_attn"}}));
  EXPECT_TRUE(has_note(row, "modules recomputed not stated"));
  row.recompute.modules.emplace();  // an empty list says that none is
  EXPECT_TRUE(modules().empty());
  row.recompute.modules = {"mlp", "everything"};
  EXPECT_EQ(modules(), (std::vector<RecomputedModule>{{"mlp"}, {"everything"}}));
  EXPECT_TRUE(has_note(row, "recompute of 'everything' is not priced"));
  row.recompute = {.modules = {}, .is_activation_recomputed = true};
  EXPECT_EQ(modules(), (std::vector<RecomputedModule>{{"activation"}}));
  EXPECT_FALSE(has_note(row, "'activation'"));
  row.recompute = {.granularity = "selective", .modules = std::vector<std::string>{"mlp", "everything"}};
  EXPECT_FALSE(has_note(row, "recompute of 'mlp'"));
}

// ---- overlap and documents ------------------------------------------------------------------------------------------

TEST(RowRunTest, TensorTrafficIsHiddenAsTheRowOrTheRecipeHides) {
  RowWords row = of_source("NVIDIA/NeMo@0:x");
  EXPECT_DOUBLE_EQ(run(row).tensor_hidden, 0.75);
  row.layout.task = "sft";
  EXPECT_DOUBLE_EQ(run(row).tensor_hidden, 0);
  row.overlap.is_fused_tensor = true;
  EXPECT_DOUBLE_EQ(run(row).tensor_hidden, 0.7);
  row.overlap.is_async_tensor = true;
  EXPECT_DOUBLE_EQ(run(row).tensor_hidden, 0.6);
  EXPECT_DOUBLE_EQ(run(dense()).tensor_hidden, 0);
  RowWords compiled = dense();
  compiled.overlap.is_compiled = true;
  EXPECT_DOUBLE_EQ(run(compiled).fused_vector_share, 0.6);
}

TEST(RowRunTest, PackedDocumentsAreShorterThanTheSequence) {
  RowWords row = dense();
  EXPECT_EQ(run(row).document, 0);
  for (const bool is_named : {true, false}) {
    RowWords packed = row;
    if (is_named)
      packed.id = "mindspeed/x/tune_full_pack_16k/y";
    else
      packed.layout.task = "sft";
    EXPECT_EQ(run(packed).document, 1024);
    packed.sequence = 512;
    EXPECT_EQ(run(packed).document, 512);
    EXPECT_TRUE(has_note(packed, "packed documents of unknown length"));
    EXPECT_FALSE(has_note(packed, "packed documents under context parallelism"));
  }
}

TEST(RowRunTest, ContextParallelismPaysForPackedDocumentsAsForOne) {
  RowWords row = dense();
  row.id = "mindspeed/x/tune_full_pack_16k/y";
  row.layout.context = 2;
  EXPECT_EQ(run(row).document, 0);
  EXPECT_TRUE(has_note(row, "packed documents under context parallelism"));
  EXPECT_FALSE(has_note(row, "packed documents of unknown length"));
}

// ---- notes ----------------------------------------------------------------------------------------------------------

struct NoteCase {
  const char* beginning;
  std::function<void(RowWords&)> change;
};

TEST(RowNotes, SayWhatIsNotPriced) {
  const std::vector<NoteCase> cases = {
      {"LoRA", [](RowWords& row) { row.layout.task = "lora"; }},
      {"mxfp8: priced by its peak", [](RowWords& row) { row.precision = "mxfp8"; }},
      {"nvfp4: priced by its peak", [](RowWords& row) { row.precision = "nvfp4"; }},
      {"fp8 with scales by rows", [](RowWords& row) { row.precision = "fp8row"; }},
      {"attention without the fused kernel", [](RowWords& row) { row.has_fused_attention = false; }},
      {"pipeline schedule", [](RowWords& row) { row.layout.schedule = "zbv"; }},
      {"global batch is no whole number", [](RowWords& row) { row.global_batch = 129; }},
      {"recompute not stated", [](RowWords& row) { row.recompute.granularity.clear(); }},
      {"recompute 'minimal_flash'", [](RowWords& row) { row.recompute.granularity = "minimal_flash"; }},
      {"recompute '[-4]'", [](RowWords& row) { row.recompute.granularity = "[-4]"; }},
      {"layers recomputed differ", [](RowWords& row) { row.recompute.granularity = "[4, 2]"; }},
      {"recompute of chosen operators", [](RowWords& row) { row.recompute.select = "[1,0]"; }},
      {"overlap of tensor parallel", [](RowWords& row) { row.overlap.is_tensor = true; }},
      {"gradients are not exchanged", [](RowWords& row) { row.overlap.is_gradient_reduce = false; }},
      {"deterministic kernels", [](RowWords& row) { row.overlap.is_deterministic = true; }},
  };
  for (const NoteCase& at : cases) {
    RowWords row = dense();
    EXPECT_FALSE(has_note(row, at.beginning)) << at.beginning;
    at.change(row);
    EXPECT_TRUE(has_note(row, at.beginning)) << at.beginning;
    EXPECT_EQ(run_of(row).notes.size(), 1U) << at.beginning;
  }
}

TEST(RowNotes, QuoteNoMoreThanTheBeginningOfAWord) {
  RowWords row = dense();
  row.recompute.granularity = std::string(5000, 'x');
  EXPECT_TRUE(has_note(row, "recompute 'xxx"));
  EXPECT_LT(run_of(row).notes.front().size(), 100U);
}

// ---- refusals -------------------------------------------------------------------------------------------------------

struct RefusalCase {
  const char* reason;
  std::function<void(RowWords&)> change;
};

TEST(RowRefusals, SayTheReason) {
  const std::vector<RefusalCase> cases = {
      {"software not known", [](RowWords& row) { row.source = "somebody/else"; }},
      {"precision not known", [](RowWords& row) { row.precision = "fp32"; }},
      {"precision not known", [](RowWords& row) { row.precision = ""; }},
      {"model without layers (hybrid or not described)", [](RowWords& row) { row.model.layers = 0; }},
      {"model without layers (hybrid or not described)", [](RowWords& row) { row.model = {.name = "hybrid"}; }},
      {"attention heads not stated", [](RowWords& row) { row.model.heads = 0; }},
      {"width of a head not stated",
       [](RowWords& row) {
         row.model.head_dim = 0;
         row.model.hidden = 16;
       }},
      {"latent attention without its widths", [](RowWords& row) { row.model.mla = TimedMla{.kv_lora = 512}; }},
      {"attention soft cap: the attention kernel is not the fused one",
       [](RowWords& row) { row.model.name = "Gemma2-9B"; }},
      {"feed-forward width not stated", [](RowWords& row) { row.model.ffn = 0; }},
      {"mixture of experts without the experts of a token or their width",
       [](RowWords& row) { row.model.experts = 8; }},
      {"more experts a token than experts",
       [](RowWords& row) {
         row.model.experts = 2;
         row.model.top_k = 4;
         row.model.expert_ffn = 512;
       }},
      {"more dense layers than layers",
       [](RowWords& row) {
         row.model.experts = 8;
         row.model.top_k = 2;
         row.model.expert_ffn = 512;
         row.model.dense_layers = 33;
       }},
      {"micro-batch size not stated", [](RowWords& row) { row.micro_batch = 0; }},
      {"global batch not stated", [](RowWords& row) { row.global_batch = 0; }},
      {"sequence length not stated", [](RowWords& row) { row.sequence = 0; }},
      {"number of devices not stated", [](RowWords& row) { row.devices = 0; }},
      {"tp x pp x cp does not divide the devices", [](RowWords& row) { row.layout.context = 3; }},
      {"tp x pp x cp does not divide the devices", [](RowWords& row) { row.devices = 4; }},
      {"global batch smaller than one micro-batch a replica", [](RowWords& row) { row.global_batch = 15; }},
      {"ep x etp does not divide the devices of a stage",
       [](RowWords& row) {
         row.model.experts = 64;
         row.model.top_k = 2;
         row.model.expert_ffn = 512;
         row.layout.expert = 64;
       }},
      {"ranks of fully sharded weights do not divide dp x cp", [](RowWords& row) { row.layout.sharded = 3; }},
      {"share of layers recomputed not printed",
       [](RowWords& row) {
         row.source = "foundation-model-stack/fms-fsdp@0:README.md";
         row.recompute.granularity = "selective";
       }},
      {"rematerialisation policy not stated",
       [](RowWords& row) {
         row.source = "NVIDIA/JAX-Toolbox@0:pax.md";
         row.recompute.granularity.clear();
       }},
      {"layers of a block recomputed not stated",
       [](RowWords& row) {
         row.recompute.granularity = "full";
         row.recompute.method = "block";
       }},
      {"activation swap is not priced here",
       [](RowWords& row) {
         row.source = "MindSpeed-LLM tests/**@0:x";
         row.id = "ci-ascend/llama2_swap/x";
       }},
  };
  for (const RefusalCase& at : cases) {
    RowWords row = dense();
    at.change(row);
    EXPECT_EQ(run_of(row).refused, at.reason);
    EXPECT_TRUE(run_of(row).notes.empty()) << at.reason;
  }
}

TEST(RowRefusals, KeepTheNameOfTheSoftware) {
  RowWords row = dense();
  row.micro_batch = 0;
  EXPECT_EQ(run_of(row).software, "megatron-core");
}

TEST(RowRefusals, ASwapElsewhereIsAWordLikeOthers) {
  RowWords row = dense();
  row.id = "ci/swap/x";
  EXPECT_EQ(run_of(row).refused, "");
}

TEST(Precisions, AreThoseThatArePriced) {
  EXPECT_EQ(precision_of("bf16"), Precision::bf16);
  EXPECT_EQ(precision_of("fp16"), Precision::fp16);
  EXPECT_EQ(precision_of("fp8"), Precision::fp8);
  EXPECT_EQ(precision_of("fp8row"), Precision::fp8);
  EXPECT_EQ(precision_of("mxfp8"), Precision::mxfp8);
  EXPECT_EQ(precision_of("nvfp4"), Precision::nvfp4);
  EXPECT_FALSE(precision_of("tf32").has_value());
  EXPECT_FALSE(precision_of("BF16").has_value());
}

}  // namespace
}  // namespace tidemark::step_time
