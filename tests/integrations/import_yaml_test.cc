// Reading descriptions: the shipped files, the whole schema, and every kind of bad input with its line and text.

#include "integrations/formats/import_yaml.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "planner/graph_build/layer_placement.h"
#include "tests/support/data.h"
#include "tests/support/devices.h"

namespace tidemark {
namespace {

using testing::source_path;
using testing::text_of;
using namespace tidemark::literals;

std::string shipped(std::string_view name) {
  return text_of(source_path(name));
}

graph_build::JobSpec job_from(std::string_view text) {
  const Result<graph_build::JobSpec> job = formats::read_job(text, "job.yaml");
  EXPECT_TRUE(job.ok()) << (job.ok() ? "" : job.error().message);
  return job.ok() ? job.value() : graph_build::JobSpec{};
}

Machine machine_from(std::string_view text) {
  const Result<Machine> machine = formats::read_machine(text, "device.yaml", testing::shipped_chips());
  EXPECT_TRUE(machine.ok()) << (machine.ok() ? "" : machine.error().message);
  return machine.ok() ? machine.value() : Machine{};
}

/// A small valid job: every case below changes one thing in it.
const std::string kJob = R"(model:
  name: tiny
  hidden: 1024
  vocabulary: 32000
  sequence: 2048
  layers: {dense: 2, moe: 6}
  mtp_layers: 1
  dense_width: 4096
  attention:
    kind: mla
    heads: 16
    q_lora_rank: 384
    kv_lora_rank: 128
    qk_rope_dim: 32
    qk_nope_dim: 64
    v_head_dim: 64
  moe:
    experts: 16
    top_k: 4
    width: 512
parallel:
  tensor: 2
  sequence_parallel: true
  pipeline: 2
  virtual_pipeline: 2
  expert: 2
  data: 2
  micro_batch: 1
  global_batch: 16
precision:
  parameters: bf16
expert_load:
  mean: 1.0
device: ascend-910b-64g
)";

const std::string kDense = R"(model:
  name: tiny-dense
  hidden: 1024
  vocabulary: 32000
  sequence: 2048
  layers: {dense: 8}
  dense_width: 4096
  attention:
    kind: gqa
    heads: 16
    kv_heads: 4
    head_dim: 64
parallel:
  micro_batch: 1
  global_batch: 16
device: h100-80g
)";

/// `text` with the one occurrence of `from` replaced; the case is void if there is not exactly one.
std::string changed(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "nothing to change: " << from;
  if (at == std::string::npos) return text;
  EXPECT_EQ(text.find(from, at + 1), std::string::npos) << "more than one place to change: " << from;
  return text.replace(at, from.size(), to);
}

/// 1-based line on which `marker` first stands.
int line_with(std::string_view text, std::string_view marker) {
  const std::size_t at = text.find(marker);
  EXPECT_NE(at, std::string_view::npos) << "no line with " << marker;
  return 1 + static_cast<int>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size())), '\n'));
}

std::string error_of(const auto& result) {
  EXPECT_FALSE(result.ok());
  if (result.ok()) return "(no error)";
  EXPECT_EQ(result.error().code, Error::Code::bad_input);
  const std::string& message = result.error().message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << "one line only: " << message;
  return message;
}

struct BadCase {
  std::string_view name;
  std::string from, to;     ///< the change
  std::string_view marker;  ///< the message must name the line this stands on after the change
  std::string message;      ///< ... and continue with exactly this text
};

void PrintTo(const BadCase& bad, std::ostream* out) {
  *out << bad.name;
}
std::string case_name(const ::testing::TestParamInfo<BadCase>& info) {
  return std::string(info.param.name);
}

// ---- shipped files ------------------------------------------------------------------------------------------------

class ShippedJob : public ::testing::TestWithParam<const char*> {};

TEST_P(ShippedJob, IsReadAndNamesAShippedDevice) {
  const std::string path = std::string("models/") + GetParam() + ".yaml";
  const Result<graph_build::JobSpec> job = formats::read_job(shipped(path), path);
  ASSERT_TRUE(job.ok()) << job.error().message;
  EXPECT_EQ(job.value().model.name, GetParam());
  EXPECT_EQ(formats::read_described_job(shipped(path), path).value(), job.value());
  EXPECT_EQ(graph_build::find_problems(job.value()).size(), 0u);
  EXPECT_TRUE(std::filesystem::exists(source_path("devices/" + job.value().device + ".yaml")));
}

INSTANTIATE_TEST_SUITE_P(Models, ShippedJob,
                         ::testing::Values("pangu-ultra-moe-718b", "deepseek-v3-671b", "mixtral-8x7b", "llama-3-70b",
                                           "small-mla-moe", "qwen3-235b-a22b", "glm-4.5-355b-a32b", "kimi-k2-1t-a32b",
                                           "llama-4-maverick-400b-a17b", "gemma-3-27b", "deepseek-v3-671b-fp8",
                                           "llama-3-70b-zero3"));

TEST(ShippedFiles, OneModelIsDescribedAndNotPlanned) {
  const std::string path = "models/granite-4.0-h-small.yaml";
  const Result<graph_build::JobSpec> described = formats::read_described_job(shipped(path), path);
  ASSERT_TRUE(described.ok()) << described.error().message;
  EXPECT_EQ(described.value().model.name, "granite-4.0-h-small");
  const Result<graph_build::JobSpec> planned = formats::read_job(shipped(path), path);
  ASSERT_FALSE(planned.ok());
  EXPECT_EQ(planned.error().message.find("models/granite-4.0-h-small.yaml:16: layer 0 has a state-space mixer"), 0U)
      << planned.error().message;
}

TEST(ShippedFiles, AreAllNamedInTheseTests) {
  const auto count = [](const char* folder) {
    const std::filesystem::directory_iterator files(source_path(folder));
    return std::count_if(begin(files), end(files), [](const auto& file) { return file.path().extension() == ".yaml"; });
  };
  EXPECT_EQ(count("models"), 13);
  EXPECT_EQ(count("devices"), 4);
}

class ShippedDevice : public ::testing::TestWithParam<const char*> {};

TEST_P(ShippedDevice, IsReadAndEveryConstantHasAComment) {
  const std::string text = shipped(std::string("devices/") + GetParam() + ".yaml");
  EXPECT_EQ(machine_from(text).name, GetParam());
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool constant =
        line.starts_with("  ") && line.find_first_not_of(' ') != line.find('#') && line.find(':') != std::string::npos;
    EXPECT_TRUE(!constant || line.find('#') != std::string::npos) << "a constant without its source: " << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ShippedDevice,
                         ::testing::Values("ascend-910b-64g", "ascend-910c-64g", "h100-80g", "h200-141g"));

TEST(ShippedFiles, PanguIsTheReferenceJob) {
  const graph_build::JobSpec job = job_from(shipped("models/pangu-ultra-moe-718b.yaml"));
  const graph_build::ParallelSpec& parallel = job.parallel;
  EXPECT_EQ(parallel.devices(), 6144);
  EXPECT_EQ(parallel.micro_batches(), 64);
  EXPECT_EQ(parallel.expert_ranks(), 32);
  EXPECT_EQ(parallel.expert_data(), 12);
  EXPECT_EQ(job.model.layers.size(), 61u);
  EXPECT_EQ(job.model.layers[2], graph_build::LayerKind::dense);
  EXPECT_EQ(job.model.layers[3], graph_build::LayerKind::moe);
  EXPECT_EQ(job.model.norm, graph_build::NormPlacement::sandwich);
  EXPECT_TRUE(job.model.attention.v_own_storage);
  EXPECT_EQ(job.model.moe.probabilities, graph_build::MoeSpec::Probabilities::at_unpermute);
  EXPECT_TRUE(parallel.overlap_forward_backward);
  EXPECT_EQ(parallel.gradient_bytes, 4);
  EXPECT_EQ(parallel.optimizer_bytes, 12);
}

TEST(ShippedFiles, PanguReserveIsFourAndAHalfGiB) {
  const graph_build::JobSpec job = job_from(shipped("models/pangu-ultra-moe-718b.yaml"));
  const Machine machine = machine_from(shipped("devices/" + job.device + ".yaml"));
  EXPECT_EQ(
      machine.context_bytes + machine.workspace_bytes + job.parallel.communicators * machine.collective_buffer_bytes,
      4608_MiB);
  EXPECT_EQ(machine.visible_bytes, 65'466'039'009);  // 60.97 GiB, never 64
  EXPECT_EQ(machine.softmax_statistics_width, 8);
}

TEST(ShippedFiles, AscendRatesAreThoseOfTheFacts) {
  const Machine machine = machine_from(shipped("devices/ascend-910b-64g.yaml"));
  EXPECT_DOUBLE_EQ(machine.chip.sheet.peak(Precision::bf16), 313e12);
  EXPECT_DOUBLE_EQ(machine.d2h.bytes_per_s, 23.4e9);
  EXPECT_DOUBLE_EQ(machine.h2d.bytes_per_s, 23.4e9);
  EXPECT_DOUBLE_EQ(machine.d2h.latency_ns, 10'000);
}

TEST(TestData, HoldsTheMeasuredDeepSeekCase) {
  const graph_build::JobSpec job = job_from(shipped("tests/data/deepseek_v3_mcore_tp1_pp2_ep4.yaml"));
  EXPECT_EQ(job.parallel.devices(), 8);
  EXPECT_EQ(job.parallel.expert_data(), 1);
  EXPECT_TRUE(job.parallel.reuse_fp32_parameter);
  ASSERT_EQ(job.parallel.slots.size(), 2u);
  EXPECT_EQ(job.parallel.slots[1][0].size(), 3u);
  EXPECT_EQ(job.parallel.slots[1][0].back().kind, graph_build::Slot::Kind::mtp);
}

// ---- the schema ---------------------------------------------------------------------------------------------------

TEST(ReadJob, FillsEveryFieldFromItsOwnKey) {
  const graph_build::JobSpec job = job_from(R"(
model:
  name: all
  hidden: 512
  vocabulary: 1024
  sequence: 256
  layers: [dense, moe x2, dense x1]
  mtp_layers: 2
  activation: gelu
  norm: sandwich
  tied_embedding: true
  dense_width: 2048
  attention: {kind: mla, heads: 8, q_lora_rank: 96, kv_lora_rank: 64, qk_rope_dim: 16, qk_nope_dim: 32, v_head_dim: 24,
              v_own_storage: false, v_padded: true}
  moe: {experts: 32, top_k: 3, width: 128, shared_width: 256, router_fp32: false, probabilities: in_activation,
        capacity_factor: 1.25, capacity_level: device, pad_to_capacity: true}
parallel:
  tensor: 2
  sequence_parallel: true
  pipeline: 2
  virtual_pipeline: 2
  context: 2
  expert: 4
  tensor_extends_expert: true
  data: 6
  micro_batch: 3
  global_batch: 72
  overlap_forward_backward: true
  hierarchical_expert_communication: true
  expert_exchange_parts: 3
  distributed_optimizer: false
  communicators: 5
  framework_memory: 3MiB
  placement: {ranks: [[[0], [2, 3]], [[1, noop], [mtp, mtp 1]]], head_stage: 2}
precision: {parameters: fp16, gradients: bf16, optimizer: {master: fp32, moments: bf16}, reuse_fp32_parameter: true}
expert_load: {mean: 1.25, coefficient_of_variation: 0.5, layer_correlation: 0.75, popularity_share: 0.125, persistence: 0.5, quantile: 0.9, seed: 42}
device: some-device
)");
  const graph_build::JobSpec expected = {
      .model = {.name = "all",
                .hidden = 512,
                .vocabulary = 1024,
                .sequence = 256,
                .layers = {graph_build::LayerKind::dense, graph_build::LayerKind::moe, graph_build::LayerKind::moe,
                           graph_build::LayerKind::dense},
                .mtp_layers = 2,
                .attention = {.kind = graph_build::AttentionSpec::Kind::mla,
                              .heads = 8,
                              .q_lora_rank = 96,
                              .kv_lora_rank = 64,
                              .qk_rope_dim = 16,
                              .qk_nope_dim = 32,
                              .v_head_dim = 24,
                              .v_own_storage = false,
                              .v_padded = true},
                .activation = graph_build::Activation::gelu,
                .dense_width = 2048,
                .moe = {.experts = 32,
                        .top_k = 3,
                        .width = 128,
                        .shared_width = 256,
                        .router_fp32 = false,
                        .probabilities = graph_build::MoeSpec::Probabilities::in_activation,
                        .capacity_factor = 1.25,
                        .capacity_level = graph_build::MoeSpec::CapacityLevel::device,
                        .pad_to_capacity = true},
                .norm = graph_build::NormPlacement::sandwich,
                .tied_embedding = true},
      .parallel = {.tensor = 2,
                   .sequence_parallel = true,
                   .pipeline = 2,
                   .virtual_pipeline = 2,
                   .context = 2,
                   .expert = 4,
                   .tensor_extends_expert = true,
                   .data = 6,
                   .micro_batch = 3,
                   .global_batch = 72,
                   .overlap_forward_backward = true,
                   .hierarchical_expert_communication = true,
                   .expert_exchange_parts = 3,
                   .slots = {{{{graph_build::Slot::Kind::layer, 0}},
                              {{graph_build::Slot::Kind::layer, 2}, {graph_build::Slot::Kind::layer, 3}}},
                             {{{graph_build::Slot::Kind::layer, 1}, {graph_build::Slot::Kind::noop, -1}},
                              {{graph_build::Slot::Kind::mtp, 0}, {graph_build::Slot::Kind::mtp, 1}}}},
                   .head_stage = 2,
                   .parameter_bytes = 2,
                   .gradient_bytes = 2,
                   .optimizer_bytes = 8,
                   .distributed_optimizer = false,
                   .reuse_fp32_parameter = true,
                   .communicators = 5,
                   .framework_bytes = 3 * kMiB},
      .expert_load = {.mean = 1.25,
                      .coefficient_of_variation = 0.5,
                      .layer_correlation = 0.75,
                      .quantile = 0.9,
                      .seed = 42,
                      .popularity_share = 0.125,
                      .persistence = 0.5},
      .device = "some-device"};
  EXPECT_EQ(job.model, expected.model);
  EXPECT_EQ(job.parallel, expected.parallel);
  EXPECT_EQ(job.expert_load, expected.expert_load);
  EXPECT_EQ(job.device, expected.device);
}

TEST(ReadJob, LeavesDefaultsWhereKeysAreAbsent) {
  const graph_build::JobSpec job = job_from(kDense);
  const graph_build::ParallelSpec fresh;
  EXPECT_EQ(job.parallel.tensor, 1);
  EXPECT_EQ(job.parallel.optimizer_bytes, fresh.optimizer_bytes);
  EXPECT_EQ(job.parallel.communicators, fresh.communicators);
  EXPECT_EQ(job.expert_load, graph_build::ExpertLoadSpec{});
  EXPECT_EQ(job.parallel.slots.size(), 1u);
  EXPECT_EQ(job.parallel.slots[0][0].size(), 8u);
}

TEST(ReadJob, KeyValueHeadsDefaultToHeads) {
  EXPECT_EQ(job_from(changed(kDense, "    kv_heads: 4\n", "")).model.attention.kv_heads, 16);
}

TEST(ReadJob, LayersAcceptAnyOrderAndBothNotations) {
  const auto layers = [](std::string_view text) {
    return job_from(changed(kJob, "{dense: 2, moe: 6}", text)).model.layers;
  };
  const graph_build::LayerKind d = graph_build::LayerKind::dense;
  const graph_build::LayerKind m = graph_build::LayerKind::moe;
  EXPECT_EQ(layers("{dense: 2, moe: 6}"), (std::vector{d, d, m, m, m, m, m, m}));
  EXPECT_EQ(layers("{moe: 6, dense: 2}"), (std::vector{m, m, m, m, m, m, d, d}));
  EXPECT_EQ(layers("[dense x2, moe x6]"), (std::vector{d, d, m, m, m, m, m, m}));
  EXPECT_EQ(layers("[moe, dense, moe x3, dense, moe x2]"), (std::vector{m, d, m, m, m, d, m, m}));
}

TEST(ReadJob, PlacementDefaultsToEvenFillWithTheMtpModuleLast) {
  const graph_build::JobSpec job = job_from(kJob);
  EXPECT_EQ(job.parallel.slots, graph_build::place_layers(job.model, job.parallel).slots);
  EXPECT_EQ(job.parallel.slots[1][1].back().kind, graph_build::Slot::Kind::mtp);
  EXPECT_EQ(job.parallel.slots[0][0].front().layer, 0);
  EXPECT_EQ(job.parallel.slots[0][1].front().layer, 4);
}

TEST(ReadJob, AutoPlacementIsALegalStart) {
  std::string text = kJob;
  const std::size_t at = text.find("  placement:");
  if (at != std::string::npos) text.erase(at, text.find('\n', at) + 1 - at);
  text.insert(text.find("parallel:\n") + 10, "  placement: auto\n");
  const graph_build::JobSpec job = job_from(text);
  EXPECT_TRUE(job.parallel.auto_placement);
  EXPECT_TRUE(graph_build::find_problems(job).empty());
  // Layers need not fill the stages evenly.
  std::size_t line = text.find("layers: {dense: 2, moe: 6}");
  text.replace(line, 26, "layers: {dense: 2, moe: 5}");
  EXPECT_EQ(graph_build::stage_layers(job_from(text).parallel).size(), static_cast<std::size_t>(job.parallel.stages()));
}

TEST(ReadJob, EitherPlacementNotationGivesTheSameSlots) {
  const std::string with = "  global_batch: 16\n  placement: ";
  const graph_build::JobSpec by_slot =
      job_from(changed(changed(kJob, "moe: 6}", "moe: 5}"), "  global_batch: 16\n", with + "{noop_slots: [7]}\n"));
  const graph_build::JobSpec by_rank = job_from(changed(changed(kJob, "moe: 6}", "moe: 5}"), "  global_batch: 16\n",
                                                        with + "{ranks: [[[0-1], [4-5]], [[2-3], [6, noop, mtp]]]}\n"));
  EXPECT_EQ(by_slot.parallel.slots, by_rank.parallel.slots);
}

// ---- bad jobs -----------------------------------------------------------------------------------------------------

TEST(ReadJob, NoCapacityDropsNothing) {
  const graph_build::JobSpec plain = job_from(kJob);
  EXPECT_FALSE(plain.model.moe.drops());
  EXPECT_EQ(job_from(changed(kJob, "    width: 512", "    width: 512\n    capacity_factor: none")), plain);
}

class BadJob : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadJob, IsRefusedWithLineAndRemedy) {
  const BadCase& bad = GetParam();
  const std::string text = changed(kJob, bad.from, bad.to);
  EXPECT_EQ(error_of(formats::read_job(text, "dir/job.yaml")),
            fmt::format("dir/job.yaml:{}: {}", line_with(text, bad.marker), bad.message));
}

INSTANTIATE_TEST_SUITE_P(
    Keys, BadJob,
    ::testing::Values(
        BadCase{"UnknownKeyNearMiss", "  hidden: 1024", "  hiden: 1024", "hiden",
                "unknown key 'hiden' in section model; did you mean 'hidden'?"},
        BadCase{"UnknownNestedKeyNearMiss", "    kv_lora_rank: 128", "    kv_lora_rnak: 128", "kv_lora_rnak",
                "unknown key 'kv_lora_rnak' in section model.attention; did you mean 'kv_lora_rank'?"},
        BadCase{"UnknownSectionNearMiss", "parallel:\n", "paralel:\n", "paralel",
                "unknown key 'paralel' in the file; did you mean 'parallel'?"},
        BadCase{"UnknownKeyOfAnotherCase", "  tensor: 2", "  Tensor: 2", "Tensor",
                "unknown key 'Tensor' in section parallel; did you mean 'tensor'?"},
        BadCase{"UnknownKeyNothingNear", "  mean: 1.0", "  zzz: 1.0", "zzz",
                "unknown key 'zzz' in section expert_load; it knows coefficient_of_variation, layer_correlation, mean, "
                "persistence, popularity_share, quantile, seed"},
        BadCase{"DuplicateKey", "  data: 2\n", "  data: 2\n  tensor: 4\n", "tensor: 4",
                "'tensor' is given twice in section parallel (first on line 22); keep one"},
        BadCase{"DuplicateSection", "precision:\n", "model:\n  name: again\nprecision:\n", "model:\n  name: again",
                "'model' is given twice in the file (first on line 1); keep one"},
        BadCase{"MissingKey", "  hidden: 1024\n", "",
                "model:", "section model lacks the key 'hidden'; add `hidden: <whole number>`"},
        BadCase{"MissingNestedKey", "    heads: 16\n", "",
                "attention:", "section model.attention lacks the key 'heads'; add `heads: <whole number>`"},
        BadCase{"MissingKind", "    kind: mla\n", "",
                "attention:", "section model.attention lacks the key 'kind'; add `kind: gqa | mla`"},
        BadCase{"MissingDevice", "device: ascend-910b-64g\n", "",
                "model:", "the file lacks the key 'device'; add `device: <name>`"},
        BadCase{"MissingMoeSection", "  moe:\n    experts: 16\n    top_k: 4\n    width: 512\n", "",
                "model:", "section model lacks the key 'moe'; add a section `moe:`"},
        BadCase{"MissingDenseWidth", "  dense_width: 4096\n", "",
                "model:", "section model lacks the key 'dense_width'; add `dense_width: <whole number>`"},
        BadCase{"KeyOfTheOtherAttention", "    v_head_dim: 64", "    v_head_dim: 64\n    kv_heads: 4", "kv_heads",
                "kv_heads has no meaning here: it belongs to `kind: gqa`; drop it or change kind"},
        BadCase{"KeyIsAList", "  data: 2\n", "  data: 2\n  [a, b]: 2\n", "[a, b]",
                "a key of section parallel is a list; write a plain word"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Types, BadJob,
    ::testing::Values(
        BadCase{"TextForNumber", "  hidden: 1024", "  hidden: wide",
                "hidden:", "hidden is 'wide'; write a whole number of at most 19 digits"},
        BadCase{"FractionForWhole", "  hidden: 1024", "  hidden: 1024.5",
                "hidden:", "hidden is '1024.5'; write a whole number of at most 19 digits"},
        BadCase{"SizeForCount", "  hidden: 1024", "  hidden: 1KiB",
                "hidden:", "hidden is '1KiB'; write a whole number of at most 19 digits"},
        BadCase{"TooManyDigits", "  hidden: 1024", "  hidden: 99999999999999999999",
                "hidden:", "hidden is '99999999999999999999'; write a whole number of at most 19 digits"},
        BadCase{"EmptyValue", "  hidden: 1024",
                "  hidden:", "hidden:", "hidden is empty; write `hidden: <whole number>`"},
        BadCase{"ListForNumber", "  hidden: 1024", "  hidden: [1, 2]",
                "hidden:", "hidden is a list; write `hidden: <whole number>`"},
        BadCase{"SectionForNumber", "  tensor: 2", "  tensor: {a: 2}",
                "tensor:", "tensor is a section; write `tensor: <whole number>`"},
        BadCase{"NumberForSection", "precision:\n  parameters: bf16\n", "precision: 7\n",
                "precision:", "precision is '7'; write its keys below it, indented"},
        BadCase{"EmptySection", "precision:\n  parameters: bf16\n", "precision:\n",
                "precision:", "precision is empty; write its keys below it, indented"},
        BadCase{"NumberForBoolean", "  sequence_parallel: true", "  sequence_parallel: yes", "sequence_parallel",
                "sequence_parallel is 'yes'; write true or false"},
        BadCase{"TextForReal", "  mean: 1.0", "  mean: high", "mean:", "mean is 'high'; write a number like 1.5"},
        BadCase{"InfinityForReal", "  mean: 1.0", "  mean: inf", "mean:", "mean is 'inf'; write a number like 1.5"},
        BadCase{"NotANumberForReal", "  mean: 1.0", "  mean: nan", "mean:", "mean is 'nan'; write a number like 1.5"},
        BadCase{"UnknownWordNearMiss", "  parameters: bf16", "  parameters: bf61",
                "parameters:", "parameters is 'bf61'; did you mean 'bf16'? write one of bf16, fp16, fp32"},
        BadCase{"UnknownWord", "    kind: mla", "    kind: linear", "kind:", "kind is 'linear'; write one of gqa, mla"},
        BadCase{"Above32Bits", "  data: 2\n", "  data: 3000000000\n", "data: 3000000000",
                "data is 3000000000; it must be below 2^31"},
        BadCase{"NegativeSeed", "  mean: 1.0", "  seed: -1", "seed", "seed is -1; it must not be negative"},
        BadCase{"EmptyName", "  name: tiny", "  name: \"\"", "name:", "name is empty; write a name"},
        BadCase{"LayersAsNumber", "{dense: 2, moe: 6}", "8", "layers:",
                "layers is '8'; write the kinds and their number, like {dense: 3, moe: 58} or [dense x3, moe x58]"},
        BadCase{"LayersOfUnknownKind", "{dense: 2, moe: 6}", "{dense: 2, sparse: 6}", "layers:",
                "layers names the kind 'sparse'; a layer is dense or moe, and mamba_dense, mamba_moe, "
                "linear_dense or linear_moe where the model is only described"},
        BadCase{"LayersNegative", "{dense: 2, moe: 6}", "{dense: 2, moe: -6}", "layers:",
                "the number of moe layers is not a whole number from 0 to 100000; write like {dense: 3, moe: 58}"},
        BadCase{"LayersAbsurd", "{dense: 2, moe: 6}", "[dense x2, moe x9999999999999]", "layers:",
                "the number of moe layers is not a whole number from 0 to 100000; write like {dense: 3, moe: 58}"},
        BadCase{
            "LayersTwice", "{dense: 2, moe: 6}", "{dense: 1, moe: 6, dense: 1}", "layers:",
            "'dense' is given twice in layers; write kinds that alternate as a list, like [dense x3, moe x2, dense]"},
        BadCase{"LayersEmpty", "{dense: 2, moe: 6}", "[]",
                "layers:", "the model has 0 layers; it must have 1 to 100000"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Ranges, BadJob,
    ::testing::Values(
        BadCase{"NegativeSize", "  hidden: 1024", "  hidden: -1024",
                "hidden:", "hidden is -1024; it must be 1 to 16777216"},
        BadCase{"ZeroSize", "  sequence: 2048", "  sequence: 0",
                "sequence:", "sequence is 0; it must be 1 to 134217728"},
        BadCase{"AbsurdSize", "  vocabulary: 32000", "  vocabulary: 9000000000000000000",
                "vocabulary:", "vocabulary is 9000000000000000000; it must be 1 to 268435456"},
        BadCase{"NegativeDegree", "  tensor: 2", "  tensor: -2", "tensor:", "tensor is -2; it must be 1 to 1048576"},
        BadCase{"ZeroDegree", "  pipeline: 2\n  virtual", "  pipeline: 0\n  virtual", "pipeline: 0",
                "pipeline is 0; it must be 1 to 65536"},
        BadCase{"NegativeBatch", "  global_batch: 16", "  global_batch: -16",
                "global_batch:", "global_batch is -16; it must be 1 to 1099511627776"},
        BadCase{"NoTopK", "    top_k: 4", "    top_k: 0", "top_k", "top_k is 0; it must be 1 to 65536"},
        BadCase{"ZeroCapacity", "    width: 512", "    width: 512\n    capacity_factor: 0", "capacity_factor",
                "capacity_factor is 0; it must be above 0, or none to drop no row"},
        BadCase{"NegativeCapacity", "    width: 512", "    width: 512\n    capacity_factor: -1.5", "capacity_factor",
                "capacity_factor is -1.5; it must be above 0, or none to drop no row"},
        BadCase{"CapacityAboveExperts", "    width: 512", "    width: 512\n    capacity_factor: 16.5",
                "capacity_factor", "capacity_factor is 16.5; it must be above 0 and at most the number of experts, 16"},
        BadCase{"CapacityOfAWord", "    width: 512", "    width: 512\n    capacity_factor: all", "capacity_factor",
                "capacity_factor is 'all'; write a number like 1.5"},
        BadCase{"UnknownCapacityLevel", "    width: 512",
                "    width: 512\n    capacity_factor: 1.5\n    capacity_level: token", "capacity_level",
                "capacity_level is 'token'; write one of expert, device"},
        BadCase{"LevelOfNoCapacity", "    width: 512", "    width: 512\n    capacity_level: device", "capacity_level",
                "capacity_level has no meaning here: it needs capacity_factor; add one, such as 1.25, or drop it"},
        BadCase{"PaddingToNoCapacity", "    width: 512",
                "    width: 512\n    capacity_factor: none\n    pad_to_capacity: true", "pad_to_capacity",
                "pad_to_capacity has no meaning here: it needs capacity_factor; add one, such as 1.25, or drop it"},
        BadCase{"NegativeMean", "  mean: 1.0", "  mean: -1.0",
                "mean:", "mean is -1; it must be above 0 and at most 65536 (1: balanced)"},
        BadCase{"QuantileAboveOne", "  mean: 1.0", "  quantile: 1.5", "quantile",
                "quantile is 1.5; it must be from 0.001 to 0.999, as far as peaks are sampled (0: the cheapest)"},
        BadCase{"CorrelationAboveOne", "  mean: 1.0", "  layer_correlation: 2", "layer_correlation",
                "layer_correlation is 2; it must be 0 to 1"},
        BadCase{"SharesAboveOne", "  mean: 1.0", "  layer_correlation: 0.75\n  popularity_share: 0.5",
                "popularity_share",
                "popularity_share is 0.5 and layer_correlation 0.75: shares of one variance; together "
                "they must be at most 1"},
        BadCase{"PersistenceBelowZero", "  mean: 1.0", "  persistence: -0.5", "persistence",
                "persistence is -0.5; it must be 0 to 1"},
        BadCase{"OverflowingExperts", "    experts: 16\n    top_k: 4\n    width: 512",
                "    experts: 65536\n    top_k: 4\n    width: 16777216", "experts:",
                "too large: expert weights and training state: layers x experts x 3 x hidden x width x "
                "bytes is beyond 2^53; lower one factor"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Layout, BadJob,
    ::testing::Values(BadCase{"TensorDoesNotDivideHeads", "  tensor: 2", "  tensor: 3",
                              "tensor:", "tensor 3 does not divide attention heads 16; use 2 or 4"},
                      BadCase{"ExpertDoesNotDivideExperts", "  expert: 2", "  expert: 3", "expert: 3",
                              "expert 3 does not divide 16 experts; use 2 or 4"},
                      BadCase{"ExtendedExpertDoesNotDivideExperts", "  expert: 2\n  data: 2\n",
                              "  expert: 16\n  data: 16\n  tensor_extends_expert: true\n", "expert: 16",
                              "expert 16 x tensor 2 = 32 expert ranks do not divide 16 experts; use 8"},
                      BadCase{"ExpertDoesNotDivideData", "  expert: 2", "  expert: 4", "expert: 4",
                              "expert 4 does not divide the ranks experts can spread over, data x context = 2; use 2"},
                      BadCase{"LayersDoNotFillStages", "moe: 6}", "moe: 5}", "  pipeline:",
                              "7 layers and 0 no-op slots do not fill 2 ranks x 2 chunks evenly; add 1 slot to "
                              "placement.noop_slots (one for each "
                              "empty slot) or change pipeline or virtual_pipeline"},
                      BadCase{"BatchNotDivisible", "  global_batch: 16", "  global_batch: 17", "global_batch:",
                              "global_batch 17 is not a multiple of micro_batch 1 x data 2 = 2; use 16 or 18"},
                      BadCase{"BatchNotAMultipleOfRanks", "  global_batch: 16", "  global_batch: 14", "global_batch:",
                              "7 micro-batches are not a multiple of pipeline 2, which the interleaved schedule needs; "
                              "use global_batch 16 or "
                              "virtual_pipeline 1"},
                      BadCase{"TensorDoesNotDivideVocabulary", "  vocabulary: 32000", "  vocabulary: 32001",
                              "vocabulary:", "tensor 2 does not divide vocabulary 32001; pad it to 32002"},
                      BadCase{"TensorDoesNotDivideDenseWidth", "  dense_width: 4096", "  dense_width: 4097",
                              "  tensor:", "tensor 2 does not divide dense_width 4097; use 1 or 17"},
                      BadCase{"ContextDoesNotDivideSequence", "  data: 2\n", "  data: 2\n  context: 3\n",
                              "context:", "context 3 does not divide sequence 2048; use 2 or 4"},
                      BadCase{"TopKAboveExperts", "    top_k: 4", "    top_k: 17", "top_k",
                              "top_k 17 exceeds the 16 experts; use 16 or less"},
                      BadCase{"ReuseWithoutMaster", "  parameters: bf16",
                              "  reuse_fp32_parameter: true\n  parameters: fp32", "reuse_fp32_parameter",
                              "a 16-bit parameter and an fp32 master copy are needed to share one storage; use "
                              "parameters: bf16 with master: "
                              "fp32, or false"}),
    case_name);

const std::string kBatchLine = "  global_batch: 16\n";
std::string placed(std::string_view placement) {
  return kBatchLine + "  placement:\n    " + std::string(placement) + "\n";
}

INSTANTIATE_TEST_SUITE_P(
    Placement, BadJob,
    ::testing::Values(
        BadCase{"NoopOutOfRange", kBatchLine, placed("noop_slots: [1, 2, 3, 12]"), "noop_slots",
                "slot 12 does not exist; slots are 0 to 11"},
        BadCase{"NoopTwice", kBatchLine, placed("noop_slots: [1, 2, 2, 3]"), "noop_slots",
                "slot 2 is listed twice; list each slot once"},
        BadCase{"NoopNoNumber", kBatchLine, placed("noop_slots: [last]"), "noop_slots",
                "a no-op slot is 'last'; write slot numbers like [61, 63]"},
        BadCase{"NoopsNoList", kBatchLine, placed("noop_slots: 7"), "noop_slots",
                "noop_slots is '7'; write a list like `noop_slots: [61, 63]`"},
        BadCase{"MtpOnANoop", kBatchLine, placed("{noop_slots: [8, 9, 10], mtp_slot: 10}"), "mtp_slot",
                "slot 10 is a no-op slot too; choose one"},
        BadCase{"NoopsLeaveStagesUneven", kBatchLine, placed("noop_slots: [1]"), "placement:",
                "8 layers and 1 no-op slots do not fill 2 ranks x 2 chunks evenly; add 3 slots to placement.noop_slots "
                "(one for each "
                "empty slot) or change pipeline or virtual_pipeline"},
        BadCase{"MtpNotInTheLastStage", kBatchLine, placed("{noop_slots: [9, 10, 11], mtp_slot: 0}"), "placement:",
                "MTP module 0 lies on rank 0 chunk 0; it belongs to the last chunk of the last rank, beside its output "
                "head"},
        BadCase{"RanksTooFew", kBatchLine, placed("ranks: [[[0-3], [4-7, mtp]]]"),
                "placement:", "the placement has 1 ranks; pipeline is 2"},
        BadCase{"ChunksTooFew", kBatchLine, placed("ranks: [[[0-3], []], [[4-7, mtp]]]"),
                "placement:", "rank 1 of the placement has 1 chunks; virtual_pipeline is 2"},
        BadCase{"LayerForgotten", kBatchLine, placed("ranks: [[[0-1], [4-5]], [[2-3], [6, mtp]]]"),
                "placement:", "the placement holds 7 of 8 layers; place every layer once"},
        BadCase{"LayerTwice", kBatchLine, placed("ranks: [[[0-1], [3-5]], [[2-3], [6-7, mtp]]]"), "placement:",
                "the placement has layer 3 where 4 is due; place every layer once, in order along the pipeline, then "
                "the MTP modules"},
        BadCase{"LayerTooMany", kBatchLine, placed("ranks: [[[0-1], [4-5]], [[2-3], [6-8, mtp]]]"), "placement:",
                "the placement has layer 8 where no further layer is due; place every layer once, in order along the "
                "pipeline, then the "
                "MTP modules"},
        BadCase{"MtpForgotten", kBatchLine, placed("ranks: [[[0-1], [4-5]], [[2-3], [6-7]]]"),
                "placement:", "the placement holds 0 of 1 MTP modules; place each once"},
        BadCase{"MtpBeforeALayer", kBatchLine, placed("ranks: [[[0-1], [4-5]], [[2-3], [6, mtp, 7]]]"),
                "placement:", "a layer follows the MTP module; place the MTP module last"},
        BadCase{"SlotNoLayer", kBatchLine, placed("ranks: [[[0-1], [4-5]], [[2-3], [6, head]]]"), "ranks",
                "a slot is 'head'; write a layer like 7, layers like 4-7, noop or mtp"},
        BadCase{"SlotRangeBackwards", kBatchLine, placed("ranks: [[[1-0], [4-5]], [[2-3], [6-7, mtp]]]"), "ranks",
                "a slot is '1-0'; write a layer like 7, layers like 4-7, noop or mtp"},
        BadCase{"RankNoList", kBatchLine, placed("ranks: [7, 8]"), "ranks",
                "a rank is '7'; write a list of ranks, each a list of chunks, each a list of slots: [[[0-1], [4-5]], "
                "[[2-3], [6, mtp]]]"},
        BadCase{"RanksAndNoops", kBatchLine, placed("{ranks: [], noop_slots: [1]}"), "ranks",
                "noop_slots has no meaning here: `ranks` lists every slot; drop one of the two"}),
    case_name);

TEST(BadJobText, OverflowingProductOfTokens) {
  std::string text = changed(kJob, "  sequence: 2048", "  sequence: 134217728");
  text = changed(text, "  micro_batch: 1\n  global_batch: 16", "  micro_batch: 1048576\n  global_batch: 1099511627776");
  EXPECT_EQ(error_of(formats::read_job(text, "j")),
            "j:28: too large: logits: sequence x micro_batch x vocabulary x 4 bytes is beyond 2^53; lower one factor");
}

TEST(BadJobText, AbsurdCountsAreRefusedBeforeAnythingIsFilled) {
  EXPECT_EQ(error_of(formats::read_job(changed(kJob, "  mtp_layers: 1", "  mtp_layers: 1000000000000"), "j")),
            "j:7: mtp_layers is 1000000000000; it must be 0 to 64");
  EXPECT_EQ(error_of(formats::read_job(changed(kJob, "  virtual_pipeline: 2", "  virtual_pipeline: 2000000000"), "j")),
            "j:25: virtual_pipeline is 2000000000; it must be 1 to 65536");
}

TEST(BadJobText, TheFirstOfSeveralMistakesIsReported) {
  std::string text = changed(kJob, "    top_k: 4", "    topk: 4");
  text = changed(text, "  vocabulary: 32000", "  vocabulary: many");
  EXPECT_EQ(error_of(formats::read_job(text, "j")),
            "j:4: vocabulary is 'many'; write a whole number of at most 19 digits");
}

TEST(BadJobText, AWrongKindDoesNotBlameItsKeys) {
  // The keys of mla come first in the file and must not be called misplaced because kind is misspelt.
  std::string text = changed(kJob, "    kind: mla\n", "");
  text = changed(text, "    v_head_dim: 64\n", "    v_head_dim: 64\n    kind: mal\n");
  EXPECT_EQ(error_of(formats::read_job(text, "j")), "j:16: kind is 'mal'; did you mean 'mla'? write one of gqa, mla");
}

TEST(BadJobText, ExpertDegreeWithoutExperts) {
  const std::string text = changed(kDense, "parallel:\n", "parallel:\n  expert: 2\n");
  EXPECT_EQ(error_of(formats::read_job(text, "j")), "j:14: expert is 2 but the model has no MoE layer; use 1");
}

TEST(BadJobText, KeyValueHeadsMustDivideHeads) {
  EXPECT_EQ(error_of(formats::read_job(changed(kDense, "kv_heads: 4", "kv_heads: 5"), "j")),
            "j:11: kv_heads 5 does not divide heads 16; use 4 or 8");
}

TEST(BadJobText, SlotsAreCountedBeforeTheyAreMade) {
  std::string ranks = "[[[";
  for (int i = 0; i < 3; ++i) ranks += "0-99999, ";
  EXPECT_EQ(error_of(formats::read_job("parallel:\n  placement:\n    ranks: " + ranks + "]]]\n", "j")),
            "j:3: the slots up to here are more than 200000; name every layer once");
}

TEST(BadJobText, EmptyFiles) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n", "~\n"}) {
    EXPECT_EQ(error_of(formats::read_job(text, "j")),
              "j:1: the file is empty; start from one of the files in models/ or devices/")
        << text;
  }
}

TEST(BadJobText, NotAMapping) {
  EXPECT_EQ(error_of(formats::read_job("\n- a\n- b\n", "j")).substr(0, 44),
            "j:2: the file is not a list of `key: value` ");
  EXPECT_EQ(error_of(formats::read_job("just words", "j")).substr(0, 44),
            "j:1: the file is not a list of `key: value` ");
}

TEST(BadJobText, SecondDocument) {
  EXPECT_EQ(error_of(formats::read_job(kJob + "---\nmodel: 1\n", "j")),
            fmt::format("j:{}: a second document starts here; write one description a file",
                        2 + std::count(kJob.begin(), kJob.end(), '\n')));
}

TEST(BadJobText, InvalidYamlNamesItsLine) {
  const std::string text = changed(kJob, "  sequence: 2048", "  sequence: [2048");
  const std::string message = error_of(formats::read_job(text, "j"));
  EXPECT_EQ(message.substr(0, 2), "j:");
  EXPECT_NE(message.find("this is not valid YAML ("), std::string::npos) << message;
  EXPECT_NE(error_of(formats::read_job("a: b: c\n", "j")).find("j:1: this is not valid YAML"), std::string::npos);
  EXPECT_NE(error_of(formats::read_job("model:\n\thidden: 1\n", "j")).find("j:2: this is not valid YAML"),
            std::string::npos);
}

TEST(BadJobText, TooLongATextIsRefusedBeforeParsing) {
  EXPECT_NE(error_of(formats::read_job(std::string(2 << 20, ' '), "j")).find("a description has at most 1048576"),
            std::string::npos);
}

TEST(BadJobText, HostileNamesStayOnOneLine) {
  const std::string message =
      error_of(formats::read_job("\"a\\nb\\x1b" + std::string(500, 'x') + "\": 1\nmodel: 1\n", "j"));
  EXPECT_LT(message.size(), 200u);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
}

TEST(BadJobText, EveryTruncationAndRandomDamageIsAnErrorOrAJobNeverACrash) {
  const std::string text = shipped("models/pangu-ultra-moe-718b.yaml");
  const auto check = [](const std::string& damaged) {
    const Result<graph_build::JobSpec> job = formats::read_job(damaged, "j");
    if (job.ok()) {
      EXPECT_TRUE(graph_build::find_problems(job.value()).empty());
    } else {
      EXPECT_EQ(job.error().message.find('\n'), std::string::npos) << job.error().message;
      EXPECT_TRUE(job.error().message.starts_with("j:")) << job.error().message;
    }
  };
  for (std::size_t length = 0; length < text.size(); length += 37) check(text.substr(0, length));
  std::mt19937 random(718);
  const std::string alphabet = "{}[]:,-#\"'&*!|>%@ \n\t0129azX";
  for (int i = 0; i < 300; ++i) {
    std::string damaged = text;
    for (int k = 0; k < 3; ++k) damaged[random() % damaged.size()] = alphabet[random() % alphabet.size()];
    check(damaged);
  }
}

// ---- devices ------------------------------------------------------------------------------------------------------

const std::string kDevice = R"(name: test-device
chip: ascend-910b-800t-a2
memory:
  visible: 60GiB
  context: 1GiB
  workspace: 512MiB
  collective_buffer: 400MiB
  alignment: 256B
compute:
  copy_launch: 10us
  softmax_statistics_width: 8
links:
  d2h: {bandwidth: 23.4GB/s, latency: 1us}
  h2d: {bandwidth: 24GB/s, latency: 2us}
host:
  pinned_per_device: 64GiB
  pinned_per_node: 512GiB
)";

TEST(ReadMachine, FillsEveryFieldFromItsOwnKey) {
  const Machine expected = {.name = "test-device",
                            .visible_bytes = 60_GiB,
                            .context_bytes = 1_GiB,
                            .workspace_bytes = 512_MiB,
                            .collective_buffer_bytes = 400_MiB,
                            .alignment_bytes = 256,
                            .chip = testing::shipped_chips()("ascend-910b-800t-a2").value(),
                            .copy_launch_ns = 10e3,
                            .softmax_statistics_width = 8,
                            .d2h = {23.4e9, 1e3},
                            .h2d = {24e9, 2e3},
                            .host_bytes_per_device = 64_GiB,
                            .host_bytes_per_node = 512_GiB};
  EXPECT_EQ(machine_from(kDevice), expected);
}

class BadDevice : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadDevice, IsRefusedWithLineAndRemedy) {
  const BadCase& bad = GetParam();
  const std::string text = changed(kDevice, bad.from, bad.to);
  EXPECT_EQ(error_of(formats::read_machine(text, "d.yaml", testing::shipped_chips())),
            fmt::format("d.yaml:{}: {}", line_with(text, bad.marker), bad.message));
}

const std::string kUnits = "B, KiB, MiB, GiB, TiB (1024s) or KB, MB, GB, TB (1000s)";
const std::string kRates = "B/s, KB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s";

INSTANTIATE_TEST_SUITE_P(
    All, BadDevice,
    ::testing::Values(
        BadCase{"BareNumberForSize", "visible: 60GiB", "visible: 60", "visible",
                "visible: '60' is not a size: a bare number has no unit; append one of " + kUnits},
        BadCase{
            "NegativeSize", "visible: 60GiB", "visible: -60GiB", "visible",
            "visible: '-60GiB' is not a size: no sign is allowed; write a size like 60.97GiB, 64GB, 512MiB or 4096B"},
        BadCase{"UnknownSizeUnit", "visible: 60GiB", "visible: 60G", "visible",
                "visible: '60G' is not a size: unknown unit 'G'; use " + kUnits},
        BadCase{"AbsurdSize", "visible: 60GiB", "visible: 6000000TiB", "visible",
                "visible is 6000000.00 TiB; it must be 1.00 MiB to 1024.00 TiB"},
        BadCase{"OverflowingSize", "visible: 60GiB", "visible: 60000000TiB", "visible",
                "visible: '60000000TiB' is not a size: it exceeds the largest size, 8388607TiB"},
        BadCase{"ReserveTakesAll", "visible: 60GiB", "visible: 1GiB", "visible",
                "visible is 1.00 GiB, and context and workspace take all of it; lower them"},
        BadCase{"AlignmentNoPower", "alignment: 256B", "alignment: 100B", "alignment",
                "alignment is 100 B; it must be a power of two, like 512B"},
        BadCase{"ZeroAlignment", "alignment: 256B", "alignment: 0B", "alignment",
                "alignment is 0 B; it must be 1 B to 1.00 GiB"},
        BadCase{"RateWithoutUnit", "bandwidth: 24GB/s", "bandwidth: 24", "h2d",
                "bandwidth: '24' is not a rate; write a number and a unit (" + kRates + "), like 23.4GB/s"},
        BadCase{"SizeForRate", "bandwidth: 24GB/s", "bandwidth: 24GB", "h2d",
                "bandwidth: '24GB' is not a rate; write a number and a unit (" + kRates + "), like 23.4GB/s"},
        BadCase{"ZeroRate", "{bandwidth: 24GB/s, latency: 2us}", "{bandwidth: 0GB/s, latency: 2us}", "h2d",
                "bandwidth must be from 1e+03 to 1e+18 a second, like 23.4GB/s"},
        BadCase{"NegativeRate", "{bandwidth: 24GB/s, latency: 2us}", "{bandwidth: -24GB/s, latency: 2us}", "h2d",
                "bandwidth: '-24GB/s' is not a rate; write a number and a unit (" + kRates + "), like 23.4GB/s"},
        BadCase{"NoChip", "chip: ascend-910b-800t-a2\n", "", "name",
                "the file lacks the key 'chip'; add `chip: <name>`"},
        BadCase{"ChipByPath", "chip: ascend-910b-800t-a2", "chip: ../chips/h100", "chip",
                "chip is '../chips/h100'; write the name of a file in chips/ beside this one, or of a shipped one, "
                "without .yaml: lower-case letters, digits, dashes, dots"},
        BadCase{"BareTime", "copy_launch: 10us", "copy_launch: 5", "copy_launch",
                "copy_launch: '5' is not a time; write a number and a unit (ns, us, ms, s), like 10us"},
        BadCase{"AbsurdTime", "copy_launch: 10us", "copy_launch: 5s", "copy_launch",
                "copy_launch is above 1s; write like 10us"},
        BadCase{"RateOfTheChip", "  copy_launch: 10us", "  matmul_efficiency: 0.6\n  copy_launch: 10us",
                "matmul_efficiency",
                "unknown key 'matmul_efficiency' in section compute; it knows copy_launch, softmax_statistics_width"},
        BadCase{"MissingLink", "  h2d: {bandwidth: 24GB/s, latency: 2us}\n", "",
                "links:", "section links lacks the key 'h2d'; add a section `h2d:`"},
        BadCase{"MissingLatency", "{bandwidth: 24GB/s, latency: 2us}", "{bandwidth: 24GB/s}", "h2d",
                "section links.h2d lacks the key 'latency'; add `latency: 10us`"},
        BadCase{"UnknownKey", "  workspace: 512MiB", "  work_space: 512MiB", "work_space",
                "unknown key 'work_space' in section memory; did you mean 'workspace'?"},
        BadCase{"NodeSmallerThanDevice", "pinned_per_node: 512GiB", "pinned_per_node: 32GiB", "pinned_per_node",
                "pinned_per_node is 32.00 GiB, less than pinned_per_device 64.00 GiB; raise it"},
        BadCase{"WidthOutOfRange", "softmax_statistics_width: 8", "softmax_statistics_width: 0",
                "softmax_statistics_width", "softmax_statistics_width is 0; it must be 1 to 64"}),
    case_name);

TEST(BadDeviceText, AJobIsNotADevice) {
  EXPECT_NE(
      error_of(formats::read_machine(kJob, "d", testing::shipped_chips())).find("d:1: unknown key 'model' in the file"),
      std::string::npos);
}

}  // namespace
}  // namespace tidemark
