#include "integrations/configs/titan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "integrations/configs/titan_flavors.h"
#include "integrations/configs/titan_keys.h"
#include "integrations/formats/shown.h"
#include "planner/estimate/argument_value.h"

namespace tidemark::configs {
namespace {

using estimate::Fsdp2;
using estimate::ImportedRun;

constexpr std::int64_t kMostDegree = 1 << 20;
constexpr std::int64_t kMostBatch = 1 << 20;

/// Why a run of torchtitan is not understood in full.
constexpr std::string_view kCompared =
    "the estimate of torchtitan runs was compared with published figures only, and misses some by far: "
    "docs/ACCURACY.md";
constexpr std::string_view kPipelines = "what pipeline stages of torchtitan keep was never matched with a figure";
constexpr std::string_view kExperts = "layers of experts are taken as Megatron-LM's";

constexpr std::string_view kLeftOver =
    "data_parallel_shard_degree takes the devices left over, and nothing says how many there are: one node of 8 is "
    "assumed, or the fewest that fit";
constexpr std::int64_t kNode = 8;

/// Degrees and batch, as numbers.
struct Sizes {
  std::int64_t replicate = 1, shard = -1, tensor = 1, context = 1, pipeline = 1, expert = 1, expert_tensor = 1;
  std::int64_t batch = 8, global = -1, micro = 1;
};

class TitanReader {
 public:
  TitanReader(KeyJudge& keys, std::string_view file) : keys_(keys), file_(file) {}

  Result<ImportedRun> read(estimate::RunHints hints) {
    if (Status status = model(); !status) return status.error();
    if (Status status = sizes(); !status) return status.error();
    if (Status status = checkpoint(); !status) return status.error();
    if (Status status = precision(); !status) return status.error();
    compile();
    if (Status status = devices(hints); !status) return status.error();
    if (Status status = batch(hints.platform.devices); !status) return status.error();
    if (Status status = stages(); !status) return status.error();
    keys_.add_decoder_defaults();
    doubts();
    hints.platform.framework = estimate::Framework::torchtitan;
    Result<ImportedRun> imported = keys_.import(hints);
    if (!imported) return imported;
    estimate::TrainingRun& run = imported.value().run;
    run.fsdp2 = fsdp2_;
    run.optimizer.fsdp = run.optimizer.distributed = true;
    return imported;
  }

 private:
  void give(std::string_view argument, std::int64_t value, const ConfigKey* key) {
    keys_.add(argument, fmt::format("{}", value), key);
  }

  Status model() {
    const ConfigKey* name = keys_.find("model.name");
    const ConfigKey* flavor = keys_.find("model.flavor");
    if (name == nullptr || flavor == nullptr)
      return bad_input(fmt::format("{}:1: model.{} is not given; torchtitan names models by name and flavor", file_,
                                   name == nullptr ? "name" : "flavor"));
    if (flavors_of(name->value).empty())
      return keys_.wrong(*name, fmt::format("{} is none of the models whose shapes are known here: {}",
                                            formats::shown(name->value), fmt::join(titan_models(), ", ")));
    flavor_ = find_flavor(name->value, flavor->value);
    if (flavor_ == nullptr)
      return keys_.wrong(
          *flavor, fmt::format("{} is none of the flavors of {} that are known here: {}", formats::shown(flavor->value),
                               name->value, fmt::join(flavors_of(name->value), ", ")));
    shape(*flavor_, flavor);
    return {};
  }

  void shape(const TitanFlavor& flavor, const ConfigKey* key) {
    give("num-layers", flavor.layers, key);
    give("hidden-size", flavor.hidden, key);
    give("num-attention-heads", flavor.heads, key);
    give("ffn-hidden-size", flavor.ffn, key);
    give("padded-vocab-size", flavor.vocabulary, key);
    if (flavor.head_dim > 0) give("kv-channels", flavor.head_dim, key);
    if (flavor.groups > 0) {
      keys_.add("group-query-attention", "true", key);
      give("num-query-groups", flavor.groups, key);
    } else {
      keys_.add("multi-latent-attention", "true", key);
      give("q-lora-rank", flavor.q_lora_rank, key);
      give("kv-lora-rank", flavor.kv_lora_rank, key);
    }
    if (flavor.qk_norm) keys_.add("qk-layernorm", "true", key);
    if (!flavor.tied) keys_.add("untie-embeddings-and-output-weights", "true", key);
    if (flavor.experts == 0) return;
    give("num-experts", flavor.experts, key);
    give("moe-router-topk", flavor.top_k, key);
    give("moe-ffn-hidden-size", flavor.expert_width, key);
    if (flavor.shared_width > 0) give("moe-shared-expert-intermediate-size", flavor.shared_width, key);
    if (flavor.dense_layers > 0)
      keys_.add("moe-layer-freq",
                fmt::format("([0]*{}+[1]*{})", flavor.dense_layers, flavor.layers - flavor.dense_layers), key);
    keys_.add("moe-token-dispatcher-type", "alltoall", nullptr);
    keys_.add("moe-grouped-gemm", "true", nullptr);
  }

  Status number(std::string_view path, std::int64_t least, std::int64_t most, std::int64_t& out) {
    const Result<std::int64_t> read = keys_.count(path, least, most, out);
    if (!read) return read.error();
    out = read.value();
    return {};
  }

  Status sizes() {
    struct Field {
      std::string_view path;
      std::int64_t* out;
      std::int64_t least = 1;
      std::int64_t most = kMostDegree;
    };
    const std::string_view batch =
        keys_.find("training.local_batch_size") != nullptr ? "training.local_batch_size" : "training.batch_size";
    for (const Field& field :
         {Field{"parallelism.data_parallel_replicate_degree", &sizes_.replicate},
          Field{"parallelism.data_parallel_shard_degree", &sizes_.shard, -1},
          Field{"parallelism.tensor_parallel_degree", &sizes_.tensor},
          Field{"parallelism.context_parallel_degree", &sizes_.context},
          Field{"parallelism.pipeline_parallel_degree", &sizes_.pipeline, 1, 1 << 16},
          Field{"parallelism.expert_parallel_degree", &sizes_.expert},
          Field{"parallelism.pipeline_parallel_microbatch_size", &sizes_.micro, 1, kMostBatch},
          Field{"training.global_batch_size", &sizes_.global, -1, 1 << 30}, Field{batch, &sizes_.batch, 1, kMostBatch}})
      if (Status status = number(field.path, field.least, field.most, *field.out); !status) return status;
    // Without expert parallelism tensor parallelism splits experts, too.
    sizes_.expert_tensor = sizes_.expert > 1 ? 1 : sizes_.tensor;
    if (sizes_.expert > 1)
      if (Status status = number("parallelism.expert_tensor_parallel_degree", 1, kMostDegree, sizes_.expert_tensor);
          !status)
        return status;
    give("tensor-model-parallel-size", sizes_.tensor, keys_.find("parallelism.tensor_parallel_degree"));
    if (sizes_.tensor > 1) keys_.add("sequence-parallel", "true", keys_.find("parallelism.tensor_parallel_degree"));
    give("context-parallel-size", sizes_.context, keys_.find("parallelism.context_parallel_degree"));
    give("pipeline-model-parallel-size", sizes_.pipeline, keys_.find("parallelism.pipeline_parallel_degree"));
    if (flavor_->experts > 0) {
      give("expert-model-parallel-size", sizes_.expert, keys_.find("parallelism.expert_parallel_degree"));
      give("expert-tensor-parallel-size", sizes_.expert_tensor,
           keys_.find("parallelism.expert_tensor_parallel_degree"));
    }
    give("num-distributed-optimizer-instances", sizes_.replicate,
         keys_.find("parallelism.data_parallel_replicate_degree"));
    return {};
  }

  Status checkpoint() {
    const ConfigKey* mode = keys_.find("activation_checkpoint.mode");
    const std::string_view word = mode == nullptr ? "selective" : std::string_view(mode->value);
    if (word == "none") {
      fsdp2_.checkpoint = Fsdp2::Checkpoint::none;
    } else if (word == "full") {
      fsdp2_.checkpoint = Fsdp2::Checkpoint::full;
    } else if (word != "selective") {
      return keys_.wrong(*mode, fmt::format("{} is not modelled; write none, selective or full", formats::shown(word)));
    } else if (keys_.text("activation_checkpoint.selective_ac_option", "2") == "op") {
      fsdp2_.checkpoint = Fsdp2::Checkpoint::every_second_product;
    } else {
      if (Status status = number("activation_checkpoint.selective_ac_option", 1, 100'000, fsdp2_.nth); !status)
        return status;
    }
    return {};
  }

  Status precision() {
    const ConfigKey* type = keys_.find("training.mixed_precision_param");
    const std::string_view word = type == nullptr ? "bfloat16" : std::string_view(type->value);
    if (word != "bfloat16" && word != "float32") return keys_.wrong(*type, "write bfloat16 or float32");
    if (word == "bfloat16") keys_.add("bf16", "true", type);
    const ConfigKey* reduce = keys_.find("training.mixed_precision_reduce");
    if (reduce != nullptr && reduce->value == "bfloat16") fsdp2_.reduce_bytes = 2;
    if (reduce != nullptr && reduce->value != "bfloat16" && reduce->value != "float32")
      return keys_.wrong(*reduce, "write float32 or bfloat16");
    const ConfigKey* optimizer = keys_.find("optimizer.name");
    if (optimizer != nullptr && optimizer->value != "AdamW" && optimizer->value != "Adam")
      return keys_.wrong(*optimizer, "AdamW and Adam are modelled");
    fsdp2_.loss_parallel = !keys_.is_on("parallelism.disable_loss_parallel");
    return {};
  }

  /// training.compile of 2025 compiles layers and loss; compile.components names them since.
  void compile() {
    fsdp2_.compiled_loss = keys_.is_on("training.compile");
    if (!keys_.is_on("compile.enable")) return;
    const std::vector<std::string> parts = estimate::list_items(keys_.text("compile.components", "[model,loss]"));
    fsdp2_.compiled_loss = std::ranges::find(parts, "loss") != parts.end();
  }

  Status devices(estimate::RunHints& hints) {
    const std::int64_t fixed = sizes_.replicate * sizes_.tensor * sizes_.context;  // at most 2^60
    const ConfigKey* shard = keys_.find("parallelism.data_parallel_shard_degree");
    if (shard != nullptr && sizes_.shard == 0) return keys_.wrong(*shard, "write -1 or a whole number from 1");
    constexpr std::int64_t kMostDevices = std::int64_t{1} << 24;
    if (fixed > kMostDevices || fixed * sizes_.pipeline > kMostDevices ||
        (sizes_.shard > 0 && sizes_.shard > kMostDevices / (fixed * sizes_.pipeline)))
      return bad_input(fmt::format("{}:1: the parallel degrees together exceed the {} devices that are modelled", file_,
                                   kMostDevices));
    std::int64_t& devices = hints.platform.devices;
    if (sizes_.shard < 0) {
      const std::int64_t copy = fixed * sizes_.pipeline;
      if (devices > 0 && devices % copy != 0)
        return bad_input(
            fmt::format("{}:1: the parallel degrees other than data_parallel_shard_degree make {} "
                        "devices, which do not divide {}",
                        file_, copy, devices));
      if (devices == 0) {
        devices = kNode % copy == 0 ? kNode : copy;
        shard != nullptr ? keys_.doubt(*shard, kLeftOver) : keys_.doubt_all(kLeftOver);
      }
      return {};
    }
    const std::int64_t stated = fixed * sizes_.pipeline * sizes_.shard;
    if (devices > 0 && devices != stated)
      return keys_.wrong(*shard, fmt::format("the parallel degrees make {} devices, not {}", stated, devices));
    devices = stated;
    return {};
  }

  /// A pipeline cuts the local batch into micro-batches; without one the global batch is accumulated.
  Status batch(std::int64_t devices) {
    const ConfigKey* local = keys_.find("training.local_batch_size");
    if (local == nullptr) local = keys_.find("training.batch_size");
    const ConfigKey* sequence = keys_.find("training.seq_len");
    std::int64_t length = 2048;
    if (Status status = number("training.seq_len", 1, 1 << 27, length); !status) return status;
    give("seq-length", length, sequence);
    if (sizes_.pipeline > 1) {
      const ConfigKey* micro = keys_.find("parallelism.pipeline_parallel_microbatch_size");
      if (sizes_.batch % sizes_.micro != 0 && micro != nullptr)
        return keys_.wrong(*micro,
                           fmt::format("{} does not divide the local batch size {}", sizes_.micro, sizes_.batch));
      give("micro-batch-size", sizes_.micro, micro);
      const std::int64_t ranks =
          std::max<std::int64_t>(1, devices / (sizes_.tensor * sizes_.context * sizes_.pipeline));
      give("global-batch-size", std::min<std::int64_t>(sizes_.batch * ranks, 1 << 30), local);
      return {};
    }
    give("micro-batch-size", sizes_.batch, local);
    if (sizes_.global > 0) give("global-batch-size", sizes_.global, keys_.find("training.global_batch_size"));
    return {};
  }

  /// torchtitan/distributed/pipeline_parallel.py, generate_llm_fqn_per_model_part: embedding and output count as
  /// layers.
  Status stages() {
    fsdp2_.keeps_gathered = reshards_never();
    if (sizes_.pipeline == 1) return {};
    const ConfigKey* degree = keys_.find("parallelism.pipeline_parallel_degree");
    std::int64_t first = 1;
    std::int64_t last = 1;
    std::int64_t each = 0;
    if (Status status = number("parallelism.pipeline_parallel_first_stage_less_layers", 0, 1000, first); !status)
      return status;
    if (Status status = number("parallelism.pipeline_parallel_last_stage_less_layers", 0, 1000, last); !status)
      return status;
    if (Status status = number("parallelism.pipeline_parallel_layers_per_stage", 1, 100'000, each); !status)
      return status;
    const std::string_view schedule = keys_.text("parallelism.pipeline_parallel_schedule", "1F1B");
    const bool single = schedule == "1F1B" || schedule == "GPipe";
    const std::int64_t weight = flavor_->layers + first + last;
    const std::int64_t stages = each > 0 ? (weight + each - 1) / each : sizes_.pipeline * (single ? 1 : 2);
    if (stages % sizes_.pipeline != 0 || stages > weight || weight / stages < std::max(first, last))
      return keys_.wrong(*degree, fmt::format("{} layers and {} for embedding and output do not make {} stages over "
                                              "{} ranks as torchtitan divides them",
                                              flavor_->layers, first + last, stages, sizes_.pipeline));
    keys_.add("pipeline-model-parallel-layout", layout(stages, first, last), degree);
    return {};
  }

  [[nodiscard]] std::string layout(std::int64_t stages, std::int64_t first, std::int64_t last) const {
    const std::int64_t weight = flavor_->layers + first + last;
    std::string text;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      std::int64_t layers = weight / stages + (stage < weight % stages ? 1 : 0);
      if (stage == 0) layers -= first;
      if (stage == stages - 1) layers -= last;
      if (stage > 0) text += '|';
      if (stage == 0) text += 'E';
      if (layers > 0) text += fmt::format("t*{}", layers);
      if (stage == stages - 1) text += 'L';
    }
    return text;
  }

  [[nodiscard]] bool reshards_never() const {
    const std::string_view policy = keys_.text("parallelism.fsdp_reshard_after_forward", "default");
    return policy == "never" || (policy != "always" && sizes_.pipeline > 1);
  }

  void doubts() {
    keys_.doubt_all(kCompared);
    if (const ConfigKey* degree = keys_.find("parallelism.pipeline_parallel_degree"); sizes_.pipeline > 1)
      keys_.doubt(*degree, kPipelines);
    if (flavor_->experts > 0) keys_.doubt(*keys_.find("model.flavor"), kExperts);
    converters();
    const bool validates = keys_.is_on("validation.enabled") || keys_.is_on("validation.enable");
    if (!validates) return;
    for (const std::string_view path : {"validation.local_batch_size", "validation.seq_len"})
      if (const ConfigKey* key = keys_.find(path))
        if (const auto size = estimate::whole_number(key->value); size && *size > 0)
          keys_.doubt(*key, "evaluation with sizes of its own is not modelled");
  }

  void converters() {
    const ConfigKey* key = keys_.find("model.converters");
    if (key == nullptr) return;
    for (const std::string& one : estimate::list_items(key->value))
      if (one != "float8" && one != "mx" && !one.starts_with("quantize."))
        keys_.doubt(*key, "a converter that is not known here changes the model");
  }

  KeyJudge& keys_;
  std::string_view file_;
  const TitanFlavor* flavor_ = nullptr;
  Sizes sizes_;
  Fsdp2 fsdp2_;
};

}  // namespace

Result<ImportedRun> read_titan(std::string_view text, std::string_view file_name, const estimate::RunHints& hints) {
  const Result<std::vector<ConfigKey>> keys = toml_keys(text, file_name);
  if (!keys) return keys.error();
  KeyJudge judge(file_name, keys.value(), titan_table());
  if (Status status = judge.judge(); !status) return status.error();
  return TitanReader(judge, file_name).read(hints);
}

}  // namespace tidemark::configs
