// The rules of a job description as values: what the reader of YAML relies on, and what jobs made in code are held to.

#include "planner/graph_build/job_spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "planner/graph_build/layer_placement.h"

namespace tidemark::graph_build {
namespace {

JobSpec valid_job() {
  JobSpec job = {.model = {.name = "tiny",
                           .hidden = 1024,
                           .vocabulary = 32000,
                           .sequence = 2048,
                           .mtp_layers = 1,
                           .attention = {.kind = AttentionSpec::Kind::mla,
                                         .heads = 16,
                                         .q_lora_rank = 384,
                                         .kv_lora_rank = 128,
                                         .qk_rope_dim = 32,
                                         .qk_nope_dim = 64,
                                         .v_head_dim = 64},
                           .dense_width = 4096,
                           .moe = {.experts = 16, .top_k = 4, .width = 512, .shared_width = 512}},
                 .parallel = {.tensor = 2,
                              .sequence_parallel = true,
                              .pipeline = 2,
                              .virtual_pipeline = 2,
                              .expert = 2,
                              .data = 2,
                              .micro_batch = 1,
                              .global_batch = 16},
                 .device = "some-device"};
  job.model.layers.assign(2, LayerKind::dense);
  job.model.layers.insert(job.model.layers.end(), 6, LayerKind::moe);
  job.parallel.slots = place_layers(job.model, job.parallel).slots;
  return job;
}

std::set<std::string> keys_of(const std::vector<SpecProblem>& problems) {
  std::set<std::string> keys;
  for (const SpecProblem& problem : problems) keys.insert(problem.key);
  return keys;
}

TEST(FindProblems, AValidJobHasNone) {
  EXPECT_TRUE(find_problems(valid_job()).empty());
}

TEST(FindProblems, AHeadMayStayWithTheLastLayer) {
  JobSpec job = valid_job();
  job.parallel.head_stage = 3;  // the last stage, by its number
  EXPECT_TRUE(find_problems(job).empty());
  EXPECT_FALSE(job.parallel.is_head_apart());
  job.parallel.slots = place_layers(job.model, job.parallel, {.noop_slots = {8, 9, 10, 11}}).slots;
  EXPECT_TRUE(find_problems(job).empty());  // and with that stage empty but for the module
  job.parallel.head_stage = 2;              // three layers a stage, the last holds the module alone
  EXPECT_TRUE(find_problems(job).empty());
  EXPECT_TRUE(job.parallel.is_head_apart());
}

TEST(FindProblems, AnEmptyJobNamesEveryMissingQuantity) {
  const std::set<std::string> keys = keys_of(find_problems(JobSpec{}));
  for (const char* key : {"model.hidden", "model.vocabulary", "model.sequence", "model.layers", "model.attention.heads",
                          "model.attention.kv_heads", "model.attention.head_dim", "device"}) {
    EXPECT_TRUE(keys.contains(key)) << key;
  }
}

/// A change that breaks one rule, and the key that must be named.
struct Break {
  const char* key;
  void (*change)(JobSpec&);
};

class BrokenRule : public ::testing::TestWithParam<Break> {};

TEST_P(BrokenRule, NamesItsKeyAlone) {
  JobSpec job = valid_job();
  GetParam().change(job);
  const std::vector<SpecProblem> problems = find_problems(job);
  ASSERT_FALSE(problems.empty());
  EXPECT_EQ(problems.front().key, GetParam().key) << problems.front().message;
  EXPECT_EQ(keys_of(problems).size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Each, BrokenRule,
    ::testing::Values(
        Break{"model.hidden", [](JobSpec& job) { job.model.hidden = -1; }},
        Break{"model.vocabulary", [](JobSpec& job) { job.model.vocabulary = 32001; }},
        Break{"model.sequence", [](JobSpec& job) { job.model.sequence = 0; }},
        Break{"model.dense_width", [](JobSpec& job) { job.model.dense_width = 0; }},
        Break{"model.mtp_layers", [](JobSpec& job) { job.model.mtp_layers = -1; }},
        Break{"model.attention.kv_lora_rank", [](JobSpec& job) { job.model.attention.kv_lora_rank = 0; }},
        Break{"model.attention.q_lora_rank", [](JobSpec& job) { job.model.attention.q_lora_rank = -1; }},
        Break{"model.attention.v_padded",
              [](JobSpec& job) {
                job.model.attention.v_padded = true;
                job.model.attention.v_head_dim = 128;
              }},
        Break{"model.moe.experts", [](JobSpec& job) { job.model.moe.experts = 0; }},
        Break{"model.moe.top_k", [](JobSpec& job) { job.model.moe.top_k = 17; }},
        Break{"model.moe.width", [](JobSpec& job) { job.model.moe.width = 0; }},
        Break{"model.moe.shared_width", [](JobSpec& job) { job.model.moe.shared_width = -1; }},
        Break{"parallel.tensor", [](JobSpec& job) { job.parallel.tensor = 32; }},
        Break{"parallel.tensor", [](JobSpec& job) { job.model.moe.shared_width = 511; }},
        Break{"parallel.tensor", [](JobSpec& job) { job.model.moe.width = 511; }},
        Break{"parallel.pipeline", [](JobSpec& job) { job.parallel.pipeline = 0; }},
        Break{"parallel.virtual_pipeline", [](JobSpec& job) { job.parallel.virtual_pipeline = -2; }},
        Break{"parallel.context", [](JobSpec& job) { job.parallel.context = 3; }},
        Break{"parallel.expert", [](JobSpec& job) { job.parallel.expert = 16; }},
        Break{"parallel.data", [](JobSpec& job) { job.parallel.data = 0; }},
        Break{"parallel.micro_batch", [](JobSpec& job) { job.parallel.micro_batch = 0; }},
        Break{"parallel.global_batch", [](JobSpec& job) { job.parallel.global_batch = 10; }},
        Break{"parallel.expert_exchange_parts", [](JobSpec& job) { job.parallel.expert_exchange_parts = 0; }},
        Break{"parallel.expert_exchange_parts", [](JobSpec& job) { job.parallel.expert_exchange_parts = 17; }},
        Break{"parallel.expert_exchange_parts",
              [](JobSpec& job) {
                job.parallel.expert_exchange_parts = 2;
                job.parallel.expert = 1;
                job.parallel.tensor = 1;
              }},
        Break{"parallel.expert_exchange_parts",
              [](JobSpec& job) {
                job.parallel.expert_exchange_parts = 16;
                job.model.sequence = 16;  // 8 tokens a device
              }},
        Break{"parallel.expert_exchange_parts",
              [](JobSpec& job) {
                job.parallel.expert_exchange_parts = 2;
                job.parallel.expert = 1;
                std::ranges::fill(job.model.layers, LayerKind::dense);
              }},
        Break{"parallel.communicators", [](JobSpec& job) { job.parallel.communicators = -1; }},
        Break{"parallel.placement", [](JobSpec& job) { job.parallel.slots.clear(); }},
        Break{"parallel.placement", [](JobSpec& job) { job.parallel.slots[0].pop_back(); }},
        Break{"parallel.placement", [](JobSpec& job) { job.parallel.slots[1][1].pop_back(); }},
        Break{"parallel.placement", [](JobSpec& job) { std::swap(job.parallel.slots[0], job.parallel.slots[1]); }},
        Break{"parallel.placement.head_stage", [](JobSpec& job) { job.parallel.head_stage = 4; }},
        Break{"parallel.placement.head_stage", [](JobSpec& job) { job.parallel.head_stage = -2; }},
        Break{"parallel.placement.head_stage", [](JobSpec& job) { job.parallel.head_stage = 2; }},
        Break{"parallel.placement.head_stage",
              [](JobSpec& job) {  // the right stage, but nothing follows
                job.model.mtp_layers = 0;
                job.parallel.slots = place_layers(job.model, job.parallel, {.noop_slots = {8, 9, 10, 11}}).slots;
                job.parallel.head_stage = 2;
              }},
        Break{"parallel.placement.head_stage",
              [](JobSpec& job) {
                job.parallel.pipeline = 1;
                job.parallel.virtual_pipeline = 4;
                job.parallel.slots = place_layers(job.model, job.parallel, {.noop_slots = {8, 9, 10, 11}}).slots;
                job.parallel.head_stage = 2;
              }},
        Break{"precision.parameters", [](JobSpec& job) { job.parallel.parameter_bytes = 0; }},
        Break{"precision.gradients", [](JobSpec& job) { job.parallel.gradient_bytes = -4; }},
        Break{"precision.optimizer", [](JobSpec& job) { job.parallel.optimizer_bytes = 1000; }},
        Break{"precision.reuse_fp32_parameter",
              [](JobSpec& job) {
                job.parallel.reuse_fp32_parameter = true;
                job.parallel.optimizer_bytes = 0;
              }},
        Break{"expert_load.mean", [](JobSpec& job) { job.expert_load.mean = 0; }},
        Break{"expert_load.mean", [](JobSpec& job) { job.expert_load.mean = std::numeric_limits<double>::quiet_NaN(); }},
        Break{"expert_load.quantile", [](JobSpec& job) { job.expert_load.quantile = 1; }},
        Break{"expert_load.layer_correlation", [](JobSpec& job) { job.expert_load.layer_correlation = -0.1; }},
        Break{"expert_load.popularity_share", [](JobSpec& job) { job.expert_load.popularity_share = 1.5; }},
        Break{"expert_load.popularity_share",
              [](JobSpec& job) {
                job.expert_load.popularity_share = 0.6;
                job.expert_load.layer_correlation = 0.6;
              }},
        Break{"expert_load.persistence", [](JobSpec& job) { job.expert_load.persistence = -1; }},
        Break{"expert_load.coefficient_of_variation",
              [](JobSpec& job) { job.expert_load.coefficient_of_variation = 1e9; }},
        Break{"model.name", [](JobSpec& job) { job.model.name = "m\x1b[31m"; }},
        Break{"model.name", [](JobSpec& job) { job.model.name = "m\u202e7b"; }},
        Break{"device", [](JobSpec& job) { job.device = "m\u2066"; }},
        Break{"device", [](JobSpec& job) { job.device = "a\nb"; }},
        Break{"device", [](JobSpec& job) { job.device.clear(); }}));

TEST(FindProblems, TensorExtendingExpertsNeedNotDivideTheirWidth) {
  JobSpec job = valid_job();
  job.model.moe.width = 511;
  job.parallel.tensor_extends_expert = true;
  EXPECT_TRUE(find_problems(job).empty());
}

TEST(FindProblems, GroupedQueryHeadsFollowTensorToo) {
  JobSpec job = valid_job();
  job.model.attention = {.kind = AttentionSpec::Kind::gqa, .heads = 16, .kv_heads = 4, .head_dim = 64};
  job.parallel.tensor = 8;
  const std::vector<SpecProblem> problems = find_problems(job);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems.front().key, "parallel.tensor");
  EXPECT_EQ(problems.front().message, "tensor 8 does not divide key-value heads 4; use 4");
}

TEST(FindProblems, SequenceParallelismSplitsTheSequence) {
  JobSpec job = valid_job();
  job.model.sequence = 2049;
  EXPECT_EQ(keys_of(find_problems(job)), std::set<std::string>{"parallel.tensor"});
  job.parallel.sequence_parallel = false;
  EXPECT_TRUE(find_problems(job).empty());
}

TEST(FindProblems, InterleavingNeedsWholeRoundsAndPlainOneForwardOneBackwardDoesNot) {
  JobSpec job = valid_job();
  job.parallel.global_batch = 14;  // 7 micro-batches on 2 ranks
  EXPECT_EQ(keys_of(find_problems(job)), std::set<std::string>{"parallel.global_batch"});
  job.parallel.virtual_pipeline = 1;
  job.parallel.slots = place_layers(job.model, job.parallel).slots;
  EXPECT_TRUE(find_problems(job).empty());
}

TEST(FindProblems, ProductsBeyondTwoToThe53AreRefused) {
  JobSpec job = valid_job();
  job.model.moe.experts = 65536;
  job.model.moe.width = std::int64_t{1} << 24;
  EXPECT_TRUE(keys_of(find_problems(job)).contains("model.moe.experts"));
  job = valid_job();
  job.model.sequence = std::int64_t{1} << 27;
  job.parallel.micro_batch = std::int64_t{1} << 20;
  job.parallel.global_batch = std::int64_t{1} << 30;
  const std::set<std::string> keys = keys_of(find_problems(job));
  EXPECT_TRUE(keys.contains("parallel.micro_batch"));
  EXPECT_TRUE(keys.contains("parallel.global_batch"));
}

TEST(FindProblems, AStepTooLongToListIsRefused) {
  JobSpec job = valid_job();
  job.parallel.global_batch = std::int64_t{1} << 21;  // 2^20 micro-batches of 5 slots
  EXPECT_EQ(keys_of(find_problems(job)), std::set<std::string>{"parallel.global_batch"});
}

/// Any values at all give a list of problems, never a fault: divisions by zero and overflow are what this would meet.
TEST(FindProblems, WithstandsExtremeValues) {
  const std::int64_t extremes[] = {
      std::numeric_limits<std::int64_t>::min(), -1, 0, 1, 2, 7, 16, 4096, std::int64_t{1} << 20, std::int64_t{1} << 40,
      std::numeric_limits<std::int64_t>::max()};
  std::mt19937 random(4);
  for (int i = 0; i < 3000; ++i) {
    JobSpec job = valid_job();
    std::int64_t* const wide[] = {&job.model.hidden,
                                  &job.model.vocabulary,
                                  &job.model.sequence,
                                  &job.model.mtp_layers,
                                  &job.model.dense_width,
                                  &job.model.attention.heads,
                                  &job.model.attention.kv_lora_rank,
                                  &job.model.attention.v_head_dim,
                                  &job.model.moe.experts,
                                  &job.model.moe.top_k,
                                  &job.model.moe.width,
                                  &job.model.moe.shared_width,
                                  &job.parallel.micro_batch,
                                  &job.parallel.global_batch};
    std::int32_t* const narrow[] = {&job.parallel.tensor,  &job.parallel.pipeline, &job.parallel.virtual_pipeline,
                                    &job.parallel.context, &job.parallel.expert,   &job.parallel.data};
    for (int k = 0; k < 2; ++k) *wide[random() % std::size(wide)] = extremes[random() % std::size(extremes)];
    *narrow[random() % std::size(narrow)] = static_cast<std::int32_t>(extremes[random() % std::size(extremes)]);
    job.parallel.slots = place_layers(job.model, job.parallel).slots;
    for (const SpecProblem& problem : find_problems(job)) {
      EXPECT_FALSE(problem.key.empty());
      EXPECT_EQ(problem.message.find('\n'), std::string::npos);
    }
  }
}

// ---- even fill ----------------------------------------------------------------------------------------------------

/// Whatever the shape, an accepted fill holds each layer once and in order: checked against the definition of a slot.
TEST(PlaceLayers, HoldsEveryLayerOnceInPipelineOrder) {
  std::mt19937 random(61);
  int accepted = 0;
  for (int i = 0; i < 2000; ++i) {
    ModelSpec model;
    ParallelSpec parallel;
    parallel.pipeline = 1 + static_cast<std::int32_t>(random() % 5);
    parallel.virtual_pipeline = 1 + static_cast<std::int32_t>(random() % 3);
    model.layers.assign(1 + random() % 24, LayerKind::dense);
    model.mtp_layers = static_cast<std::int64_t>(random() % 3);
    SlotChoice choice;
    for (std::uint64_t n = random() % 4; n > 0; --n)
      choice.noop_slots.push_back(static_cast<std::int64_t>(random() % 28));
    const LayerPlacement placement = place_layers(model, parallel, choice);
    if (!placement.problems.empty()) {
      EXPECT_TRUE(placement.slots.empty());
      continue;
    }
    ++accepted;
    const std::size_t stages =
        static_cast<std::size_t>(parallel.pipeline) * static_cast<std::size_t>(parallel.virtual_pipeline);
    const std::size_t per_stage = (model.layers.size() + choice.noop_slots.size()) / stages;
    std::int32_t layer = 0;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      const auto& chunk = placement.slots[stage % static_cast<std::size_t>(parallel.pipeline)]
                                         [stage / static_cast<std::size_t>(parallel.pipeline)];
      const std::size_t modules = stage + 1 == stages ? static_cast<std::size_t>(model.mtp_layers) : 0;
      ASSERT_EQ(chunk.size(), per_stage + modules);
      for (std::size_t k = 0; k < per_stage; ++k) {
        const bool noop = std::ranges::count(choice.noop_slots, static_cast<std::int64_t>(stage * per_stage + k)) > 0;
        EXPECT_EQ(chunk[k].kind, noop ? Slot::Kind::noop : Slot::Kind::layer);
        EXPECT_EQ(chunk[k].layer, noop ? -1 : layer++);
      }
    }
    EXPECT_EQ(layer, static_cast<std::int32_t>(model.layers.size()));
  }
  EXPECT_GT(accepted, 200) << "the generator should meet enough shapes that fit";
}

TEST(PlaceLayers, SaysHowManyNoopSlotsAreMissing) {
  ModelSpec model;
  model.layers.assign(61, LayerKind::moe);
  ParallelSpec parallel;
  parallel.pipeline = 16;
  parallel.virtual_pipeline = 2;
  const LayerPlacement placement = place_layers(model, parallel);
  ASSERT_EQ(placement.problems.size(), 1u);
  EXPECT_EQ(placement.problems.front().key, "parallel.pipeline");
  EXPECT_NE(placement.problems.front().message.find("add 3 slots to placement.noop_slots"), std::string::npos);
}

}  // namespace
}  // namespace tidemark::graph_build
