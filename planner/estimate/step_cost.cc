#include "planner/estimate/step_cost.h"

#include <algorithm>

#include "planner/estimate/local_sizes.h"
#include "planner/estimate/parameter_list.h"
#include "planner/estimate/recompute_rule.h"
#include "planner/estimate/saved_ascend.h"
#include "planner/estimate/saved_cuda.h"
#include "planner/estimate/selective_recompute.h"
#include "planner/estimate/state_bytes.h"

namespace tidemark::estimate {
namespace {

/// Of one device. Sources: the vendors' data sheets, and devices/*.yaml where the device has a file there.
struct Rates {
  double flops = 0;   ///< dense, 16 bits
  double memory = 0;  ///< bytes a second
  double host = 0;    ///< one direction
  double node = 0;    ///< between devices of a node
  double net = 0;     ///< between nodes, a device's share
};

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
/// Share of the peak that matrix products reach: assumed, as in devices/*.yaml.
constexpr double kEfficiency = 0.6;
/// Devices of a node on all of these but GB200, whose node is a rack.
constexpr double kNode = 8;

Rates rates_of(const Platform& platform) {
  switch (platform.accelerator) {
    case Accelerator::a100:  // data sheet: 312 TFLOPS, 2039 GB/s, NVLink 300 GB/s each way; PCIe 4 x16; 200 Gb/s
      return {312 * kTera, 2039 * kGiga, 24 * kGiga, 240 * kGiga, 22 * kGiga};
    case Accelerator::h100:  // devices/h100-80g.yaml
      return {989 * kTera, 3350 * kGiga, 53 * kGiga, 360 * kGiga, 45 * kGiga};
    case Accelerator::gb200:  // data sheet: 2500 TFLOPS, 8 TB/s, C2C and NVLink 450 and 900 GB/s each way; effective
                              // rates
      return {2500 * kTera, 8000 * kGiga, 300 * kGiga, 720 * kGiga, 45 * kGiga};
    case Accelerator::ascend:  // devices/ascend-910b-64g.yaml
      return {313 * kTera, 1600 * kGiga, 23.4 * kGiga, 150 * kGiga, 22 * kGiga};
  }
  return {};
}

double real(std::int64_t n) {
  return static_cast<double>(n);
}

/// Work of one token in one layer of one kind, the whole model's width. Operations and bytes.
struct LayerWork {
  double projections = 0;  ///< attention's products, up-projections of latents included
  double up = 0;           ///< of them the up-projections
  double core = 0;
  double mlp = 0;     ///< dense, or routed experts and shared ones
  double shared = 0;  ///< of it the shared experts
  double first = 0;   ///< of it the first matrix
  double norm_bytes = 0;
  double act_bytes = 0;
  double sent_bytes = 0;  ///< to experts on other ranks and back, one direction of passes

  [[nodiscard]] double flops() const { return projections + core + mlp; }
};

void add_attention(const TrainingRun& run, LayerWork& work) {
  const Attention& attention = run.model.attention;
  const double hidden = real(run.model.hidden);
  const double heads = real(attention.heads);
  double width = 2 * real(attention.head_dim);  // of a query and a value
  if (attention.multi_latent) {
    const double query = real(attention.qk_head_dim + attention.qk_rope_dim);
    const double q = real(attention.q_lora_rank), kv = real(attention.kv_lora_rank);
    const double keys_values = kv * heads * real(attention.qk_head_dim + attention.v_head_dim);
    work.up = 2 * (q * heads * query + keys_values);
    work.projections = work.up + 2 * hidden * (q > 0 ? q : heads * query) +
                       2 * hidden * (kv + real(attention.qk_rope_dim) + heads * real(attention.v_head_dim));
    width = query + real(attention.v_head_dim);
  } else {
    work.projections = 4 * hidden * real(attention.head_dim) * (heads + real(attention.groups));
  }
  work.core = heads * real(run.model.sequence) * width;
  work.norm_bytes = 4 * 2 * hidden;  // two norms, each read and written, 16 bits
}

void add_mlp(const TrainingRun& run, bool experts, LayerWork& work) {
  const Model& model = run.model;
  const double first = model.gated ? 2 : 1;
  const double hidden = real(model.hidden);
  double width = real(model.ffn);
  if (experts) {
    width = real(model.moe.top_k) * real(model.moe.width);
    const double inner = model.moe.latent > 0 ? real(model.moe.latent) : hidden;
    work.shared = 2 * hidden * (first + 1) * real(model.moe.shared_width);
    work.first = 2 * inner * first * width;
    work.mlp = 2 * inner * (first + 1) * width + work.shared;
    const double away = 1 - 1 / real(std::max<std::int64_t>(1, run.parallel.expert));
    work.sent_bytes = 2 * real(model.moe.top_k) * inner * 2 * away;
    width += real(model.moe.shared_width);
  } else {
    work.first = 2 * hidden * first * width;
    work.mlp = 2 * hidden * (first + 1) * width;
  }
  work.act_bytes = (first + 1) * width * 2;
}

LayerWork work_of(const TrainingRun& run, bool experts) {
  LayerWork work;
  add_attention(run, work);
  add_mlp(run, experts, work);
  return work;
}

/// What a step runs again of one layer's forward.
struct Again {
  double flops = 0;
  double bytes = 0;
  double sent = 0;
};

void add_selective(const TrainingRun& run, bool experts, const LayerWork& work, Again& again) {
  if (recomputes(run, "core_attn")) again.flops += work.core;
  if (recomputes(run, "mla_up_proj") && run.model.attention.multi_latent) again.flops += work.up;
  if (recomputes(run, "layernorm")) again.bytes += work.norm_bytes;
  if (!experts && recomputes(run, "mlp")) again.flops += work.mlp, again.bytes += work.act_bytes;
  if (!experts) return;
  if (recomputes(run, "moe")) {
    again.flops += work.mlp;
    again.bytes += work.act_bytes;
    again.sent += work.sent_bytes;
    return;
  }
  if (recomputes(run, "shared_experts")) again.flops += work.shared;
  if (recomputes(run, "moe_act")) again.bytes += work.act_bytes;
}

/// Options of MindSpeed that rebuild single modules.
void add_memory_options(const TrainingRun& run, bool experts, const LayerWork& work, Again& again) {
  const Recompute& recompute = run.recompute;
  if (recompute.activation_function) again.bytes += work.act_bytes;
  if (recompute.norms) again.bytes += work.norm_bytes;
  if (recompute.mla_attention && run.model.attention.multi_latent)
    again.flops += work.projections + work.core;
  else if (recompute.mla_up_projection && run.model.attention.multi_latent)
    again.flops += work.up;
  if (!experts || run.model.moe.zero_memory == ZeroMemory::off) return;
  again.bytes += work.act_bytes;
  again.sent += work.sent_bytes / 2;  // tokens are sent again, results are not
  if (run.model.moe.zero_memory == ZeroMemory::level1) again.flops += work.first;
}

/// Layers of the model: those with experts, and the others.
struct Layers {
  double dense = 0, experts = 0;
  [[nodiscard]] double all() const { return dense + experts; }
};

Layers layers_of(const TrainingRun& run) {
  const Model& model = run.model;
  if (model.kind == ModelClass::hybrid) {  // a layer of a pattern is half of one: attention, or a feed-forward part
    Layers layers;
    for (const char letter : model.hybrid_pattern) {
      if (letter == 'E') layers.experts += 0.5;
      if (letter == 'M' || letter == '*' || letter == '-') layers.dense += 0.5;
    }
    return layers;
  }
  Layers layers{.dense = real(model.layers + model.encoder_layers + model.mtp_layers)};
  if (model.moe.experts == 0) return layers;
  layers.experts = real(std::ranges::count(model.moe.is_moe, true));
  if (!model.moe.is_moe.empty() && model.moe.is_moe.back()) layers.experts += real(model.mtp_layers);
  layers.dense -= layers.experts;
  return layers;
}

/// Share of the layers that are recomputed as a whole.
double whole_share(const TrainingRun& run, double layers) {
  if (!recomputes_layers(run)) return 0;
  if (run.recompute.method != Recompute::Method::block) return 1;
  const double chunks =
      run.recompute.layers_per_rank ? 1 : real(std::max<std::int64_t>(1, run.parallel.virtual_pipeline));
  return std::min(1.0, real(run.recompute.layers) * chunks * real(run.parallel.pipeline) / std::max(1.0, layers));
}

/// Copies of activations to host memory and back that a layer's forward work does not cover.
double exposed_copies(const TrainingRun& run, const LocalSizes& sizes, bool experts, double seconds,
                      const Rates& rates) {
  if (run.offload.modules.empty() && !run.offload.attention && !run.offload.attention_output) return 0;
  TrainingRun without = run;
  without.offload = {};
  const auto kept = [&](const TrainingRun& of) {
    return on_ascend(of) ? layer_cost_ascend(of, sizes, experts, {}).kept
                         : layer_cost_cuda(of, sizes, experts, false).kept;
  };
  const double copied = std::max(0.0, kept(without) - kept(run)) / rates.host;
  return std::max(0.0, copied - seconds) + std::max(0.0, copied - 2 * seconds);  // down in forward, up in backward
}

/// Sums of a layer's output over its tensor parallel ranks.
double exchange_seconds(const TrainingRun& run, const LocalSizes& sizes, double whole, const Rates& rates) {
  const double ranks = real(run.parallel.tensor);
  const double sums = 4 + 2 * whole;
  const double bytes = sums * 2 * (ranks - 1) / ranks * sizes.tokens * sizes.hidden * sizes.element_bytes;
  return bytes / (ranks <= kNode ? rates.node : rates.net);
}

/// Seconds of one layer of one kind in one micro-batch, all of its passes.
double layer_seconds(const TrainingRun& run, const LocalSizes& sizes, bool experts, double whole, const Rates& rates) {
  const LayerWork work = work_of(run, experts);
  const double tokens = sizes.tokens / real(run.parallel.tensor);  // whole work of so many tokens falls to a rank
  const double spread = shards_sequence(run) ? 1 : real(run.parallel.tensor);  // norms of unsplit tokens run everywhere
  const double rate = rates.flops * kEfficiency;
  Again again;
  add_selective(run, experts, work, again);
  add_memory_options(run, experts, work, again);
  const auto mixed = [whole](double part, double all) { return whole * all + (1 - whole) * part; };
  const bool near = real(run.parallel.expert * run.parallel.expert_tensor) <= kNode;
  const double flops = 3 * work.flops() + mixed(again.flops, work.flops());
  const double all_bytes = work.norm_bytes * spread + work.act_bytes;
  const double bytes = 3 * all_bytes + mixed(again.bytes, all_bytes);
  const double sent = 2 * work.sent_bytes + mixed(again.sent, work.sent_bytes);
  const double context = real(run.parallel.context);
  const double ring = context > 1 ? 3 * 2 * sizes.key_width * sizes.tokens * (context - 1) * sizes.element_bytes : 0;
  const double forward = tokens * work.flops() / rate;
  return tokens * (flops / rate + bytes / rates.memory + sent / (near ? rates.node : rates.net)) +
         std::max(0.0, ring / rates.net - 3 * tokens * work.core / rate) + exchange_seconds(run, sizes, whole, rates) +
         exposed_copies(run, sizes, experts, forward, rates);
}

/// Elements of a rank and what each costs in every micro-batch: read forward and backward, its gradient added to.
double weight_seconds(double elements, const Rates& rates) {
  constexpr double kBytes = 2 + 2 + 4 + 4;
  return kBytes * elements / rates.memory;
}

/// The optimizer's step, and the exchange of gradients and weights, half of it beside backward work.
double step_end_seconds(const TrainingRun& run, double elements, double shards, const Rates& rates) {
  constexpr double kState = 4 + 4 + 4;
  const OptimizerState& optimizer = run.optimizer;
  const double held = elements / shards;
  double seconds = 2 * kState * held / rates.memory;
  if (optimizer.on_host) seconds += kState * held / rates.host;  // up and down at once
  // Gradients go down, weights come up, and the host updates what it holds at the speed of its memory, which the
  // devices of a node share: assumed to be what a device's link carries.
  if (optimizer.host_share > 0) seconds += optimizer.host_share * held * (4 + 2 + 2 * kState) / rates.host;
  const double ranks = real(run.parallel.data * run.parallel.context);
  if (ranks > 1) seconds += 0.5 * elements * (optimizer.gradient_16bit ? 4 : 6) / rates.net;
  return seconds;
}

/// Of each of a rank's chunks, so many micro-batches' time it waits.
double idle_chunks(const TrainingRun& run) {
  const Parallel& parallel = run.parallel;
  const double chunks =
      parallel.schedule == Schedule::dualpipev ? 2 : real(std::max<std::int64_t>(1, parallel.virtual_pipeline));
  return (real(parallel.pipeline) - 1) / chunks;
}

}  // namespace

StepTime step_time(const TrainingRun& run) {
  const Rates rates = rates_of(run.platform);
  const LocalSizes sizes = local_sizes(run, {});
  const Layers layers = layers_of(run);
  const double whole = whole_share(run, layers.all());
  const double stages = real(run.parallel.pipeline);
  double layer_time = 0;
  if (layers.dense > 0) layer_time += layers.dense * layer_seconds(run, sizes, false, whole, rates);
  if (layers.experts > 0) layer_time += layers.experts * layer_seconds(run, sizes, true, whole, rates);
  const double heads = 1 + real(run.model.mtp_layers);
  const double head_time = heads * 3 * 2 * sizes.tokens * sizes.vocabulary * sizes.hidden / (rates.flops * kEfficiency);
  const std::int64_t middle = run.parallel.pipeline / 2;
  double elements = 0, shards = 1;
  for (const Parameter& parameter : rank_parameters(run, middle)) {
    elements += real(parameter.elements);
    shards = std::max(shards, optimizer_shards(run, parameter.expert));
  }
  const double micro_batch = (layer_time + head_time) / stages + weight_seconds(elements, rates);
  const double micro_batches = real(run.batch.micro_batches);
  return {.passes = micro_batches * micro_batch,
          .idle_chunks = idle_chunks(run),
          .micro_batches = micro_batches,
          .end = step_end_seconds(run, elements, shards, rates)};
}

double step_seconds(const TrainingRun& run) {
  return step_time(run).seconds();
}

double step_percent(const TrainingRun& before, const TrainingRun& after) {
  return 100 * (step_seconds(after) / step_seconds(before) - 1);
}

}  // namespace tidemark::estimate
