#include "integrations/configs/mindformers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "integrations/configs/mindformers_keys.h"
#include "integrations/formats/shown.h"
#include "planner/estimate/argument_value.h"

namespace tidemark::configs {
namespace {

using estimate::ImportedRun;

constexpr std::int64_t kMostDegree = 1 << 20;
constexpr std::int64_t kMostLayers = 100'000;

constexpr std::string_view kOtherFramework =
    "MindSpore's memory is estimated by the rules of MindSpeed-LLM and was never compared with a measurement";
constexpr std::string_view kUneven =
    "stages that recompute different numbers of layers are not modelled: all are taken to recompute the fewest";
constexpr std::string_view kCapacity = "a capacity beside grouped products, which take all rows";

const ConfigKey* first_of(const KeyJudge& keys, std::initializer_list<std::string_view> paths) {
  for (const std::string_view path : paths)
    if (const ConfigKey* key = keys.find(path)) return key;
  return nullptr;
}

class MindformersReader {
 public:
  MindformersReader(KeyJudge& keys, std::string_view file) : keys_(keys), file_(file) {}

  Result<ImportedRun> read(estimate::RunHints hints) {
    if (Status status = refuse(); !status) return status.error();
    if (Status status = parallel(hints); !status) return status.error();
    if (Status status = batch(); !status) return status.error();
    model();
    experts();
    if (Status status = stages(); !status) return status.error();
    if (Status status = recompute(); !status) return status.error();
    keys_.add_decoder_defaults();
    hints.platform.framework = estimate::Framework::mindspeed_llm;
    hints.platform.accelerator = estimate::Accelerator::ascend;
    keys_.doubt_all(kOtherFramework);
    return keys_.import(hints);
  }

 private:
  void pass(std::string_view argument, const ConfigKey* key) {
    if (key != nullptr) keys_.add(argument, key->value, key);
  }

  Status refuse() {
    anchor_ = first_of(keys_,
                       {"runner_config.batch_size", "parallel_config.data_parallel", "model.model_config.hidden_size"});
    if (anchor_ == nullptr)
      return bad_input(
          fmt::format("{}:1: the file has neither runner_config.batch_size nor parallel_config nor "
                      "model.model_config; give a whole training configuration",
                      file_));
    if (const ConfigKey* mode = keys_.find("run_mode");
        mode != nullptr && mode->value != "train" && mode->value != "finetune")
      return keys_.wrong(*mode,
                         fmt::format("{} is no training run; write train or finetune", formats::shown(mode->value)));
    if (const ConfigKey* kind = keys_.find("model.model_config.type")) {
      constexpr std::array<std::string_view, 8> kDecoders = {"llama", "deepseek", "qwen",     "internlm",
                                                             "yi",    "mixtral",  "telechat", "baichuan"};
      const std::string name = estimate::lower_case(kind->value);
      if (std::ranges::none_of(kDecoders, [&](std::string_view part) { return name.find(part) != std::string::npos; }))
        return keys_.wrong(*kind, fmt::format("{} is none of the kinds of model that are modelled: decoders like {}",
                                              formats::shown(kind->value), fmt::join(kDecoders, ", ")));
    }
    if (const ConfigKey* optimizer = keys_.find("optimizer.type"))
      if (optimizer->value.find("Adam") == std::string::npos)
        return keys_.wrong(*optimizer, "AdamW and its kin are modelled");
    return {};
  }

  Status number(std::string_view path, std::int64_t most, std::int64_t& out) {
    const Result<std::int64_t> read = keys_.count(path, 1, most, out);
    if (!read) return read.error();
    out = read.value();
    return {};
  }

  Status degree(std::string_view path, std::string_view argument, std::int64_t& out) {
    if (Status status = number(path, kMostDegree, out); !status) return status;
    keys_.add(argument, fmt::format("{}", out), keys_.find(path));
    return {};
  }

  Status parallel(estimate::RunHints& hints) {
    std::int64_t tensor = 1;
    std::int64_t context = 1;
    std::int64_t expert = 1;
    if (Status status = number("parallel_config.data_parallel", kMostDegree, data_); !status) return status;
    if (Status status = degree("parallel_config.model_parallel", "tensor-model-parallel-size", tensor); !status)
      return status;
    if (Status status = degree("parallel_config.context_parallel", "context-parallel-size", context); !status)
      return status;
    if (Status status = number("parallel_config.pipeline_stage", 1 << 16, stages_); !status) return status;
    keys_.add("pipeline-model-parallel-size", fmt::format("{}", stages_), keys_.find("parallel_config.pipeline_stage"));
    if (Status status = number("parallel_config.expert_parallel", kMostDegree, expert); !status) return status;
    const bool has_experts = first_of(keys_, {"moe_config.expert_num", "model.model_config.num_experts",
                                              "model.model_config.n_routed_experts"}) != nullptr;
    if (has_experts) {
      keys_.add("expert-model-parallel-size", fmt::format("{}", expert), keys_.find("parallel_config.expert_parallel"));
      keys_.add("expert-tensor-parallel-size", "1", nullptr);
    }
    constexpr std::int64_t kMostDevices = std::int64_t{1} << 24;
    const std::int64_t devices = data_ <= kMostDevices / tensor ? data_ * tensor : kMostDevices + 1;
    const std::int64_t copies = context * stages_;  // at most 2^36
    if (devices > kMostDevices || copies > kMostDevices / devices)
      return bad_input(fmt::format("{}:{}: parallel_config: its degrees exceed the {} devices that are modelled", file_,
                                   anchor_->line, kMostDevices));
    if (hints.platform.devices > 0 && hints.platform.devices != devices * copies)
      return bad_input(fmt::format("{}:{}: parallel_config: its degrees make {} devices, not {}", file_, anchor_->line,
                                   devices * copies, hints.platform.devices));
    hints.platform.devices = devices * copies;
    return {};
  }

  /// A batch is of one data-parallel rank and micro-batch.
  Status batch() {
    std::int64_t micro = 1;
    std::int64_t batches = 1;
    if (Status status = number("runner_config.batch_size", kMostDegree, micro); !status) return status;
    if (Status status = number("parallel_config.micro_batch_num", kMostDegree, batches); !status) return status;
    keys_.add("micro-batch-size", fmt::format("{}", micro), keys_.find("runner_config.batch_size"));
    const std::int64_t rounds = stages_ > 1 ? batches : 1;
    const std::int64_t round = micro * data_;  // at most 2^40
    const std::int64_t global = round <= (std::int64_t{1} << 30) / rounds ? round * rounds : std::int64_t{1} << 30;
    keys_.add("global-batch-size", fmt::format("{}", global), keys_.find("parallel_config.micro_batch_num"));
    return {};
  }

  void model() {
    pass("num-layers", first_of(keys_, {"model.model_config.num_layers", "model.model_config.num_hidden_layers"}));
    pass("num-attention-heads",
         first_of(keys_, {"model.model_config.num_heads", "model.model_config.num_attention_heads"}));
    pass("ffn-hidden-size", keys_.find("model.model_config.intermediate_size"));
    pass("seq-length",
         first_of(keys_, {"model.model_config.seq_length", "train_dataset.data_loader.config.seq_length"}));
    pass("mtp-num-layers",
         first_of(keys_, {"model.model_config.mtp_depth", "model.model_config.num_nextn_predict_layers"}));
    if (const ConfigKey* latent = keys_.find("model.model_config.kv_lora_rank")) {
      keys_.add("multi-latent-attention", "true", latent);
      keys_.add("kv-lora-rank", latent->value, latent);
    } else if (const ConfigKey* groups =
                   first_of(keys_, {"model.model_config.n_kv_heads", "model.model_config.num_key_value_heads"})) {
      keys_.add("group-query-attention", "true", groups);
      keys_.add("num-query-groups", groups->value, groups);
    }
    if (const ConfigKey* tied = keys_.find("model.model_config.tie_word_embeddings"); tied == nullptr || is_off(*tied))
      keys_.add("untie-embeddings-and-output-weights", "true", tied);
    if (const ConfigKey* bias =
            first_of(keys_, {"model.model_config.qkv_has_bias", "model.model_config.attention_bias"}))
      keys_.add("add-qkv-bias", bias->value, bias);
    const ConfigKey* flash = keys_.find("model.model_config.use_flash_attention");
    keys_.add("use-flash-attn", flash == nullptr ? "true" : flash->value, flash);
    keys_.add("use-fused-rmsnorm", "true", nullptr);
    keys_.add("use-fused-rotary-pos-emb", "true", nullptr);
    keys_.add("shape-order", "BNSD", nullptr);
    const ConfigKey* type = keys_.find("model.model_config.compute_dtype");
    const std::string_view word = type == nullptr ? "bfloat16" : std::string_view(type->value);
    if (word == "bfloat16") keys_.add("bf16", "true", type);
    if (word == "float16") keys_.add("fp16", "true", type);
  }

  void experts() {
    pass("n-shared-experts", first_of(keys_, {"moe_config.shared_expert_num", "model.model_config.n_shared_experts"}));
    const ConfigKey* capacity = keys_.find("moe_config.capacity_factor");
    keys_.add("moe-token-dispatcher-type", "alltoall", nullptr);
    if (capacity == nullptr || keys_.find("moe_config.expert_num") == nullptr) return;
    if (keys_.is_on("moe_config.use_gmm")) {
      keys_.doubt(*capacity, kCapacity);
    } else {
      keys_.add("moe-expert-capacity-factor", capacity->value, capacity);
    }
  }

  /// offset: what a stage has more, or less, than an even share.
  Status stages() {
    const ConfigKey* offset = keys_.find("model.model_config.offset");
    if (offset == nullptr || !offset->is_list || stages_ == 1) return {};
    std::int64_t layers = 0;
    const std::string_view path = keys_.find("model.model_config.num_layers") != nullptr
                                      ? "model.model_config.num_layers"
                                      : "model.model_config.num_hidden_layers";
    if (Status status = number(path, kMostLayers, layers); !status) return status;
    const auto list = estimate::number_list(offset->value, static_cast<std::size_t>(kMostLayers));
    std::int64_t chunks = 1;
    if (Status status = number("model.model_config.pp_interleave_num", 1 << 10, chunks); !status) return status;
    const std::int64_t count = stages_ * chunks;
    if (!list || std::ssize(*list) != count)
      return keys_.wrong(*offset, fmt::format("it is no list of {} whole numbers, one a stage", count));
    std::vector<std::int64_t> counts;
    for (const std::int64_t more : *list)
      counts.push_back(layers / count + std::clamp<std::int64_t>(more, -kMostLayers, kMostLayers));
    keys_.add("num-layer-list", fmt::format("{}", fmt::join(counts, ",")), offset);
    return {};
  }

  Status recompute() {
    const ConfigKey* key = keys_.find("recompute_config.recompute");
    if (key == nullptr || is_off(*key)) return {};
    if (!key->is_list) {
      if (estimate::switch_value(key->value) != true && !estimate::whole_number(key->value))
        return keys_.wrong(*key, "write True, False or a list with the number of layers of each stage");
      keys_.add("recompute-granularity", "full", key);
      keys_.add("recompute-method", "uniform", key);
      keys_.add("recompute-num-layers", "1", key);
      return {};
    }
    const auto list = estimate::number_list(key->value, static_cast<std::size_t>(kMostLayers));
    if (!list || list->empty() || std::ranges::any_of(*list, [](std::int64_t n) { return n < 0 || n > kMostLayers; }))
      return keys_.wrong(*key, "write True, False or a list with the number of layers of each stage");
    const auto [least, most] = std::ranges::minmax(*list);
    if (least != most) keys_.doubt(*key, kUneven);
    if (least == 0) return {};
    keys_.add("recompute-granularity", "full", key);
    keys_.add("recompute-method", "block", key);
    keys_.add("recompute-num-layers", fmt::format("{}", least), key);
    return {};
  }

  KeyJudge& keys_;
  std::string_view file_;
  const ConfigKey* anchor_ = nullptr;  ///< where what is of the whole file is said
  std::int64_t data_ = 1;
  std::int64_t stages_ = 1;
};

}  // namespace

Result<ImportedRun> read_mindformers(std::string_view text, std::string_view file_name,
                                     const estimate::RunHints& hints) {
  const Result<std::vector<ConfigKey>> keys = yaml_keys(text, file_name);
  if (!keys) return keys.error();
  KeyJudge judge(file_name, keys.value(), mindformers_table());
  if (Status status = judge.judge(); !status) return status.error();
  return MindformersReader(judge, file_name).read(hints);
}

}  // namespace tidemark::configs
