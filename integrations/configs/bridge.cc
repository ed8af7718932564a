#include "integrations/configs/bridge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "integrations/configs/bridge_keys.h"

namespace tidemark::configs {
namespace {

using estimate::ImportedRun;

/// What a recipe's name stands for: megatron/bridge/training/mixed_precision.py.
struct Recipe {
  std::string_view name;       ///< behind `bf16_` or `fp16_`
  std::string_view quantized;  ///< fp8-recipe; empty: none
  bool parameters_8bit = false;
  std::string_view doubt;  ///< what of it is not modelled
};

constexpr std::string_view kSomeLayers = "layers without 8 bits among layers with are not modelled";
constexpr std::array<Recipe, 5> kRecipes = {{
    {.name = "mixed"},
    {.name = "with_fp8_delayed_scaling_mixed", .quantized = "delayed", .parameters_8bit = true},
    {.name = "with_fp8_current_scaling_mixed",
     .quantized = "tensorwise",
     .parameters_8bit = true,
     .doubt = kSomeLayers},
    {.name = "with_fp8_subchannel_scaling_mixed", .quantized = "blockwise"},
    {.name = "with_mxfp8_mixed",
     .quantized = "mxfp8",
     .parameters_8bit = true,
     .doubt = "a gradient buffer that holds gathered parameters is not modelled"},
}};

class BridgeReader {
 public:
  explicit BridgeReader(KeyJudge& keys) : keys_(keys) {}

  Status read() {
    if (Status status = precision(); !status) return status;
    attention();
    feed_forward();
    vocabulary();
    pipeline();
    state();
    sequence();
    return {};
  }

 private:
  const ConfigKey* key(std::string_view path) const { return keys_.find(path); }
  void pass(std::string_view path, std::string_view argument) {
    if (const ConfigKey* given = key(path)) keys_.add(argument, given->value, given);
  }

  Status precision() {
    const ConfigKey* recipe = key("mixed_precision");
    if (recipe == nullptr) {
      fields();
      return {};
    }
    std::string name = recipe->value;
    std::ranges::replace(name, '-', '_');
    const bool bf16 = name.starts_with("bf16_");
    const bool fp16 = name.starts_with("fp16_");
    const std::string_view rest = bf16 || fp16 ? std::string_view(name).substr(5) : std::string_view();
    const auto found = std::ranges::find(kRecipes, rest, &Recipe::name);
    if (found == kRecipes.end())
      return keys_.wrong(*recipe, "this recipe is not known; give its fields (bf16, fp8, grad_reduce_in_fp32, ...)");
    keys_.add(bf16 ? "bf16" : "fp16", "true", recipe);
    if (!found->quantized.empty()) {
      keys_.add("fp8-format", "hybrid", recipe);
      keys_.add("fp8-recipe", std::string(found->quantized), recipe);
    }
    if (found->parameters_8bit) keys_.add("fp8-param-gather", "true", recipe);
    if (!found->doubt.empty()) keys_.doubt(*recipe, found->doubt);
    return {};
  }

  /// The recipe written out, or none: then the model's own types count.
  void fields() {
    const bool given = key("mixed_precision.bf16") != nullptr || key("mixed_precision.fp16") != nullptr;
    if (!given) {
      pass("model.bf16", "bf16");
      pass("model.fp16", "fp16");
    }
    const bool eight_bits = keys_.is_on("mixed_precision.fp8") || keys_.is_on("model.fp8");
    const std::string_view recipe = given ? "mixed_precision.fp8_recipe" : "model.fp8_recipe";
    if (eight_bits) pass(recipe, "fp8-recipe");
    const ConfigKey* reduce = key("mixed_precision.grad_reduce_in_fp32");
    if (reduce == nullptr) reduce = key("ddp.grad_reduce_in_fp32");
    if (reduce != nullptr && is_off(*reduce)) keys_.add("grad-reduce-in-bf16", "true", reduce);
  }

  void attention() {
    const ConfigKey* groups = key("model.num_query_groups");
    if (groups == nullptr) return;
    keys_.add("group-query-attention", "true", groups);
    keys_.add("num-query-groups", groups->value, groups);
  }

  void feed_forward() {
    const ConfigKey* gate = key("model.gated_linear_unit");
    const std::string_view function = keys_.text("model.activation_func", "");
    const bool silu = function.ends_with(".silu") || function == "silu";
    if (gate != nullptr) keys_.add(silu ? "swiglu" : "gated-linear-unit", gate->value, gate);
    if (silu) pass("model.bias_activation_fusion", "bias-swiglu-fusion");
    if (const ConfigKey* experts = key("model.moe_layer_freq")) keys_.add("moe-layer-freq", experts->value, experts);
    if (keys_.is_on("model.moe_enable_deepep"))
      keys_.add("moe-token-dispatcher-type", "flex", key("model.moe_enable_deepep"));
  }

  /// The model's vocabulary is padded only where it says so; without one the tokenizer's counts, padded.
  void vocabulary() {
    const ConfigKey* size = key("model.vocab_size");
    const bool pads = size == nullptr || keys_.is_on("model.should_pad_vocab");
    if (size != nullptr) keys_.add(pads ? "vocab-size" : "padded-vocab-size", size->value, size);
    if (pads) pass("model.make_vocab_size_divisible_by", "make-vocab-size-divisible-by");
    if (size != nullptr) return;
    pass("tokenizer.vocab_size", "vocab-size");
    pass("tokenizer.tokenizer_type", "tokenizer-type");
    pass("tokenizer.tokenizer_model", "tokenizer-model");
  }

  void pipeline() {
    const ConfigKey* layout = key("model.pipeline_model_parallel_layout");
    if (layout == nullptr) {
      pass("model.virtual_pipeline_model_parallel_size", "virtual-pipeline-model-parallel-size");
      return;
    }
    keys_.add("pipeline-model-parallel-layout", layout->is_list ? letters(layout->value) : layout->value, layout);
  }

  /// `[[embedding,decoder],[decoder,loss]]` as `Et|tL`; a name that has no letter is kept, for the table to refuse.
  static std::string letters(std::string_view list) {
    constexpr std::array<std::pair<std::string_view, char>, 4> kLetters = {
        {{"embedding", 'E'}, {"decoder", 't'}, {"mtp", 'm'}, {"loss", 'L'}}};
    std::string out;
    int depth = 0;
    bool first = true;
    for (std::size_t i = 0; i < list.size();) {
      const char c = list[i];
      if (c == '[' && ++depth == 2) {
        if (!first) out += '|';
        first = false;
      }
      if (c == ']') --depth;
      bool named = false;
      for (const auto& [name, letter] : kLetters) {
        if (!list.substr(i).starts_with(name)) continue;
        out += letter;
        i += name.size();
        named = true;
        break;
      }
      if (named) continue;
      if (c != '[' && c != ']' && c != ',' && c != ' ') out += c;
      ++i;
    }
    return out;
  }

  /// Types of the state count in the optimizer that takes them, the strategy of FSDP with it.
  void state() {
    if (keys_.is_on("optimizer.use_precision_aware_optimizer")) {
      pass("optimizer.main_grads_dtype", "main-grads-dtype");
      pass("optimizer.main_params_dtype", "main-params-dtype");
      pass("optimizer.exp_avg_dtype", "exp-avg-dtype");
      pass("optimizer.exp_avg_sq_dtype", "exp-avg-sq-dtype");
    }
    const bool fsdp = keys_.is_on("ddp.use_megatron_fsdp") || keys_.is_on("ddp.use_custom_fsdp") ||
                      keys_.is_on("dist.use_megatron_fsdp");
    if (fsdp) pass("ddp.data_parallel_sharding_strategy", "data-parallel-sharding-strategy");
  }

  void sequence() {
    const ConfigKey* model = key("model.seq_length");
    for (const std::string_view path : {"dataset.sequence_length", "dataset.seq_length"}) {
      const ConfigKey* data = key(path);
      if (data == nullptr) continue;
      if (model == nullptr) {
        keys_.add("seq-length", data->value, data);
      } else if (data->value != model->value) {
        keys_.doubt(*data, "another length than model.seq_length, which is taken");
      }
    }
  }

  KeyJudge& keys_;
};

}  // namespace

Result<ImportedRun> read_bridge(std::string_view text, std::string_view file_name, const estimate::RunHints& hints) {
  const Result<std::vector<ConfigKey>> keys = yaml_keys(text, file_name);
  if (!keys) return keys.error();
  KeyJudge judge(file_name, keys.value(), bridge_table());
  if (Status status = judge.judge(); !status) return status.error();
  if (judge.find("model.hidden_size") == nullptr && judge.find("model.num_layers") == nullptr)
    return bad_input(
        fmt::format("{}:1: the file has no model.num_layers and model.hidden_size; give the whole "
                    "configuration that Megatron-Bridge writes, not its overrides",
                    file_name));
  BridgeReader reader(judge);
  if (Status status = reader.read(); !status) return status.error();
  return judge.import(hints);
}

}  // namespace tidemark::configs
