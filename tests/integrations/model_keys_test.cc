// Keys of newer models and layouts: read where they are planned, refused in one line that names them where they are
// not.

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "integrations/formats/import_yaml.h"

namespace tidemark::formats {
namespace {

using graph_build::JobSpec;
using graph_build::LayerKind;
using graph_build::ParallelSpec;

/// A small job; each case puts lines in.
struct Draft {
  std::string layers = "[dense, moe x3]";
  std::string model = "";      ///< lines of `model`
  std::string attention = "";  ///< lines of `model.attention`
  std::string moe = "";
  std::string parallel = "";
  std::string precision = "";

  [[nodiscard]] std::string text() const {
    return "model:\n  name: keys\n  hidden: 256\n  vocabulary: 1024\n  sequence: 512\n  dense_width: 512\n  layers: " +
           layers + "\n" + model + "  attention:\n    kind: gqa\n    heads: 8\n    kv_heads: 4\n    head_dim: 64\n" +
           attention + "  moe:\n    experts: 8\n    top_k: 2\n    width: 128\n    shared_width: 128\n" + moe +
           "parallel:\n  micro_batch: 1\n  global_batch: 16\n  data: 4\n" + parallel +
           (precision.empty() ? "" : "precision:\n" + precision) + "device: h100-80g\n";
  }
};

JobSpec read(const Draft& draft) {
  const Result<JobSpec> job = read_job(draft.text(), "j");
  EXPECT_TRUE(job.ok()) << (job.ok() ? "" : job.error().message);
  return job.ok() ? job.value() : JobSpec{};
}

/// The refusal, with the text of its line in the place of the number.
std::string refusal(const Draft& draft) {
  const std::string text = draft.text();
  const Result<JobSpec> job = read_job(text, "j");
  if (job.ok()) return "it was read";
  const std::string& message = job.error().message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  std::size_t begin = 0;
  for (int line = std::stoi(message.substr(2)); line > 1; --line) begin = text.find('\n', begin) + 1;
  std::string key = text.substr(begin, text.find(':', begin) - begin);
  key.erase(0, key.find_first_not_of(' '));
  return key + message.substr(message.find(": "));
}

TEST(ModelKeys, OfAttentionAreRead) {
  const JobSpec job =
      read({.model = "  activation: geglu\n",
            .attention = "    qk_norm: true\n    qkv_bias: true\n    window: 128\n    global_every: 2\n",
            .moe = "    shared_gate: true\n"});
  EXPECT_TRUE(job.model.attention.qk_norm && job.model.attention.qkv_bias && job.model.moe.shared_gate);
  EXPECT_EQ(job.model.attention.window, 128);
  EXPECT_EQ(job.model.activation, graph_build::Activation::geglu);
  EXPECT_TRUE(job.model.is_windowed(0));
  EXPECT_FALSE(job.model.is_windowed(1));
  EXPECT_TRUE(job.model.is_windowed(2));
  EXPECT_FALSE(job.model.is_windowed(3));
  EXPECT_FALSE(job.model.is_windowed(4)) << "an MTP module does as the last layer";
}

TEST(ModelKeys, LayersMayBeAPattern) {
  const LayerKind d = LayerKind::dense, m = LayerKind::moe;
  EXPECT_EQ(read({.layers = "{repeat: 2, of: [dense, moe]}"}).model.layers, (std::vector{d, m, d, m}));
  EXPECT_EQ(read({.layers = "[dense, {repeat: 2, of: [moe x2, dense]}, moe]"}).model.layers,
            (std::vector{d, m, m, d, m, m, d, m}));
  for (const char* wrong : {"{repeat: 2}", "{repeat: 2, of: dense}", "{repeat: 2, of: [moe], moe: 3}"})
    EXPECT_EQ(refusal({.layers = wrong}),
              "layers: a pattern of layers is a section; write like {repeat: 24, of: [dense, moe]}")
        << wrong;
  for (const char* wrong : {"{repeat: 0, of: [moe]}", "{repeat: x, of: [moe]}", "{repeat: 99999, of: [moe x2]}",
                            "{repeat: 9223372036854775807, of: [moe]}", "{repeat: 2, of: []}"})
    EXPECT_EQ(refusal({.layers = wrong}),
              "layers: repeat is no whole number of times from 1 up to 100000 layers; write like {repeat: 24, of: "
              "[dense, moe]}")
        << wrong;
  EXPECT_EQ(refusal({.layers = "{repeat: 2, of: [{repeat: 2, of: [moe]}]}"}),
            "layers: an entry of layers is a section; write like [dense x3, moe x58]");
}

TEST(ModelKeys, OfShardingAreRead) {
  for (const int zero : {0, 1, 2, 3}) {
    const ParallelSpec parallel = read({.parallel = "  zero: " + std::to_string(zero) + "\n"}).parallel;
    EXPECT_EQ(parallel.distributed_optimizer, zero >= 1);
    EXPECT_EQ(parallel.sharded_gradients, zero >= 2);
    EXPECT_EQ(parallel.sharded_parameters, zero == 3);
    EXPECT_EQ(parallel.parameter_bytes, 2);
    EXPECT_EQ(parallel.optimizer_bytes, 12);
  }
  EXPECT_FALSE(read({.parallel = "  distributed_optimizer: false\n"}).parallel.distributed_optimizer);
}

TEST(ModelKeys, Fsdp2KeepsItsWeightsInFp32AsTheMasterCopy) {
  const ParallelSpec parallel = read({.parallel = "  fsdp2: true\n"}).parallel;
  EXPECT_TRUE(parallel.distributed_optimizer && parallel.sharded_gradients && parallel.sharded_parameters);
  EXPECT_EQ(parallel.parameter_bytes, 4);
  EXPECT_EQ(parallel.optimizer_bytes, 8);
  const ParallelSpec other =
      read({.parallel = "  fsdp2: true\n", .precision = "  parameters: bf16\n  optimizer: {moments: bf16}\n"}).parallel;
  EXPECT_EQ(other.parameter_bytes, 2);
  EXPECT_EQ(other.optimizer_bytes, 4);
  EXPECT_EQ(
      read({.parallel = "  fsdp2: true\n", .precision = "  optimizer: {master: fp32}\n"}).parallel.optimizer_bytes, 12);
}

TEST(ModelKeys, OfComputeIsRead) {
  EXPECT_EQ(read({.precision = "  compute: fp8\n"}).parallel.compute, ParallelSpec::Compute::fp8);
  EXPECT_EQ(read({.precision = "  compute: bf16\n"}).parallel.compute, ParallelSpec::Compute::bf16);
  EXPECT_EQ(read({.parallel = "  context_kind: all_gather\n"}).parallel.context_kind,
            ParallelSpec::ContextKind::all_gather);
}

TEST(ModelKeys, ThatAreNotPlannedAreRefusedByName) {
  const std::string mamba = "  mamba:\n    heads: 8\n    head_dim: 64\n    state_dim: 16\n";
  const std::string linear =
      "  linear_attention:\n    key_heads: 4\n    key_dim: 32\n    value_heads: 8\n    value_dim: 32\n";
  EXPECT_EQ(refusal({.layers = "[moe, mamba_moe x3]", .model = mamba}),
            "layers: layer 1 has a state-space mixer (mamba), which is described and counted but not planned; plan a "
            "model whose layers are dense or moe");
  EXPECT_EQ(refusal({.layers = "[dense x2, moe, linear_dense]", .model = linear}),
            "layers: layer 3 has a mixer of linear attention, which is described and counted but not planned; plan a "
            "model whose layers are dense or moe");
  for (const std::string kind : {"ring", "ulysses"})
    EXPECT_EQ(refusal({.parallel = "  context: 2\n  context_kind: " + kind + "\n"}),
              "context_kind: context_kind " + kind +
                  " is not planned; plan with all_gather, which holds the keys and values of all context ranks");
  EXPECT_EQ(refusal({.parallel = "  zero: 3\n  pipeline: 2\n"}),
            "zero: `parallel.zero: 3`, or `parallel.fsdp2: true`, with pipeline 2 is not planned, where every "
            "micro-batch would gather all layers again; use "
            "pipeline 1, or zero 2");
  EXPECT_EQ(refusal({.parallel = "  pipeline: 2\n  fsdp2: true\n"}),
            "fsdp2: `parallel.zero: 3`, or `parallel.fsdp2: true`, with pipeline 2 is not planned, where every "
            "micro-batch would gather all layers again; use pipeline 1, or zero 2")
      << "at the key that is there";
  EXPECT_EQ(refusal({.parallel = "  fsdp2: false\n  pipeline: 2\n  zero: 3\n"}).find("zero: "), 0U);
  Draft heads;
  std::string text = heads.text();
  text.replace(text.find("heads: 8"), 8, "heads: [8, 4]");
  EXPECT_EQ(read_job(text, "j").error().message,
            "j:10: heads is a list; head counts by layer are not planned, write one number like 16 for all layers");
}

TEST(ModelKeys, OfContextSayNothingOfOneRank) {
  for (const std::string kind : {"ring", "ulysses"})
    EXPECT_EQ(read({.parallel = "  context: 1\n  context_kind: " + kind + "\n"}).parallel.context, 1) << kind;
}

TEST(ModelKeys, ThatContradictOthersAreRefused) {
  EXPECT_EQ(refusal({.attention = "    global_every: 6\n"}),
            "global_every: global_every is given without a window; write how many keys a query of the other layers "
            "attends to, like window: 1024");
  EXPECT_EQ(refusal({.attention = "    window: 128\n    global_every: 1\n"}),
            "global_every: global_every is 1, so that no layer has the window; drop both, or write 2 or more");
  EXPECT_EQ(refusal({.attention = "    window: -1\n"}), "window: window is -1; it must be 0 to 134217728");
  EXPECT_EQ(refusal({.parallel = "  zero: 4\n"}), "zero: zero is 4; it must be 0 to 3");
  EXPECT_EQ(refusal({.parallel = "  zero: 2\n  distributed_optimizer: true\n"}),
            "distributed_optimizer: distributed_optimizer has no meaning here: `zero` says it: 0 for false, 1 for "
            "true; drop one");
  EXPECT_EQ(refusal({.parallel = "  zero: 2\n  fsdp2: true\n"}),
            "zero: zero has no meaning here: `fsdp2` shards as zero 3 does; drop one of the two");
  EXPECT_EQ(refusal({.model = "  mamba:\n    heads: 8\n"}),
            "mamba: mamba has no meaning here: no layer has it; drop it, or name the layers, like layers: [mamba_moe "
            "x9, moe]");
  std::string text = Draft{.moe = "    shared_gate: true\n"}.text();
  text.erase(text.find("    shared_width: 128\n"), 22);
  EXPECT_NE(read_job(text, "j").error().message.find("shared_gate is true but there are no shared experts"),
            std::string::npos);
}

TEST(ModelKeys, OfHybridsAreReadForTheirDescription) {
  const std::string text = Draft{.layers = "[mamba_moe x3, moe, linear_dense]",
                                 .model =
                                     "  mamba: {heads: 8, head_dim: 64, state_dim: 16, groups: 2, convolution: 3}\n"
                                     "  linear_attention: {key_heads: 4, key_dim: 32, value_heads: 8, value_dim: 16}\n"}
                               .text();
  const Result<JobSpec> job = read_described_job(text, "j");
  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_EQ(job.value().model.mamba,
            (graph_build::MambaSpec{.heads = 8, .head_dim = 64, .state_dim = 16, .groups = 2, .convolution = 3}));
  EXPECT_EQ(job.value().model.linear_attention,
            (graph_build::LinearAttentionSpec{.key_heads = 4, .key_dim = 32, .value_heads = 8, .value_dim = 16}));
  EXPECT_EQ(job.value().model.layers.back(), LayerKind::linear_dense);
  EXPECT_FALSE(read_job(text, "j").ok());
  EXPECT_NE(read_described_job(Draft{.layers = "[mamba_moe]"}.text(), "j").error().message.find("mamba"),
            std::string::npos)
      << "the section is required";
}

}  // namespace
}  // namespace tidemark::formats
