// Keys that decide a storage's bytes, held against what the bytes do when a key is changed.

#include "planner/storage_controls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "integrations/formats/file.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/formats/key_places.h"
#include "planner/graph_build/step_parts.h"
#include "tests/support/random_job.h"
#include "tests/support/sanitized.h"
#include "tests/support/source_dir.h"

namespace tidemark::plan {
namespace {

using graph_build::AttentionSpec;
using graph_build::JobSpec;

/// A storage as a job has it: module path and name.
using Sizes = std::map<std::string, std::set<std::pair<Bytes, Bytes>>>;  // fixed and routed bytes, of every block

struct Built {
  Sizes sizes;
  std::map<std::string, std::set<std::string_view>> keys;
};

std::string name_of(const StorageTemplate& storage) {
  return storage.module_path + "." + storage.name;
}

Built build(const JobSpec& job) {
  Built built;
  for (std::int32_t rank = 0; rank < job.parallel.pipeline; ++rank) {
    const graph_build::StepParts parts = graph_build::make_step_parts(job, testing::ascend_910b(), rank, 1.0);
    for (const StorageTemplate& storage : parts.graph.storage_templates) {
      built.sizes[name_of(storage)].insert({storage.fixed_bytes, storage.routed_rows * storage.routed_row_bytes});
      for (const std::string_view key : control_keys(storage, job)) built.keys[name_of(storage)].insert(key);
    }
  }
  return built;
}

/// A change of one key. The batch is kept divisible, which changes no size.
struct Change {
  std::string_view key;
  std::function<void(JobSpec&)> apply;
};

void double_it(std::int64_t& value) {
  value *= 2;
}

std::vector<Change> size_changes() {
  return {
      {"model.hidden", [](JobSpec& j) { double_it(j.model.hidden); }},
      {"model.vocabulary", [](JobSpec& j) { double_it(j.model.vocabulary); }},
      {"model.sequence", [](JobSpec& j) { double_it(j.model.sequence); }},
      {"model.dense_width", [](JobSpec& j) { double_it(j.model.dense_width); }},
      {"model.activation",
       [](JobSpec& j) {
         using graph_build::Activation;
         j.model.activation = j.model.activation == Activation::gelu ? Activation::swiglu : Activation::gelu;
       }},
      {"model.norm",
       [](JobSpec& j) {
         using graph_build::NormPlacement;
         j.model.norm = j.model.norm == NormPlacement::pre ? NormPlacement::sandwich : NormPlacement::pre;
       }},
      {"model.tied_embedding", [](JobSpec& j) { j.model.tied_embedding = !j.model.tied_embedding; }},
      {"model.attention.heads", [](JobSpec& j) { double_it(j.model.attention.heads); }},
      {"model.attention.kv_heads", [](JobSpec& j) { j.model.attention.kv_heads /= 2; }},
      {"model.attention.head_dim", [](JobSpec& j) { double_it(j.model.attention.head_dim); }},
      {"model.attention.q_lora_rank", [](JobSpec& j) { double_it(j.model.attention.q_lora_rank); }},
      {"model.attention.kv_lora_rank", [](JobSpec& j) { double_it(j.model.attention.kv_lora_rank); }},
      {"model.attention.qk_rope_dim", [](JobSpec& j) { double_it(j.model.attention.qk_rope_dim); }},
      {"model.attention.qk_nope_dim", [](JobSpec& j) { double_it(j.model.attention.qk_nope_dim); }},
      {"model.attention.v_head_dim", [](JobSpec& j) { double_it(j.model.attention.v_head_dim); }},
      {"model.attention.qk_norm", [](JobSpec& j) { j.model.attention.qk_norm = !j.model.attention.qk_norm; }},
      {"model.attention.qkv_bias", [](JobSpec& j) { j.model.attention.qkv_bias = !j.model.attention.qkv_bias; }},
      {"model.moe.shared_gate", [](JobSpec& j) { j.model.moe.shared_gate = !j.model.moe.shared_gate; }},
      {"precision.compute",
       [](JobSpec& j) {
         using Compute = graph_build::ParallelSpec::Compute;
         j.parallel.compute = j.parallel.compute == Compute::bf16 ? Compute::fp8 : Compute::bf16;
       }},
      {"parallel.zero",
       [](JobSpec& j) {
         if (!j.parallel.distributed_optimizer) return;  // it says more then
         j.parallel.sharded_gradients = !j.parallel.sharded_gradients;
         j.parallel.sharded_parameters = j.parallel.sharded_gradients && j.parallel.pipeline == 1;
       }},
      {"model.attention.v_own_storage",
       [](JobSpec& j) { j.model.attention.v_own_storage = !j.model.attention.v_own_storage; }},
      {"model.attention.v_padded", [](JobSpec& j) { j.model.attention.v_padded = !j.model.attention.v_padded; }},
      {"model.moe.experts", [](JobSpec& j) { double_it(j.model.moe.experts); }},
      {"model.moe.top_k", [](JobSpec& j) { double_it(j.model.moe.top_k); }},
      {"model.moe.width", [](JobSpec& j) { double_it(j.model.moe.width); }},
      {"model.moe.shared_width", [](JobSpec& j) { double_it(j.model.moe.shared_width); }},
      {"model.moe.router_fp32", [](JobSpec& j) { j.model.moe.router_fp32 = !j.model.moe.router_fp32; }},
      {"parallel.tensor", [](JobSpec& j) { j.parallel.tensor *= 2; }},
      {"parallel.sequence_parallel", [](JobSpec& j) { j.parallel.sequence_parallel = !j.parallel.sequence_parallel; }},
      {"parallel.context", [](JobSpec& j) { j.parallel.context *= 2; }},
      {"parallel.expert", [](JobSpec& j) { j.parallel.expert *= 2; }},
      {"parallel.tensor_extends_expert",
       [](JobSpec& j) { j.parallel.tensor_extends_expert = !j.parallel.tensor_extends_expert; }},
      {"parallel.hierarchical_expert_communication",
       [](JobSpec& j) {
         j.parallel.hierarchical_expert_communication = !j.parallel.hierarchical_expert_communication;
       }},
      {"parallel.expert_exchange_parts", [](JobSpec& j) { ++j.parallel.expert_exchange_parts; }},
      {"parallel.data",
       [](JobSpec& j) {
         j.parallel.data *= 2;
         double_it(j.parallel.global_batch);
       }},
      {"parallel.micro_batch",
       [](JobSpec& j) {
         double_it(j.parallel.micro_batch);
         double_it(j.parallel.global_batch);
       }},
      {"parallel.distributed_optimizer",
       [](JobSpec& j) { j.parallel.distributed_optimizer = !j.parallel.distributed_optimizer; }},
      {"precision.parameters", [](JobSpec& j) { j.parallel.parameter_bytes = 6 - j.parallel.parameter_bytes; }},
      {"precision.gradients", [](JobSpec& j) { j.parallel.gradient_bytes = 6 - j.parallel.gradient_bytes; }},
      {"precision.optimizer.master", [](JobSpec& j) { j.parallel.optimizer_bytes -= 2; }},
      {"precision.reuse_fp32_parameter",
       [](JobSpec& j) { j.parallel.reuse_fp32_parameter = !j.parallel.reuse_fp32_parameter; }},
  };
}

/// Keys of counts, of storages that come and go with them, and of what a plan has memory for.
bool changes_no_size(std::string_view key) {
  constexpr std::array<std::string_view, 12> kKeys = {"model.attention.v_own_storage",
                                                      "model.layers",
                                                      "model.mtp_layers",
                                                      "model.tied_embedding",
                                                      "parallel.pipeline",
                                                      "parallel.virtual_pipeline",
                                                      "expert_load.mean",
                                                      "expert_load.coefficient_of_variation",
                                                      "expert_load.layer_correlation",
                                                      "expert_load.popularity_share",
                                                      "expert_load.quantile",
                                                      "precision.optimizer.moments"};
  return std::ranges::find(kKeys, key) != kKeys.end();
}

/// With a shared fp32 parameter the optimizer's state depends on the precision of parameters, which is said by
/// `reuse_fp32_parameter`. The scratch of an update is as large as the largest tensor: of the keys of all tensors it
/// has those of tensors that can be the largest. Parts of an exchange divide tokens, not always evenly.
bool is_said_otherwise(std::string_view key, std::string_view storage) {
  return (key == "precision.parameters" && storage.ends_with(".optimizer_state")) ||
         storage == "optimizer.update_scratch" ||
         (key == "parallel.tensor" && storage.find(".part") != std::string_view::npos);
}

/// Parts of an exchange are sized alike.
std::string without_part(std::string storage) {
  if (const std::size_t part = storage.find(".part"); part != std::string::npos) storage.erase(part, 6);
  return storage;
}

TEST(StorageControls, AKeyThatChangesAStorageIsAmongItsKeysAndTheOthersDo) {
  testing::JobGenerator generator(20261128);
  std::map<std::string, std::set<std::string_view>> named, moved;
  std::set<std::string> missing;
  for (int i = 0; i < testing::cases(60); ++i) {
    const JobSpec job = generator.next();
    const Built before = build(job);
    for (const auto& [storage, keys] : before.keys) {
      EXPECT_FALSE(keys.empty()) << storage;
      named[without_part(storage)].insert(keys.begin(), keys.end());
    }
    for (const Change& change : size_changes()) {
      JobSpec changed = job;
      change.apply(changed);
      if (changed == job || !graph_build::find_problems(changed).empty()) continue;
      for (const auto& [storage, sizes] : build(changed).sizes) {
        const auto known = before.sizes.find(storage);
        if (known == before.sizes.end() || known->second == sizes) continue;
        moved[without_part(storage)].insert(change.key);
        if (!before.keys.at(storage).contains(change.key) && !is_said_otherwise(change.key, storage))
          missing.insert(storage + " lacks " + std::string(change.key));
      }
    }
  }
  for (const std::string& line : missing) ADD_FAILURE() << line;
  if (testing::cases(60) < 60) return;  // too few jobs to see every key do something
  for (const auto& [storage, keys] : named)
    for (const std::string_view key : keys)
      EXPECT_TRUE(changes_no_size(key) || moved[storage].contains(key)) << storage << " does not depend on " << key;
}

TEST(StorageControls, EveryStorageOfTheShippedModelsHasALineOfItsFile) {
  const std::filesystem::path models = std::filesystem::path(testing::source_dir()) / "models";
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(models)) {
    if (entry.path().extension() != ".yaml") continue;
    ++seen;
    const Result<std::string> text = formats::read_file(entry.path());
    ASSERT_TRUE(text.ok());
    const Result<JobSpec> job = formats::read_job(text.value(), entry.path().filename().string());
    if (!job.ok() && formats::read_described_job(text.value(), "").ok()) continue;  // it is not planned
    ASSERT_TRUE(job.ok()) << job.error().message;
    const auto places = formats::key_places(text.value(), entry.path().filename().string());
    ASSERT_TRUE(places.ok()) << places.error().message;
    for (const auto& [storage, keys] : build(job.value()).keys)
      EXPECT_TRUE(std::ranges::any_of(keys, [&](std::string_view key) { return places.value().contains(key); }))
          << entry.path() << ": " << storage;
  }
  EXPECT_GE(seen, 5);
}

TEST(KeyPlaces, SayTheLineAndTheValueOfEveryKey) {
  const auto places = formats::key_places(
      "model:\n  # a comment\n  layers: {dense: 3, moe: 58}\n  name: 'a b'\nlist: [1, 2]\n", "job.yaml");
  ASSERT_TRUE(places.ok());
  EXPECT_EQ(places.value().at("model.layers"), (formats::KeyPlace{.line = 3, .value = "{dense: 3, moe: 58}"}));
  EXPECT_EQ(places.value().at("model.layers.moe"), (formats::KeyPlace{.line = 3, .value = "58"}));
  EXPECT_EQ(places.value().at("model.name"), (formats::KeyPlace{.line = 4, .value = "a b"}));
  EXPECT_EQ(places.value().at("list"), (formats::KeyPlace{.line = 5, .value = "[1, 2]"}));
  EXPECT_EQ(places.value().at("model").line, 1);
  EXPECT_FALSE(formats::key_places("a: [", "job.yaml").ok());
}

TEST(KeyPlaces, ControlsBecomeLinesAndDefaultsComeLast) {
  const auto places = formats::key_places("model:\n  hidden: 7680\n", "job.yaml");
  ASSERT_TRUE(places.ok());
  budget::Holdings holdings;
  holdings.ranks.push_back(
      {.storages = {{.name = "x", .controls = {{.text = "parallel.context"}, {.text = "model.hidden"}}}}});
  formats::place_controls(holdings, places.value(), "job.yaml");
  const std::vector<budget::Control> wanted = {{.file = "job.yaml", .line = 2, .text = "model.hidden: 7680"},
                                               {.text = "parallel.context"}};
  EXPECT_EQ(holdings.ranks[0].storages[0].controls, wanted);
  formats::place_controls(holdings, places.value(), "other.yaml");
  EXPECT_EQ(holdings.ranks[0].storages[0].controls, wanted) << "what has a place keeps it";
}

TEST(KeyPlaces, EditsBecomeLinesAndNewKeysTheLineOfTheirSection) {
  const auto places = formats::key_places("model:\n  hidden: 7680\nparallel:\n  micro_batch: 2\n", "job.yaml");
  ASSERT_TRUE(places.ok());
  budget::Remedy remedy;
  for (const char* key : {"parallel.micro_batch", "parallel.sequence_parallel", "training.amp", ""})
    remedy.edits.push_back({.text = "x", .where = {.text = key}});
  formats::place_edits(remedy, places.value(), "job.yaml");
  EXPECT_EQ(remedy.edits[0].where, (budget::Control{"job.yaml", 4, "parallel.micro_batch: 2"}));
  EXPECT_EQ(remedy.edits[1].where, (budget::Control{"job.yaml", 3, "parallel.sequence_parallel (not given)"}));
  EXPECT_EQ(remedy.edits[2].where, (budget::Control{"job.yaml", 0, "training.amp (not given)"}));
  EXPECT_EQ(remedy.edits[3].where, budget::Control()) << "of no key";
}

TEST(StorageControls, KeysOfAnotherKindOfModelAreLeftOut) {
  const JobSpec pangu = testing::pangu_job();
  for (const auto& [storage, keys] : build(pangu).keys) {
    EXPECT_FALSE(keys.contains("model.attention.head_dim")) << storage;
    EXPECT_FALSE(keys.contains("model.attention.kv_heads")) << storage;
  }
}

TEST(StorageControls, HowManyLayersThereAreDoesNotDecideHeadsAndEmbeddings) {
  const JobSpec pangu = testing::pangu_job();
  int seen = 0;
  for (const auto& [storage, keys] : build(pangu).keys) {
    if (!storage.ends_with("head.parameters") && !storage.ends_with("embedding.parameters")) continue;
    ++seen;
    EXPECT_FALSE(keys.contains("model.layers") || keys.contains("parallel.pipeline")) << storage;
  }
  EXPECT_GT(seen, 0);
}

TEST(StorageControls, EveryPartOfTheReserveHasAKey) {
  for (const ReservePart part :
       {ReservePart::context, ReservePart::workspace, ReservePart::collectives, ReservePart::framework})
    EXPECT_FALSE(control_keys(part).empty());
}

}  // namespace
}  // namespace tidemark::plan
