#include "planner/step_time/row_run.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "planner/step_time/overlap_shares.h"
#include "planner/step_time/row_notes.h"
#include "planner/step_time/row_refusal.h"
#include "planner/step_time/software.h"

namespace tidemark::step_time {
namespace {

// Settings of the rows' sources, made by hand while looking at measured rows; none is fitted.
constexpr std::int64_t kUnstatedVocabulary = 32000;  ///< Llama 2's
constexpr std::int64_t kTypicalDocument = 1024;      ///< tokens, where fine-tuning packs them
constexpr double kAsyncTensorHidden = 0.6;           ///< asynchronous tensor parallelism of torchtitan
constexpr double kCompiledVectorShare = 0.6;
constexpr double kCapturedLaunches = -15;  ///< router and preparation of a MoE layer in CUDA graphs
constexpr double kAllToAllLaunches = 60;   ///< more for a dispatcher without fused permutation
constexpr double kDefaultLaunches = 75;    ///< more where an experiment names no dispatcher
constexpr double kMostHeldBytes = 80e9;    ///< of bf16 weights: no device of the rows that are not sharded holds more

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Published tables name no dispatcher: their recipes send a token to a node once.
bool is_bridge_table(const RowWords& row) {
  return contains(row.source, "Megatron-Bridge") && contains(row.source, "performance-summary");
}

TimedModel model_of(const ModelWords& words) {
  TimedModel model;
  model.layers = words.layers;
  model.hidden = words.hidden;
  model.ffn = words.ffn;
  model.heads = words.heads;
  model.kv_heads = words.kv_heads > 0 ? words.kv_heads : words.heads;
  model.head_dim = words.head_dim > 0 ? words.head_dim : words.hidden / words.heads;
  model.vocabulary = words.vocabulary > 0 ? words.vocabulary : kUnstatedVocabulary;
  model.is_gated = words.is_gated;
  model.is_tied = words.is_tied;
  model.is_causal = !words.name.starts_with("bert");  // the one model class that no argument tells
  // Sliding window of the published configuration (mistralai/Mistral-7B-v0.1); launch scripts set it in code.
  model.window = words.name == "Mistral-7B" ? 4096 : words.window;
  model.alternates_window = words.window_every > 0;
  model.experts = words.experts;
  model.top_k = words.top_k;
  model.expert_ffn = words.expert_ffn;
  model.shared_ffn = words.shared_ffn;
  const std::int64_t after_dense = words.layers - std::max<std::int64_t>(words.dense_layers, 0);
  model.moe_layers = words.experts > 0 ? after_dense / or_one(words.moe_every) : 0;
  model.mtp_layers = words.mtp_layers;
  model.is_mla = words.mla.has_value();
  if (words.mla) model.mla = *words.mla;
  return model;
}

double parameters_of(const TimedModel& model) {
  const auto real = [](std::int64_t count) { return static_cast<double>(count); };
  const double hidden = real(model.hidden), matrices = model.is_gated ? 3 : 2;
  const double attention = hidden * real(model.head_dim) * 2 * (real(model.heads) + real(model.kv_heads));
  const double expert_width = real(model.expert_ffn) * real(model.experts) + real(model.shared_ffn);
  const double widths = real(model.layers - model.moe_layers) * real(model.ffn) + real(model.moe_layers) * expert_width;
  return real(model.layers) * attention + matrices * hidden * widths + 2 * real(model.vocabulary) * hidden;
}

/// Megatron-Core's default is tp, where expert ranks fit without it.
std::int64_t expert_tensor_of(const RowWords& row, const TimedRun& run) {
  if (row.model.experts == 0) return 1;
  if (row.layout.expert_tensor > 0) return row.layout.expert_tensor;
  return (run.data * run.context) % run.expert == 0 ? run.tensor : 1;
}

void set_layout(TimedRun& run, const RowWords& row, const Software& software) {
  const LayoutWords& words = row.layout;
  run.tensor = or_one(words.tensor);
  run.pipeline = or_one(words.pipeline);
  run.virtual_pipeline = or_one(words.virtual_pipeline);
  run.context = or_one(words.context);
  run.data = row.devices / (run.tensor * run.pipeline * run.context);
  run.expert = or_one(words.expert);
  run.expert_tensor = expert_tensor_of(row, run);
  run.is_sequence_parallel = words.is_sequence_parallel.value_or(software.is_sequence_parallel && run.tensor > 1);
  run.optimizer_span = words.optimizer_span;
  run.is_even = run.model.mtp_layers > 0;  // recipes give a last stage with MTP fewer layers
}

void set_sharding(TimedRun& run, const RowWords& row, const Software& software) {
  const std::int64_t experts = run.model.experts > 0 ? run.expert : 1;
  const double held = 2 * parameters_of(run.model) / static_cast<double>(run.tensor * run.pipeline * experts);
  run.sharded = or_one(row.layout.sharded);
  if (run.sharded == 1 && held > kMostHeldBytes) run.sharded = run.data;
  const std::string& sharding = row.layout.sharding;
  run.gathers_once = sharding == "hsdp" || sharding == "grad_op" || contains(row.id, "GRAD_OP");
  const bool is_bf16_reduced =
      software.name == "titan" || software.name == "fms" || software.name == "bridge" || contains(row.id, "/PURE");
  run.reduced_bytes = is_bf16_reduced ? 2 : 4;
}

/// The mean share of layers, of a list with a count for each stage: MindFormers' "[8, 7]". 0 where it is none.
double share_by_stage(std::string_view list, std::int64_t layers) {
  double sum = 0;
  const char* const last = list.data() + list.size();
  for (const char* at = list.data(); at != last;) {
    if (std::string_view("[], ").find(*at) != std::string_view::npos) {
      ++at;
      continue;
    }
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(at, last, count);
    if (error != std::errc{} || count < 0) return 0;
    sum += static_cast<double>(count);
    at = end;
  }
  return std::min(1.0, sum / static_cast<double>(layers));
}

void set_recompute(TimedRun& run, const RecomputeWords& words) {
  const std::string& granularity = words.granularity;
  if (granularity == "full" && words.method == "block") {
    const auto chunks = static_cast<double>(run.pipeline * run.virtual_pipeline);
    const double share = static_cast<double>(words.layers) * chunks / static_cast<double>(run.model.layers);
    run.recomputed.layers = std::min(1.0, share);
  } else if (granularity == "full") {
    run.recomputed.layers = 1;
  } else if (granularity == "selective-layer") {
    run.recomputed.layers = 0.5;  // torchtitan's default: every second layer
  } else if (granularity == "selective-op") {
    run.recomputed.is_half_of_products = true;
  } else if (granularity == "selective") {
    // Megatron's default where no module is named.
    for (const std::string& module : words.modules.value_or(std::vector<std::string>{"core_attn"}))
      run.recomputed.modules.push_back({.name = module});
  } else if (granularity.starts_with("[")) {
    run.recomputed.layers = share_by_stage(granularity, run.model.layers);
  }
  if (words.is_activation_recomputed) run.recomputed.modules.push_back({.name = "activation"});
}

/// Context parallelism of MindSpeed sends keys and values around whole and masks: nothing is saved by packing.
void set_documents(TimedRun& run, const RowWords& row) {
  const bool is_packed = contains(row.id, "_pack_") && run.context == 1;
  if (is_packed || row.layout.task == "sft") run.document = std::min(kTypicalDocument, row.sequence);
}

double tensor_hidden_of(const RowWords& row, const Software& software) {
  if (row.overlap.is_async_tensor) return kAsyncTensorHidden;
  if (row.overlap.is_fused_tensor) return kFusedTensorHidden;
  // Buffers for overlap belong to recipes of pretraining.
  return row.layout.task == "sft" ? 0 : software.tensor_hidden;
}

double more_moe_launches(const RowWords& row, const Software& software) {
  if (!row.overlap.captured.empty()) return kCapturedLaunches;
  const bool is_experiment = software.name == "bridge" && !is_bridge_table(row);
  if (row.model.experts == 0 || !is_experiment || row.overlap.dispatcher_cores > 0) return 0;
  return row.overlap.dispatcher.empty() ? kDefaultLaunches : kAllToAllLaunches;
}

bool sends_once_a_node(const RowWords& row) {
  constexpr std::array<std::string_view, 3> kOnce = {"hybridep", "deepep", "flex"};
  const std::string& dispatcher = row.overlap.dispatcher;
  return dispatcher.empty() ? is_bridge_table(row) : std::ranges::find(kOnce, dispatcher) != kOnce.end();
}

/// Of 200 Gb/s a device that the file of A100 has, where a cluster has less between nodes.
double network_share_of(const RowWords& row, const Software& software) {
  if (software.name == "vtrain-multi") return 0.5;  // 800 Gb/s a node of 8, VIA-Research/vTrain
  if (software.name == "internevo") return 0.25;    // 4 x 100 Gb/s a node of 8, doc/en/train_performance
  // Not published: four links of 200 Gb/s a node are assumed, as usual in nodes of A100.
  return software.name == "titan" && row.device.starts_with("a100") ? 0.5 : 1;
}

void set_overlap(TimedRun& run, const RowWords& row, const Software& software) {
  run.tensor_hidden = tensor_hidden_of(row, software);
  run.expert_hidden = row.overlap.is_expert ? kExpertHidden : 0;
  run.sends_once_a_node = sends_once_a_node(row);
  run.more_moe_launches = more_moe_launches(row, software);
  run.network_share = network_share_of(row, software);
  run.fused_vector_share = row.overlap.is_compiled ? kCompiledVectorShare : 1;
}

/// Recipes of NeMo interleave by single layers where their tables print 1 or nothing: with one chunk a stage, rows of
/// 340B are 30 % off.
void interleave_by_recipe(TimedRun& run, const Software& software) {
  const bool is_recipe = software.name == "nemo" || software.name == "dgxc";
  if (is_recipe && run.virtual_pipeline == 1 && run.pipeline > 1)
    run.virtual_pipeline = or_one(run.model.layers / run.pipeline);
}

}  // namespace

std::optional<Precision> precision_of(std::string_view word) {
  if (word == "bf16") return Precision::bf16;
  if (word == "fp16") return Precision::fp16;
  if (word == "fp8" || word == "fp8row") return Precision::fp8;
  if (word == "mxfp8") return Precision::mxfp8;
  if (word == "nvfp4") return Precision::nvfp4;
  return std::nullopt;
}

RowRun run_of(const RowWords& row) {
  RowRun made;
  const Software* software = software_of(row.source);
  if (software != nullptr) made.software = software->name;
  made.refused = refusal_of(row, software);
  if (!made.refused.empty()) return made;
  TimedRun& run = made.run;
  run.model = model_of(row.model);
  run.micro_batch = row.micro_batch;
  run.global_batch = row.global_batch;
  run.sequence = row.sequence;
  run.precision = *precision_of(row.precision);
  set_layout(run, row, *software);
  set_sharding(run, row, *software);
  set_recompute(run, row.recompute);
  set_documents(run, row);
  set_overlap(run, row, *software);
  interleave_by_recipe(run, *software);
  made.notes = notes_of(row, run, *software);
  return made;
}

}  // namespace tidemark::step_time
