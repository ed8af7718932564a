// The vocabularies of frameworks against the storages that models really have, and the text of settings.

#include "integrations/formats/export_arguments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "integrations/formats/import_yaml.h"
#include "integrations/formats/search_log.h"
#include "integrations/formats/search_report.h"
#include "policies/policies.h"
#include "tests/support/data.h"
#include "tests/support/devices.h"
#include "tests/support/json_text.h"

namespace tidemark {
namespace {

using Storages = std::vector<std::string>;

/// The small model with everything kept, as a plan file.
formats::PlanFile small_plan(bool overlap, const char* policy = "keep-all") {
  const auto job = formats::read_job(testing::text_of(testing::source_path("models/small-mla-moe.yaml")), "model");
  const auto machine = formats::read_machine(testing::text_of(testing::source_path("devices/ascend-910b-64g.yaml")),
                                             "device", testing::shipped_chips());
  EXPECT_TRUE(job.ok() && machine.ok());
  plan::PlanRequest request{
      .job = job.value(), .machine = machine.value(), .policy = policies::find_policy(policy), .load = 1.0};
  request.job.parallel.overlap_forward_backward = overlap;
  const auto outcome = plan::plan_step(request);
  EXPECT_TRUE(outcome.ok());
  auto file = formats::read_plan_file(formats::write_plan_file(request, outcome.value()), "plan");
  EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
  return std::move(file).value();
}

std::map<std::string, Storages> words_of(formats::Framework framework, const formats::PlanFile& plan) {
  std::map<std::string, Storages> words;
  for (const formats::ExportWord& word : formats::vocabulary_of(framework, plan).words)
    words[word.option + (word.value.empty() ? "" : " " + word.value)] = word.storages;
  return words;
}

// A storage that no model has is left out of a word without a message, so each name is said again here.
TEST(ExportVocabulary, NamesStoragesThatModelsHave) {
  const formats::PlanFile plan = small_plan(true);
  const Storages up_projection = {"self_attention.latent_q_norm", "self_attention.latent_kv_norm", "self_attention.q",
                                  "self_attention.k", "self_attention.v"};
  const Storages shared = {"mlp.shared_experts.shared_fc1_out", "mlp.shared_experts.shared_act_out"};
  const std::map<std::string, Storages> megatron = {
      {"--recompute-num-layers", {}},
      {"--recompute-modules layernorm", {"input_norm.y1", "mlp_norm.y2"}},
      {"--recompute-modules mla_up_proj", up_projection},
      {"--recompute-modules mlp", {"mlp.fc1_out", "mlp.act_out"}},
      {"--recompute-modules moe_act", {"mlp.experts.act_out"}},
      {"--recompute-modules shared_experts", shared},
      {"--recompute-modules moe",
       {"mlp.experts.fc1_in", "mlp.experts.fc1_out", "mlp.experts.act_out", "mlp.experts.unpermute_in", shared[0],
        shared[1]}},
      {"--offload-modules attn_norm", {"layer.x"}},
      {"--offload-modules qkv_linear", {"input_norm.y1"}},
      {"--offload-modules core_attn", {"self_attention.q", "self_attention.k", "self_attention.v"}},
      {"--offload-modules attn_proj", {"self_attention.attention_out_core"}},
      {"--offload-modules mlp_norm", {"layer.x1"}},
      {"--offload-modules expert_fc1", {"mlp.experts.fc1_in"}},
      {"--offload-modules moe_act", {"mlp.experts.fc1_out"}}};
  EXPECT_EQ(words_of(formats::Framework::megatron, plan), megatron);
  Storages zero_memory = up_projection;
  zero_memory.insert(zero_memory.end(), {"self_attention.attention_out_core", "self_attention.softmax_stats"});
  std::map<std::string, Storages> mindspeed = {
      {"--recompute-num-layers", {}},
      {"--recompute-activation-function", {"mlp.act_out", "mlp.experts.act_out", shared[1]}},
      {"--recompute-norm", {"input_norm.y1", "mlp_norm.y2"}},
      {"--recompute-mla-up-proj", up_projection},
      {"--mla-zero-memory", zero_memory},
      {"--moe-zero-memory level0", {"mlp.experts.fc1_in", "mlp.experts.act_out", shared[1]}},
      {"--moe-unperm2-mem-optim-swap", {"mlp.experts.unpermute_in"}}};
  EXPECT_EQ(words_of(formats::Framework::mindspeed, plan), mindspeed);
  mindspeed.erase("--moe-unperm2-mem-optim-swap");
  mindspeed["--swap-attention"] = {"layer.x",
                                   "input_norm.y1",
                                   "self_attention.latent",
                                   "self_attention.q",
                                   "self_attention.k",
                                   "self_attention.v",
                                   "self_attention.attention_out_core",
                                   "self_attention.softmax_stats",
                                   "layer.x1"};
  EXPECT_EQ(words_of(formats::Framework::mindspeed, small_plan(false)), mindspeed);
}

/// Values of words by option and value; the others are off.
search::SettingValues values_for(const formats::ExportVocabulary& vocabulary,
                                 const std::map<std::string, std::int32_t>& on) {
  search::SettingValues values;
  std::size_t found = 0;
  for (const formats::ExportWord& word : vocabulary.words) {
    const auto at = on.find(word.option + (word.value.empty() ? "" : " " + word.value) +
                            (word.rank < 0 ? "" : " " + std::to_string(word.rank) + "." + std::to_string(word.chunk)));
    values.push_back(at == on.end() ? 0 : at->second);
    if (at != on.end()) ++found;
  }
  EXPECT_EQ(found, on.size());
  EXPECT_TRUE(search::are_consistent(vocabulary.settings, values));
  return values;
}

/// Loads of the plan are those of its capacity, so that the job needs it as well.
TEST(ExportText, KeepsTheCapacity) {
  formats::PlanFile plan = small_plan(true);
  const auto text = [&](formats::Framework framework) {
    const formats::ExportVocabulary vocabulary = formats::vocabulary_of(framework, plan);
    return formats::settings_text(vocabulary, values_for(vocabulary, {}), plan);
  };
  plan.job.model.moe.capacity_factor = 1.25;
  EXPECT_EQ(text(formats::Framework::megatron), "--moe-expert-capacity-factor 1.25\n");
  plan.job.model.moe.pad_to_capacity = true;
  for (const formats::Framework framework : {formats::Framework::megatron, formats::Framework::mindspeed})
    EXPECT_EQ(text(framework), "--moe-expert-capacity-factor 1.25\n--moe-pad-expert-input-to-capacity\n");
  EXPECT_NE(formats::vocabulary_of(formats::Framework::mindformers, plan).remarks.back().find("capacity_factor: 1.25"),
            std::string::npos);
  plan.job.model.moe.capacity_level = graph_build::MoeSpec::CapacityLevel::device;
  EXPECT_EQ(text(formats::Framework::megatron), "# nothing to set: everything is kept\n");
  EXPECT_NE(formats::vocabulary_of(formats::Framework::megatron, plan).remarks.back().find("no argument says"),
            std::string::npos);
}

TEST(ExportText, IsWhatLaunchScriptsTake) {
  const formats::PlanFile plan = small_plan(true);
  const auto text = [&](formats::Framework framework, const std::map<std::string, std::int32_t>& on) {
    const formats::ExportVocabulary vocabulary = formats::vocabulary_of(framework, plan);
    return formats::settings_text(vocabulary, values_for(vocabulary, on), plan);
  };
  EXPECT_EQ(text(formats::Framework::megatron, {{"--recompute-modules moe_act", 1},
                                                {"--recompute-modules layernorm", 1},
                                                {"--offload-modules core_attn", 1},
                                                {"--offload-modules attn_proj", 1}}),
            "--recompute-granularity selective\n--recompute-modules layernorm moe_act\n"
            "--fine-grained-activation-offloading\n--offload-modules core_attn attn_proj\n");
  EXPECT_EQ(text(formats::Framework::megatron, {{"--recompute-num-layers", 1}}),
            "--recompute-granularity full\n--recompute-method block\n--recompute-num-layers 1\n");
  EXPECT_EQ(text(formats::Framework::mindspeed, {{"--recompute-norm", 1},
                                                 {"--recompute-mla-up-proj", 1},
                                                 {"--moe-zero-memory level0", 1},
                                                 {"--moe-unperm2-mem-optim-swap", 1}}),
            "--recompute-norm\n--recompute-norm-num-layers 1\n--recompute-mla-up-proj\n--mla-up-proj-tp-overlap\n"
            "--moe-zero-memory level0\n--moe-fb-overlap\n--moe-unperm2-mem-optim-swap\n");
  EXPECT_EQ(text(formats::Framework::mindspeed, {}), "# nothing to set: everything is kept\n");
  EXPECT_EQ(text(formats::Framework::mindformers, {{"recompute 0.0", 2}, {"recompute 1.1", 1}}),
            "recompute_config:\n  recompute: [[2, 0], [0, 1]]\n  select_recompute: False\n"
            "  parallel_optimizer_comm_recompute: False\n  mp_comm_recompute: True\n");
  EXPECT_EQ(text(formats::Framework::mindformers, {{"select_recompute feed_forward\\.mul 0.0", 1}}),
            "recompute_config:\n  recompute: False\n  select_recompute:\n    'feed_forward\\.mul': [[1, 0], [0, 0]]\n"
            "  parallel_optimizer_comm_recompute: False\n  mp_comm_recompute: True\n");
}

TEST(ExportStarts, FollowThePlan) {
  const formats::PlanFile kept = small_plan(true);
  const formats::ExportVocabulary vocabulary = formats::vocabulary_of(formats::Framework::megatron, kept);
  const std::vector<search::SettingValues> starts = formats::starts_of(vocabulary, kept);
  EXPECT_EQ(starts.front(), search::SettingValues(vocabulary.words.size(), 0));
  const formats::PlanFile published = small_plan(true, "published-recipe");
  const formats::ExportVocabulary again = formats::vocabulary_of(formats::Framework::mindspeed, published);
  const search::SettingValues like = formats::starts_of(again, published).front();
  std::set<std::string> on;
  for (std::size_t w = 0; w < like.size(); ++w)
    if (like[w] > 0) on.insert(again.words[w].option);
  EXPECT_TRUE(on.contains("--moe-unperm2-mem-optim-swap"));
  EXPECT_TRUE(on.contains("--recompute-activation-function"));
  for (const search::SettingValues& start : formats::starts_of(again, published))
    EXPECT_TRUE(search::are_consistent(again.settings, start));
}

TEST(SearchLog, ReadsBackWhatItWrites) {
  const search::SearchLayout one{.parallel = {.tensor = 2}}, other{.parallel = {.tensor = 4}};
  const search::LayoutFigures fits{.fits = true,
                                   .peak_bytes = 1,
                                   .step_ns = 21,
                                   .compute_ns = 2,
                                   .memory_ns = 3,
                                   .communication_ns = 4,
                                   .imbalance_ns = 5,
                                   .bubble_ns = 7};
  const search::LayoutFigures over{.reason = "rank 3: too\tmuch", .peak_bytes = 9};
  const std::string header = "tidemark-search 1 00ff\n";
  const std::string text = header + formats::search_line(one, fits) + formats::search_line(other, over);
  for (const std::string& ended : {text, testing::with_matches_as(text, "\n", "\r\n")}) {
    for (std::size_t cut = 0; cut <= ended.size(); ++cut) {
      const auto log = formats::read_search_log(std::string_view(ended).substr(0, cut), "log", header);
      ASSERT_TRUE(log.ok()) << cut;
      EXPECT_LE(log.value().whole_bytes, cut);
      const auto lines = static_cast<std::size_t>(std::ranges::count(ended.substr(0, cut), '\n'));
      EXPECT_EQ(log.value().known.size(), lines == 0 ? 0 : lines - 1) << cut;
    }
    const auto log = formats::read_search_log(ended, "log", header);
    EXPECT_EQ(log.value().known.at(search::layout_text(one)), fits);
    EXPECT_EQ(log.value().known.at(search::layout_text(other)).reason, "rank 3: too much");
  }
  EXPECT_FALSE(formats::read_search_log(text, "log", "tidemark-search 1 0100\n").ok());
  EXPECT_FALSE(formats::read_search_log(header + "TP2\tfits\t-1\t2\t3\t4\t5\t6\t7\t\n", "log", header).ok());
}

TEST(SearchReport, SaysWhatDiffersLargestFirst) {
  const search::LayoutFigures a{.step_ns = 3'000'000'000, .memory_ns = 10'000'000, .bubble_ns = 500'000'000};
  const search::LayoutFigures b{.step_ns = 4'000'000'000, .communication_ns = 1'000'000'000, .bubble_ns = 300'000'000};
  EXPECT_EQ(formats::difference_text(a, b), "communication -1.00 s, bubble +0.20 s, memory +0.01 s");
  EXPECT_EQ(formats::difference_text(a, a), "no part differs by as much as 0.005 s");
}

}  // namespace
}  // namespace tidemark
