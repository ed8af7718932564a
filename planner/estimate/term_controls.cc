#include "planner/estimate/term_controls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include "planner/estimate/argument_rows.h"
#include "planner/estimate/argument_value.h"

namespace tidemark::estimate {
namespace {

using budget::Category;

// Sizes that most rules name: tokens of a micro-batch, weights of a rank, logits.
constexpr std::string_view kTokens = "micro-batch-size seq-length context-parallel-size hidden-size";
constexpr std::string_view kWeights =
    "num-layers hidden-size num-experts moe-ffn-hidden-size ffn-hidden-size tensor-model-parallel-size "
    "pipeline-model-parallel-size expert-model-parallel-size";
constexpr std::string_view kLogits =
    "micro-batch-size seq-length padded-vocab-size vocab-size tensor-model-parallel-size";

constexpr std::array kRules = {
    TermRule{"parameters",
             Category::parameters,
             {kWeights,
              "padded-vocab-size vocab-size num-attention-heads group-query-attention num-query-groups kv-channels "
              "bf16"},
             "use-megatron-fsdp"},
    TermRule{"gradients",
             Category::gradients,
             {kWeights,
              "padded-vocab-size vocab-size grad-reduce-in-bf16 accumulate-allreduce-grads-in-fp32 num-attention-heads "
              "group-query-attention num-query-groups kv-channels"},
             "grad-reduce-in-bf16"},
    TermRule{"main_parameters",
             Category::optimizer_state,
             {"use-distributed-optimizer use-precision-aware-optimizer optimizer-cpu-offload reuse-fp32-param "
              "swap-optimizer bf16",
              kWeights},
             "use-distributed-optimizer use-precision-aware-optimizer optimizer-cpu-offload reuse-fp32-param "
             "swap-optimizer"},
    TermRule{"moments",
             Category::optimizer_state,
             {"use-distributed-optimizer exp-avg-dtype exp-avg-sq-dtype optimizer-cpu-offload swap-optimizer optimizer",
              kWeights},
             "use-distributed-optimizer use-precision-aware-optimizer optimizer-cpu-offload swap-optimizer"},
    TermRule{"gradient_copy",
             Category::gradients,
             {"grad-reduce-in-bf16 use-distributed-optimizer", kWeights},
             "use-distributed-optimizer"},
    TermRule{"reference_model", Category::parameters, {"stage", kWeights}, ""},
    TermRule{"quantized_weights",
             Category::parameters,
             {"fp8-format fp4-format fp8-param-gather fp8-recipe num-layers hidden-size"},
             ""},
    TermRule{"cublas_workspaces", Category::temporaries, {"CUBLAS_WORKSPACE_CONFIG"}, ""},
    TermRule{"te_gemm_workspace", Category::temporaries, {"transformer-impl"}, ""},
    TermRule{"te_grouped_gemm_workspaces", Category::temporaries, {"moe-grouped-gemm"}, ""},
    TermRule{"global_memory_buffer",
             Category::communication,
             {"moe-token-dispatcher-type sequence-parallel expert-model-parallel-size", kTokens},
             ""},
    TermRule{"pipeline_residue",
             Category::communication,
             {"pipeline-model-parallel-size num-layers-per-virtual-pipeline-stage", kTokens},
             "sequence-parallel"},
    TermRule{"split_slack",
             Category::cached,
             {"pipeline-model-parallel-size PYTORCH_CUDA_ALLOC_CONF"},
             "PYTORCH_CUDA_ALLOC_CONF"},
    TermRule{"deferred_embedding_gradient",
             Category::gradients,
             {"defer-embedding-wgrad-compute hidden-size padded-vocab-size vocab-size tensor-model-parallel-size"},
             ""},
    TermRule{"overlap_workspace", Category::temporaries, {"overlap-moe-expert-parallel-comm"}, ""},
    TermRule{"flex_dispatcher_buffers",
             Category::communication,
             {"moe-token-dispatcher-type expert-model-parallel-size", kTokens},
             ""},
    TermRule{"last_logits",
             Category::activations,
             {"micro-batch-size decoder-seq-length padded-vocab-size vocab-size tensor-model-parallel-size"},
             ""},
    TermRule{"resumed_state", Category::optimizer_state, {"use-distributed-optimizer num-layers hidden-size"}, ""},
    TermRule{"attention_mask",
             Category::temporaries,
             {"attention-mask-type seq-length attention-mask-on-cpu use-flash-attn is-instruction-dataset"},
             "attention-mask-on-cpu"},
    TermRule{"recompute_in_advance",
             Category::activations,
             {"recompute-in-advance num-layers-per-virtual-pipeline-stage", kTokens},
             "sequence-parallel"},
    TermRule{"gathered_tokens",
             Category::communication,
             {"moe-token-dispatcher-type expert-model-parallel-size", kTokens},
             ""},
    TermRule{"swap_attention_residue", Category::activations, {"swap-attention", kTokens}, "sequence-parallel"},
    TermRule{"coc_buffer", Category::communication, {"use-ascend-coc", kTokens}, ""},
    TermRule{"score_buffer",
             Category::temporaries,
             {"use-flash-attn num-attention-heads micro-batch-size seq-length tensor-model-parallel-size"},
             "use-flash-attn"},
    TermRule{"waiting_masks",
             Category::activations,
             {"micro-batch-size seq-length pipeline-model-parallel-size is-instruction-dataset is-pairwise-dataset "
              "reset-position-ids"},
             ""},
    TermRule{"mask_making",
             Category::temporaries,
             {"micro-batch-size seq-length is-instruction-dataset is-pairwise-dataset reset-position-ids"},
             ""},
    TermRule{"alibi_bias",
             Category::temporaries,
             {"position-embedding-type num-attention-heads num-layers micro-batch-size seq-length"},
             ""},
    TermRule{"activations",
             Category::activations,
             {kTokens,
              "num-layers moe-router-topk recompute-granularity recompute-method recompute-num-layers "
              "recompute-modules sequence-parallel tensor-model-parallel-size bf16 num-attention-heads "
              "group-query-attention num-query-groups"},
             "recompute-granularity sequence-parallel swap-attention fine-grained-activation-offloading"},
    TermRule{"embedding_mask", Category::activations, {"hidden-dropout", kTokens}, "sequence-parallel"},
    TermRule{"mtp_activations", Category::activations, {"mtp-num-layers", kTokens}, "sequence-parallel"},
    TermRule{"backward_work",
             Category::temporaries,
             {kTokens,
              "ffn-hidden-size moe-ffn-hidden-size moe-router-topk recompute-granularity recompute-num-layers "
              "tensor-model-parallel-size"},
             ""},
    TermRule{"gathered_parameters",
             Category::parameters,
             {"use-megatron-fsdp data-parallel-sharding-strategy num-layers hidden-size"},
             ""},
    TermRule{"gathered_copies", Category::parameters, {kWeights, "vocab-size"}, ""},
    TermRule{"gathered_layers", Category::parameters, {kWeights}, ""},
    TermRule{"gathered_output", Category::parameters, {"hidden-size vocab-size"}, ""},
    TermRule{"accumulated_gradients", Category::gradients, {"global-batch-size micro-batch-size", kWeights}, ""},
    TermRule{"layer_gradients", Category::gradients, {kWeights}, ""},
    TermRule{
        "pipeline_outputs", Category::activations, {"pipeline-model-parallel-size global-batch-size", kLogits}, ""},
    TermRule{
        "gradient_copy_freed", Category::gradients, {"grad-reduce-in-bf16 use-distributed-optimizer", kWeights}, ""},
    TermRule{"final_norm", Category::activations, {kTokens}, "sequence-parallel"},
    TermRule{"logits", Category::activations, {kLogits, "context-parallel-size"}, "loss-compute-mode"},
    TermRule{"logits_fp32",
             Category::activations,
             {kLogits, "context-parallel-size cross-entropy-fusion-impl"},
             "cross-entropy-loss-fusion"},
    TermRule{"loss_copies",
             Category::temporaries,
             {"mtp-num-layers cross-entropy-loss-fusion cross-entropy-fusion-impl", kLogits},
             ""},
    TermRule{"deferred_logit_gradients",
             Category::activations,
             {"defer-embedding-wgrad-compute wgrad-deferral-limit", kLogits},
             "wgrad-deferral-limit"},
    TermRule{"mtp_softmax", Category::activations, {"mtp-num-layers", kLogits}, "mtp-mem-efficient-logits"},
    TermRule{"shared_head_gradients",
             Category::gradients,
             {"mtp-num-layers hidden-size padded-vocab-size vocab-size tensor-model-parallel-size"},
             "gemm-gradient-accumulation-fusion"},
    TermRule{"sliced_output_input", Category::activations, {"output-layer-slice-num", kTokens}, ""},
    TermRule{"optimizer_step",
             Category::temporaries,
             {"swap-optimizer swap-optimizer-times reuse-fp32-param use-distributed-optimizer hidden-size "
              "ffn-hidden-size num-experts padded-vocab-size vocab-size"},
             "use-distributed-optimizer"},
    TermRule{"moments_not_yet", Category::optimizer_state, {"use-distributed-optimizer num-layers hidden-size"}, ""},
    TermRule{"calibration", Category::other, {}, ""},
};

bool is_variable(std::string_view name) {
  return !name.empty() && name.front() >= 'A' && name.front() <= 'Z';
}

std::string shown_value(const std::string& value) {
  constexpr std::size_t kLongest = 60;
  std::string shown = value.substr(0, kLongest);
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return shown + (value.size() > kLongest ? "..." : "");
}

/// `run.sh:21` taken apart; a place without a number is a file's name.
budget::Control control_at(std::string_view place, std::string text) {
  budget::Control control{.file = std::string(place), .text = std::move(text)};
  const std::size_t colon = place.rfind(':');
  if (colon == std::string_view::npos) return control;
  const std::string_view digits = place.substr(colon + 1);
  int line = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), line);
  if (error != std::errc{} || end != digits.data() + digits.size()) return control;
  control.file.resize(colon);
  control.line = line;
  return control;
}

bool is_of_megatron(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"use-megatron-fsdp", "use-precision-aware-optimizer",
                                                      "optimizer-cpu-offload", "fine-grained-activation-offloading",
                                                      "cross-entropy-loss-fusion"};
  return std::ranges::find(kNames, name) != kNames.end();
}

/// Whether an argument that is not given would do something in this run.
bool would_help(const TrainingRun& run, std::string_view name) {
  const bool mindspeed = run.platform.framework == Framework::mindspeed_llm;
  if (mindspeed ? is_of_megatron(name) : is_of_mindspeed(name)) return false;
  const OptimizerState& optimizer = run.optimizer;
  if (name == "use-distributed-optimizer")
    return !optimizer.distributed && run.parallel.data * run.parallel.context > 1;
  if (name == "use-megatron-fsdp") return !optimizer.fsdp && run.parallel.data > 1;
  if (name == "sequence-parallel") return run.parallel.tensor > 1;
  if (name == "grad-reduce-in-bf16") return run.precision == Precision::bf16 && !optimizer.gradient_16bit;
  if (name == "use-precision-aware-optimizer") return optimizer.kind == Optimizer::adam;
  if (name == "reuse-fp32-param") return run.precision == Precision::bf16 && !optimizer.on_host;
  if (name == "swap-optimizer") return !optimizer.reuse_fp32_parameter;
  return true;
}

/// Calls `take` with every word of a list.
template <class Take>
void each_word(std::string_view words, const Take& take) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (end > 0) take(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

}  // namespace

ArgumentPlaces places_of(const ArgumentSet& set) {
  ArgumentPlaces places;
  for (const Argument& argument : set.arguments) {
    const std::string name = table_name(argument.name);
    const std::string value = argument.is_switch || argument.value.empty() ? "" : " " + shown_value(argument.value);
    places.insert_or_assign(name, control_at(argument.place, fmt::format("--{}{}", name, value)));
  }
  for (const Argument& variable : set.environment)
    places.insert_or_assign(
        variable.name, control_at(variable.place, fmt::format("{}={}", variable.name, shown_value(variable.value))));
  return places;
}

std::vector<budget::Control> settings_of(const ArgumentPlaces& places) {
  std::vector<budget::Control> settings;
  for (const auto& [name, control] : places) settings.push_back(control);
  const auto in_order = [](const budget::Control& a, const budget::Control& b) {
    return std::tie(a.file, a.line, a.text) < std::tie(b.file, b.line, b.text);
  };
  std::ranges::sort(settings, in_order);
  settings.erase(std::unique(settings.begin(), settings.end()), settings.end());
  return settings;
}

budget::Control place_of_argument(std::string_view name, const ArgumentPlaces& places) {
  if (const auto found = places.find(name); found != places.end()) return found->second;
  return {.text = is_variable(name) ? fmt::format("{} (not set)", name) : fmt::format("--{} (not given)", name)};
}

std::span<const TermRule> term_rules() {
  return kRules;
}

const TermRule* find_term_rule(std::string_view term) {
  const auto* const found = std::ranges::find(kRules, term, &TermRule::term);
  return found != kRules.end() ? found : nullptr;
}

std::vector<budget::Control> controls_of(const TermRule& rule, const TrainingRun& run, const ArgumentPlaces& places) {
  std::vector<budget::Control> controls;
  for (const std::string_view part : rule.decided_by)
    each_word(part, [&](std::string_view name) {
      const auto found = places.find(name);
      if (found == places.end() || controls.size() == kMostControls) return;
      // A key of a configuration file may decide several arguments.
      if (std::ranges::find(controls, found->second) == controls.end()) controls.push_back(found->second);
    });
  each_word(rule.lowered_by, [&](std::string_view name) {
    if (!places.contains(name) && would_help(run, name)) controls.push_back(place_of_argument(name, places));
  });
  return controls;
}

}  // namespace tidemark::estimate
