#include "planner/estimate/flag_candidates.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>

#include "planner/estimate/argument_rows.h"
#include "planner/estimate/argument_value.h"
#include "planner/estimate/local_sizes.h"
#include "planner/estimate/selective_recompute.h"

namespace tidemark::estimate {
namespace {

using Granularity = Recompute::Granularity;

/// Levels of one family: so many halvings or doublings.
constexpr int kMostLevels = 4;

class Candidates {
 public:
  Candidates(const ArgumentSet& set, const TrainingRun& run) : run_(run) {
    for (const Argument& argument : set.arguments) {
      const std::string name = table_name(argument.name);
      const bool off = !argument.value.empty() && (switch_value(argument.value) == false || is_unset(argument.value));
      if (off) {
        given_.erase(name);
      } else {
        given_.insert(name);
      }
    }
  }

  std::vector<FlagCandidate> find() {
    add_sharding();
    add_loss();
    add_dispatcher();
    add_recompute_options();
    add_modules();
    add_whole_layers();
    add_micro_batch();
    add_activation_copies();
    add_parallel();
    add_narrow_state();
    add_state_copies();
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool is_mindspeed() const { return run_.platform.framework == Framework::mindspeed_llm; }
  [[nodiscard]] bool has(std::initializer_list<std::string_view> names) const {
    return std::ranges::any_of(names, [this](std::string_view name) { return given_.contains(name); });
  }
  void add(std::string_view family, std::vector<Flag> flags) {
    found_.push_back({.family = family, .flags = std::move(flags)});
  }

  [[nodiscard]] bool can_shard() const {
    const OptimizerState& optimizer = run_.optimizer;
    return !optimizer.distributed && !optimizer.fsdp && run_.parallel.data * run_.parallel.context > 1;
  }

  void add_sharding() {
    if (can_shard()) add("distributed optimizer", {{"use-distributed-optimizer", ""}});
    if (run_.parallel.tensor > 1 && !run_.parallel.sequence_parallel)
      add("sequence parallel", {{"sequence-parallel", ""}});
  }

  void add_loss() {
    if (is_mindspeed()) {
      if (run_.loss.chunk_tokens == 0 && !run_.loss.preference)
        add("loss", {{"loss-compute-mode", "chunk"}, {"loss-chunk-size", "1024"}});
    } else if (!run_.model.transformer_impl_local && !(run_.loss.fused && run_.loss.fused_by_te)) {
      add("loss", {{"cross-entropy-loss-fusion", ""}, {"cross-entropy-fusion-impl", "te"}});
    }
  }

  void add_dispatcher() {
    const Experts& moe = run_.model.moe;
    if (moe.experts > 0 && moe.dispatcher == Dispatcher::allgather && !moe.allgather_overlap)
      add("dispatcher", {{"moe-token-dispatcher-type", "alltoall"}});
  }

  /// mindspeed/features_manager: neither beside uniform nor beside selective recomputation.
  void add_recompute_options() {
    if (!is_mindspeed()) return;
    const Recompute& recompute = run_.recompute;
    const bool uniform = recompute.granularity == Granularity::full && recompute.method == Recompute::Method::uniform;
    if (!uniform && recompute.granularity != Granularity::selective) {
      if (!recompute.activation_function) add("activation function", {{"recompute-activation-function", ""}});
      if (!recompute.norms) add("norms", {{"recompute-norm", ""}});
    }
    if (run_.model.attention.multi_latent && !recompute.mla_up_projection && !recompute.mla_attention)
      add("latent up-projections", {{"recompute-mla-up-proj", ""}});
    // Its re-sent tokens hide behind one of two overlaps.
    const bool overlaps = has({"moe-alltoall-overlap-comm", "moe-fb-overlap"});
    if (run_.model.moe.experts > 0 && run_.model.moe.zero_memory == ZeroMemory::off && overlaps)
      add("zero memory", {{"moe-zero-memory", "level0"}});
  }

  [[nodiscard]] bool can_select() const {
    const Recompute& recompute = run_.recompute;
    if (recompute.granularity == Granularity::full) return false;
    // Megatron-LM refuses a method or a number of layers beside selective recomputation, MindSpeed-LLM its own options.
    if (has({"recompute-method", "recompute-num-layers"})) return false;
    return !recompute.activation_function && !recompute.norms;
  }

  void add_modules() {
    if (!can_select()) return;
    const bool experts = run_.model.moe.experts > 0;
    std::string given;
    if (run_.recompute.granularity == Granularity::selective)
      for (const std::string& module : run_.recompute.modules) given += module + " ";
    const auto add_module = [&](std::string_view family, std::string_view module, bool fits) {
      if (!fits || recomputes(run_, module)) return;
      add(family, {{"recompute-granularity", "selective"}, {"recompute-modules", given + std::string(module)}});
    };
    add_module("core_attn", "core_attn", true);
    add_module("layernorm", "layernorm", true);
    add_module("moe_act", "moe_act", experts && run_.model.moe.grouped_gemm);
    add_module("mla_up_proj", "mla_up_proj", run_.model.attention.multi_latent);
    add_module("shared_experts", "shared_experts",
               run_.model.moe.shared_width > 0 && !has({"moe-shared-expert-overlap"}));
    add_module("mlp", "mlp", true);
    add_module("moe", "moe", experts);
  }

  [[nodiscard]] std::int64_t most_layers() const {
    std::size_t most = 0;
    for (const std::vector<Chunk>& chunks : run_.parallel.chunks)
      for (const Chunk& chunk : chunks) most = std::max(most, chunk.layers.size());
    return static_cast<std::int64_t>(most);
  }

  /// Some layers, then all: `block` keeps the rest as it is.
  void add_whole_layers() {
    const Recompute& recompute = run_.recompute;
    // --recompute-activations overrides the granularity, whatever it says; the other is refused beside `full`.
    if (has({"recompute-activations", "moe-layer-recompute"}) || !run_.offload.modules.empty()) return;
    const bool block = recompute.method == Recompute::Method::block;
    const bool full = recompute.granularity == Granularity::full;
    if (full && !block) return;
    const auto with_layers = [](std::string method, std::int64_t layers) {
      return std::vector<Flag>{{"recompute-granularity", "full"},
                               {"recompute-method", std::move(method)},
                               {"recompute-num-layers", std::to_string(layers)}};
    };
    const bool options = recompute.activation_function || recompute.norms;
    const std::int64_t most =
        recompute.layers_per_rank ? most_layers() * run_.parallel.virtual_pipeline : most_layers();
    const std::int64_t step = std::max<std::int64_t>(1, most / 8);
    for (std::int64_t layers = (full ? recompute.layers : 0) + step; layers < most; layers += step)
      add("whole layers", with_layers("block", layers));
    if (most > (full ? recompute.layers : 0)) add("whole layers", with_layers("block", most));
    if (!options) add("whole layers", with_layers("uniform", 1));
  }

  void add_micro_batch() {
    const Batch& batch = run_.batch;
    std::int64_t micro = batch.micro;
    for (int level = 0; level < kMostLevels && micro % 2 == 0; ++level) {
      micro /= 2;
      if (batch.global % (micro * run_.parallel.data) != 0) return;
      std::vector<Flag> flags = {{"micro-batch-size", std::to_string(micro)}};
      // Without it the global batch would shrink along.
      if (!has({"global-batch-size"})) flags.push_back({"global-batch-size", std::to_string(batch.global)});
      add("micro-batch", std::move(flags));
    }
  }

  void add_activation_copies() {
    if (is_mindspeed()) {
      if (!run_.offload.attention && !has({"moe-fb-overlap", "adaptive-memory-optimization"}))
        add("attention to host", {{"swap-attention", ""}});
      return;
    }
    const bool engine = !run_.model.transformer_impl_local && run_.model.kind == ModelClass::gpt;
    if (!engine || run_.recompute.granularity == Granularity::full || has({"cpu-offloading"})) return;
    std::string given;
    for (const std::string& module : run_.offload.modules) given += module + " ";
    const auto add_module = [&](std::string_view family, const std::string& modules, bool fits) {
      if (fits && given.find(modules) == std::string::npos)
        add(family, {{"fine-grained-activation-offloading", ""}, {"offload-modules", given + modules}});
    };
    add_module("qkv_linear to host", "qkv_linear", true);
    add_module("core_attn to host", "core_attn attn_proj", true);
    add_module("expert_fc1 to host", "expert_fc1", run_.model.moe.experts > 0 && !recomputes(run_, "moe"));
  }

  /// Layers that a list or a layout places fit one number of stages only.
  [[nodiscard]] bool is_evenly_placed() const {
    return run_.parallel.virtual_pipeline == 1 && run_.model.kind == ModelClass::gpt &&
           !has({"pipeline-model-parallel-layout", "num-layer-list", "noop-layers", "decoder-first-pipeline-num-layers",
                 "decoder-last-pipeline-num-layers", "num-layers-in-first-pipeline-stage",
                 "num-layers-in-last-pipeline-stage", "num-layers-per-virtual-pipeline-stage", "schedules-method",
                 "num-virtual-stages-per-pipeline-rank", "virtual-pipeline-model-parallel-size"});
  }

  /// Devices come from the data-parallel group: the global batch is the same, in more micro-batches.
  void add_parallel() {
    const Parallel& parallel = run_.parallel;
    std::int64_t factor = 2;
    for (int level = 0; level < kMostLevels; ++level, factor *= 2) {
      const bool divides = parallel.data % factor == 0;
      const auto times = [factor](std::int64_t size) { return std::to_string(size * factor); };
      if (run_.model.moe.experts > 0 && parallel.expert_data % factor == 0 && !has({"moe-tp-extend-ep"}) &&
          run_.model.moe.experts % (parallel.expert * factor) == 0)
        add("expert parallel", {{"expert-model-parallel-size", times(parallel.expert)}});
      if (!divides) continue;
      std::vector<Flag> batch;
      if (!has({"global-batch-size"})) batch.push_back({"global-batch-size", std::to_string(run_.batch.global)});
      if (!is_mindspeed() && !run_.model.transformer_impl_local)
        add_with("context parallel", "context-parallel-size", times(parallel.context), batch);
      if (can_split(factor)) add_tensor_parallel(parallel.tensor * factor, batch);
      if (is_evenly_placed() && run_.model.layers % (parallel.pipeline * factor) == 0)
        add_with("pipeline parallel", "pipeline-model-parallel-size", times(parallel.pipeline), batch);
    }
  }
  /// Heads, groups and widths are shared out whole; megatron/core/transformer/transformer_config.py.
  [[nodiscard]] bool can_split(std::int64_t factor) const {
    const Parallel& parallel = run_.parallel;
    const Model& model = run_.model;
    const std::int64_t tensor = parallel.tensor * factor;
    const std::int64_t groups = model.attention.groups;
    if (has({"model-parallel-size", "moe-tp-extend-ep"}) || model.kind != ModelClass::gpt) return false;
    if (model.attention.heads % tensor != 0 || model.ffn % tensor != 0 || model.moe.shared_width % tensor != 0)
      return false;
    if (!model.attention.multi_latent && groups % tensor != 0 && tensor % groups != 0) return false;
    if (model.sequence / parallel.context % tensor != 0) return false;
    if (model.moe.experts == 0) return true;
    const std::int64_t expert_tensor = has({"expert-tensor-parallel-size"}) ? parallel.expert_tensor : tensor;
    return model.moe.width % expert_tensor == 0 &&
           parallel.world % (expert_tensor * parallel.expert * parallel.pipeline) == 0;
  }

  /// With the sequence shared out, too: experts need it, and it costs nothing.
  void add_tensor_parallel(std::int64_t tensor, std::vector<Flag> others) {
    if (!run_.parallel.sequence_parallel) others.insert(others.begin(), {"sequence-parallel", ""});
    add_with("tensor parallel", "tensor-model-parallel-size", std::to_string(tensor), std::move(others));
  }

  void add_with(std::string_view family, std::string name, std::string value, std::vector<Flag> others) {
    others.insert(others.begin(), {std::move(name), std::move(value)});
    add(family, std::move(others));
  }

  [[nodiscard]] std::vector<Flag> with_sharding(std::vector<Flag> flags) const {
    if (!run_.optimizer.distributed) flags.push_back({"use-distributed-optimizer", ""});
    return flags;
  }

  /// Both optimizers with less state are Adam's, and shard it.
  [[nodiscard]] bool can_narrow() const {
    const OptimizerState& optimizer = run_.optimizer;
    return optimizer.kind == Optimizer::adam && !optimizer.fsdp && (optimizer.distributed || can_shard());
  }

  void add_narrow_state() {
    const OptimizerState& optimizer = run_.optimizer;
    if (is_mindspeed()) {
      if (run_.precision == Precision::bf16 && !optimizer.reuse_fp32_parameter && !optimizer.on_host)
        add("fp32 parameters", {{"reuse-fp32-param", ""}});
      return;
    }
    if (!can_narrow()) return;
    if (!optimizer.precision_aware) add("state types", with_sharding({{"use-precision-aware-optimizer", ""}}));
    if (optimizer.exp_avg_bytes == 4 && optimizer.exp_avg_sq_bytes == 4)
      add("state types",
          with_sharding(
              {{"use-precision-aware-optimizer", ""}, {"exp-avg-dtype", "bf16"}, {"exp-avg-sq-dtype", "bf16"}}));
  }

  void add_state_copies() {
    const OptimizerState& optimizer = run_.optimizer;
    if (is_mindspeed()) {
      const bool fits = optimizer.distributed || can_shard();
      if (fits && !optimizer.on_host && !optimizer.reuse_fp32_parameter && optimizer.kind == Optimizer::adam)
        add("optimizer to host", with_sharding({{"swap-optimizer", ""}}));
      return;
    }
    if (!can_narrow()) return;
    for (const double share : {0.25, 0.5, 0.75, 1.0}) {
      if (share <= optimizer.host_share) continue;
      std::string fraction = std::to_string(share);
      fraction.resize(4);
      add("optimizer to host", with_sharding({{"optimizer-cpu-offload", ""},
                                              {"optimizer-offload-fraction", fraction},
                                              {"use-precision-aware-optimizer", ""}}));
    }
  }

  const TrainingRun& run_;
  std::set<std::string, std::less<>> given_;
  std::vector<FlagCandidate> found_;
};

}  // namespace

bool fit_together(const std::vector<Flag>& flags) {
  const auto has = [&flags](std::string_view name, std::string_view item) {
    return std::ranges::any_of(flags, [&](const Flag& flag) {
      if (flag.name != name) return false;
      const std::vector<std::string> items = list_items(flag.value);
      return item.empty() || std::ranges::find(items, item) != items.end();
    });
  };
  const bool rebuilds = has("recompute-activation-function", "") || has("recompute-norm", "");
  if (rebuilds && (has("recompute-method", "uniform") || has("recompute-granularity", "selective"))) return false;
  if (has("swap-optimizer", "") && has("reuse-fp32-param", "")) return false;
  if (has("optimizer-cpu-offload", "") && has("exp-avg-dtype", "")) return false;
  if (has("fine-grained-activation-offloading", "") && has("recompute-granularity", "full")) return false;
  const bool experts = has("recompute-modules", "moe");
  return !experts || !(has("recompute-modules", "moe_act") || has("recompute-modules", "shared_experts") ||
                       has("offload-modules", "expert_fc1"));
}

std::vector<FlagCandidate> flag_candidates(const ArgumentSet& set, const TrainingRun& run) {
  return Candidates(set, run).find();
}

}  // namespace tidemark::estimate
