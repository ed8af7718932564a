// Which arguments decide a term, and where they stand. The table is held against the estimate itself: an argument it
// names for a term moves that term in some run, and every term it has is one that some run holds.

#include "planner/estimate/term_controls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "integrations/formats/import_arguments.h"
#include "planner/estimate/error_band.h"
#include "planner/estimate/run_holdings.h"
#include "tests/planner/estimate/argument_sets.h"
#include "tests/support/data.h"

namespace tidemark::estimate::testing {
namespace {

using budget::Control;

// ---- places -------------------------------------------------------------------------------------------------------

TEST(ArgumentPlacesOf, TakeFileLineAndWordsOfTheLastOfEqualNames) {
  const ArgumentSet set{.arguments = {{"num_layers", "61", false, "dir/run.sh:12"},
                                      {"num-layers", "48", false, "dir/run.sh:20"},
                                      {"bf16", "", true, "C:run.sh:3"},
                                      {"data-path", std::string(80, 'x'), false, "run.sh:4"},
                                      {"swiglu", "", true, "a row"}},
                        .environment = {{"CUBLAS_WORKSPACE_CONFIG", ":4096:8", false, "run.sh:2"}}};
  const ArgumentPlaces places = places_of(set);
  EXPECT_EQ(places.at("num-layers"), (Control{"dir/run.sh", 20, "--num-layers 48"}));
  EXPECT_EQ(places.at("bf16"), (Control{"C:run.sh", 3, "--bf16"}));
  EXPECT_EQ(places.at("swiglu"), (Control{"a row", 0, "--swiglu"}));
  EXPECT_EQ(places.at("data-path").text, "--data-path " + std::string(60, 'x') + "...");
  EXPECT_EQ(places.at("CUBLAS_WORKSPACE_CONFIG"), (Control{"run.sh", 2, "CUBLAS_WORKSPACE_CONFIG=:4096:8"}));
  EXPECT_EQ(place_of_argument("recompute-granularity", places),
            (Control{"", 0, "--recompute-granularity (not given)"}));
  EXPECT_EQ(place_of_argument("PYTORCH_CUDA_ALLOC_CONF", places),
            (Control{"", 0, "PYTORCH_CUDA_ALLOC_CONF (not set)"}));
}

std::optional<Control> control_of(const budget::RankHoldings& rank, std::string_view storage, std::string_view text) {
  const auto found = std::ranges::find(rank.storages, storage, &budget::HeldStorage::name);
  if (found == rank.storages.end()) return std::nullopt;
  const auto control = std::ranges::find(found->controls, text, &Control::text);
  return control == found->controls.end() ? std::nullopt : std::optional(*control);
}

TEST(LaunchScriptControls, PointIntoTheScript) {
  const auto path = tidemark::testing::source_path("tests/data/arguments/launch_npu.sh");
  const std::string text = tidemark::testing::text_of(path);
  const auto file = formats::read_arguments(text, "launch_npu.sh");
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto imported = import_run(file.value().set, file.value().hints);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  const auto holdings = run_holdings(imported.value(), {}, places_of(file.value().set), "launch_npu.sh");
  ASSERT_TRUE(holdings.ok()) << holdings.error().message;
  std::vector<std::string> lines{""};
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::size_t placed = 0;
  for (const budget::RankHoldings& rank : holdings.value().ranks) {
    for (const budget::HeldStorage& storage : rank.storages) {
      for (const Control& control : storage.controls) {
        if (control.file.empty()) continue;
        EXPECT_EQ(control.file, "launch_npu.sh");
        ASSERT_LT(static_cast<std::size_t>(control.line), lines.size());
        const std::string name = control.text.substr(0, control.text.find_first_of(" ="));
        const std::string& line = lines[static_cast<std::size_t>(control.line)];
        EXPECT_TRUE(line.find(name) != std::string::npos) << control.text << " is not in: " << line;
        ++placed;
      }
    }
  }
  EXPECT_GE(placed, 40U);
  const budget::RankHoldings& first = holdings.value().ranks.front();
  EXPECT_TRUE(control_of(first, "activations", "--seq-length 4096").has_value());  // put together from a variable
  EXPECT_TRUE(control_of(first, "activations", "--recompute-granularity full").has_value());
  EXPECT_TRUE(control_of(first, "activations", "--swap-attention (not given)").has_value());
  EXPECT_FALSE(control_of(first, "activations", "--fine-grained-activation-offloading (not given)").has_value());
  EXPECT_FALSE(
      control_of(first, "moments", "--swap-optimizer (not given)").has_value());  // not beside reuse-fp32-param
}

TEST(AbsentArguments, AreNamedWhereTheyWouldHelp) {
  const auto controls = [](std::string_view more, std::string_view term) {
    const ImportedRun imported = import_small(more).value();
    std::set<std::string> texts;
    for (const Control& control : controls_of(*find_term_rule(term), imported.run, {})) texts.insert(control.text);
    return texts;
  };
  EXPECT_TRUE(controls("", "moments").contains("--use-distributed-optimizer (not given)"));
  EXPECT_FALSE(controls("--use-distributed-optimizer", "moments").contains("--use-distributed-optimizer (not given)"));
  EXPECT_FALSE(controls("", "activations").contains("--sequence-parallel (not given)"));
  EXPECT_TRUE(controls("--tensor-model-parallel-size 2", "activations").contains("--sequence-parallel (not given)"));
  EXPECT_FALSE(controls("", "main_parameters").contains("--reuse-fp32-param (not given)"));  // of MindSpeed
}

// ---- the table against the estimate ---------------------------------------------------------------------------------

struct Base {
  std::string line;
  bool ascend = false;
  bool resumed = false;
  bool gb200 = false;
};

/// Runs that hold every term there is, between them.
std::vector<Base> bases() {
  const std::string moe =
      " --num-experts 8 --moe-ffn-hidden-size 256 --moe-router-topk 2 --moe-grouped-gemm"
      " --expert-model-parallel-size 2 --vocab-size 32000";
  const std::string deep = " --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3";
  return {
      {"--vocab-size 32000"},
      {"--vocab-size 32000 --use-distributed-optimizer --optimizer adam"},
      {"--padded-vocab-size 32000 --grad-reduce-in-bf16 --use-distributed-optimizer" + deep},
      {"--padded-vocab-size 64000 --tensor-model-parallel-size 2 --sequence-parallel --seq-length 2048"},
      {"--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 --seq-length 2048"},
      {"--recompute-granularity full --recompute-method block --recompute-num-layers 4 --vocab-size 1000"},
      {"--recompute-granularity selective --recompute-modules mlp --vocab-size 1000"},
      {moe + deep},
      {moe + " --moe-token-dispatcher-type alltoall --tensor-model-parallel-size 2 --sequence-parallel"},
      {moe + " --moe-token-dispatcher-type flex --overlap-moe-expert-parallel-comm"},
      {moe + " --moe-router-topk 8 --micro-batch-size 8 --vocab-size 256"},
      {"--vocab-size 32000 --hidden-dropout 0.1 --mtp-num-layers 1 --micro-batch-size 2"},
      {"--vocab-size 32000 --cross-entropy-loss-fusion --micro-batch-size 2"},
      {"--vocab-size 32000 --group-query-attention --num-query-groups 2 --use-distributed-optimizer --seq-length 2048"},
      {"--vocab-size 32000 --defer-embedding-wgrad-compute --tensor-model-parallel-size 2"},
      {"--vocab-size 32000 --fp8-format e4m3 --fp8-recipe blockwise"},
      {"--vocab-size 32000 --fp8-format e4m3 --fp8-recipe blockwise", false, false, true},
      {"--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 --vocab-size 256"},
      {"--vocab-size 32000 --tensor-model-parallel-size 2 --mtp-num-layers 1 --pipeline-model-parallel-size 2"},
      {moe + " --grad-reduce-in-bf16"},
      {"--vocab-size 32000 --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params"},
      {"--vocab-size 32000 --use-distributed-optimizer --use-precision-aware-optimizer"},
      {"--vocab-size 32000 --encoder-num-layers 4 --decoder-num-layers 4 --decoder-seq-length 256"},
      {"--vocab-size 32000 --use-distributed-optimizer", false, true},
      {"--vocab-size 32000", true},
      {"--padded-vocab-size 32000 --use-distributed-optimizer --seq-length 64", true},
      {"--vocab-size 32000 --reuse-fp32-param --seq-length 64 --micro-batch-size 1", true},
      {"--vocab-size 32000 --swap-optimizer --seq-length 64 --micro-batch-size 1", true},
      {"--vocab-size 32000 --swap-optimizer --use-distributed-optimizer --swap-attention", true},
      {moe + deep, true},
      {moe + " --seq-length 64 --micro-batch-size 1 --num-experts 16 --expert-model-parallel-size 1", true},
      {moe + " --tensor-model-parallel-size 2 --sequence-parallel --moe-token-dispatcher-type alltoall", true},
      {"--vocab-size 32000 --attention-mask-type general --position-embedding-type alibi --micro-batch-size 1", true},
      {"--vocab-size 32000 --use-flash-attn --attention-mask-type general", true},
      {"--vocab-size 32000 --use-ascend-coc --recompute-in-advance" + deep, true},
      {"--vocab-size 32000 --mtp-num-layers 1 --swap-attention --tensor-model-parallel-size 2", true},
      {"--vocab-size 99000 --mtp-num-layers 1 --micro-batch-size 1 --seq-length 256 --hidden-size 2048", true},
      {"--vocab-size 32000 --output-layer-slice-num 2 --micro-batch-size 4", true},
      {"--vocab-size 32000 --stage dpo --micro-batch-size 1", true},
      {moe + " --stage dpo", true},
      {"--vocab-size 32000 --recompute-in-advance --tensor-model-parallel-size 2", true},
      {"--vocab-size 32000 --seq-length 64 --micro-batch-size 1 --ffn-hidden-size 8192 --use-distributed-optimizer",
       true},
      {"--vocab-size 32000 --seq-length 64 --micro-batch-size 1 --ffn-hidden-size 8192", true},
      {"--vocab-size 1000 --use-flash-attn --is-instruction-dataset --seq-length 4096 --micro-batch-size 2"
       " --pipeline-model-parallel-size 4 --hidden-size 128",
       true},
      {"--vocab-size 1000 --use-flash-attn --is-pairwise-dataset --seq-length 4096 --micro-batch-size 2"
       " --pipeline-model-parallel-size 4 --hidden-size 128",
       true},
  };
}

std::vector<std::string> alternatives(std::string_view name) {
  static const std::map<std::string_view, std::vector<std::string>> kWords = {
      {"moe-token-dispatcher-type", {"alltoall", "allgather", "flex"}},
      {"recompute-granularity", {"full --recompute-method uniform --recompute-num-layers 1", "selective"}},
      {"recompute-method", {"block", "uniform"}},
      {"recompute-modules", {"mlp core_attn", "layernorm mlp", "moe"}},
      {"exp-avg-dtype", {"bf16"}},
      {"exp-avg-sq-dtype", {"bf16"}},
      {"optimizer", {"sgd"}},
      {"transformer-impl", {"local"}},
      {"fp8-format", {"None"}},
      {"fp4-format", {"e2m1"}},
      {"fp8-recipe", {"delayed"}},
      {"position-embedding-type", {"rope"}},
      {"attention-mask-type", {"causal"}},
      {"data-parallel-sharding-strategy", {"optim"}},
      {"use-precision-aware-optimizer", {"true", "true --exp-avg-dtype bf16"}},
      {"cross-entropy-loss-fusion", {"false", "true --cross-entropy-fusion-impl te"}},
      {"cross-entropy-fusion-impl", {"te --cross-entropy-loss-fusion"}},
      {"loss-compute-mode", {"chunk --loss-chunk-size 32"}},
      {"stage", {"sft"}},
      {"optimizer-cpu-offload", {"true"}},
      {"fine-grained-activation-offloading", {"true --offload-modules qkv_linear"}},
      {"use-megatron-fsdp", {"true --data-parallel-sharding-strategy optim_grads_params", "false"}},
      {"hidden-dropout", {"0"}}};
  if (const auto found = kWords.find(name); found != kWords.end()) return found->second;
  const bool is_switch = takes(name) == Takes::nothing;
  if (is_switch) return {"true", "false"};
  return {"1", "2", "4", "3", "6", "8", "12", "24", "128", "512", "1024", "2048", "4096", "48000", "131072"};
}

/// Bytes of every term, all stages together; nothing: refused.
std::optional<std::map<std::string, double>> terms_of(const Base& base, const std::string& more,
                                                      const std::vector<Argument>& environment = {}) {
  ArgumentSet set = arguments(std::string(kSmall) + base.line + " " + more);
  set.environment = environment;
  RunHints hints = base.ascend ? on_ascend() : on_eight();
  hints.platform.resumed = hints.platform.lts = base.resumed;
  if (base.gb200) hints.platform.accelerator = Accelerator::gb200;
  const Result<ImportedRun> imported = import_run(set, hints);
  if (!imported) return std::nullopt;
  const Result<std::vector<RankMemory>> stages = estimate_stages(imported.value().run);
  if (!stages) return std::nullopt;
  std::map<std::string, double> bytes;
  for (const RankMemory& memory : stages.value())
    for (const std::vector<Term>* terms : {&memory.steady, &memory.at_peak, &memory.at_running_peak})
      for (const Term& term : *terms) bytes[std::string(term.name)] += term.bytes;
  return bytes;
}

/// Values of one argument, as a command line or a variable takes them.
std::vector<std::string> values_of(const std::string& name, bool variable) {
  if (!variable) return alternatives(name);
  return {name == "CUBLAS_WORKSPACE_CONFIG" ? ":16:8" : "expandable_segments:True"};
}

/// Takes out of `terms` those that an argument moves in a run that holds them.
void remove_moved(const std::string& name, const std::vector<std::pair<Base, std::map<std::string, double>>>& runs,
                  std::set<std::string>& terms) {
  const bool variable = name.front() >= 'A' && name.front() <= 'Z';
  for (const auto& [base, before] : runs) {
    const auto is_held = [&before](const std::string& term) { return before.contains(term); };
    for (const std::string& value : values_of(name, variable)) {
      if (std::ranges::none_of(terms, is_held)) break;
      const auto after =
          variable ? terms_of(base, "", {{.name = name, .value = value}}) : terms_of(base, "--" + name + " " + value);
      if (!after) continue;
      std::erase_if(terms, [&](const std::string& term) {
        const auto found = before.find(term), now = after->find(term);
        return found != before.end() && (now == after->end() || now->second != found->second);
      });
    }
  }
}

/// Of torchtitan's runs, which no launch script is: tests/configs/titan_accuracy_test.cc looks for their rules.
const std::set<std::string>& of_torchtitan() {
  static const std::set<std::string> terms = {"accumulated_gradients", "gathered_copies", "gathered_layers",
                                              "gathered_output",       "layer_gradients", "pipeline_outputs"};
  return terms;
}

TEST(TermRules, AreOfTermsThatSomeRunHolds) {
  std::set<std::string> held;
  for (const Base& base : bases()) {
    const auto terms = terms_of(base, "");
    ASSERT_TRUE(terms.has_value()) << base.line;
    for (const auto& [name, bytes] : *terms) held.insert(name);
  }
  std::set<std::string> ruled;
  for (const TermRule& rule : term_rules())
    EXPECT_TRUE(ruled.insert(std::string(rule.term)).second) << rule.term << " is there twice";
  held.insert(of_torchtitan().begin(), of_torchtitan().end());
  held.insert("calibration");  // of a correction, which no argument makes
  EXPECT_EQ(ruled, held);
}

TEST(TermRules, NameArgumentsThatMoveTheirTerms) {
  std::map<std::string, std::set<std::string>> terms_by_argument;
  for (const TermRule& rule : term_rules()) {
    for (const std::string_view list : {rule.decided_by[0], rule.decided_by[1], rule.lowered_by}) {
      std::istringstream words{std::string(list)};
      for (std::string name; words >> name;) {
        EXPECT_TRUE(is_used(name) || (name.front() >= 'A' && name.front() <= 'Z')) << name;
        if (!of_torchtitan().contains(std::string(rule.term))) terms_by_argument[name].insert(std::string(rule.term));
      }
    }
  }
  std::vector<std::pair<Base, std::map<std::string, double>>> runs;
  for (const Base& base : bases()) runs.emplace_back(base, terms_of(base, "").value());
  for (auto& [name, terms] : terms_by_argument) {
    remove_moved(name, runs, terms);
    for (const std::string& term : terms) ADD_FAILURE() << "--" << name << " never moves " << term;
  }
}

}  // namespace
}  // namespace tidemark::estimate::testing
