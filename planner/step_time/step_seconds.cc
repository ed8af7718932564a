#include "planner/step_time/step_seconds.h"

#include "planner/cost/memory_time.h"
#include "planner/cost/rounded_max.h"
#include "planner/step_time/ends_time.h"
#include "planner/step_time/held_elements.h"
#include "planner/step_time/host_time.h"
#include "planner/step_time/layer_time.h"
#include "planner/step_time/pipeline_time.h"
#include "planner/step_time/rank_shape.h"
#include "planner/step_time/recompute_time.h"
#include "planner/step_time/sharded_time.h"
#include "planner/step_time/step_end.h"

namespace tidemark::step_time {
namespace {

/// A further head of multi-token prediction beside the main one: it projects two hidden widths to one before it.
constexpr double kFurtherHead = 1.1;

/// Forward, backward, what runs again and what copies show of one layer.
PassCost whole_layer(const StepSetting& setting, LayerKind kind) {
  const LayerCost layer = layer_cost(setting, kind);
  return layer.passes.both() + recompute_cost(setting, layer) + copy_cost(setting, layer);
}

/// Parts of one micro-batch, forward and backward: the device runs each beside its own launches.
struct MicroBatch {
  PassCost stage;  ///< layers of a mean stage
  PassCost head, embedding;
};

PassCost weight_traffic(const StepSetting& setting, double elements) {
  return {.vector_s = cost::memory_s(setting.software.weight_gradient_bytes * elements, setting.device)};
}

MicroBatch micro_batch(const StepSetting& setting, const HeldElements& held) {
  const TimedModel& model = setting.run.model;
  const double moe_layers = static_cast<double>(model.moe_layers);
  const double dense_layers = static_cast<double>(model.layers - model.moe_layers);
  const double further_heads = static_cast<double>(model.mtp_layers);
  const Passes head = head_passes(setting), embedding = embedding_passes(setting);
  MicroBatch parts;
  PassCost last_layer;  // of the kind that multi-token prediction repeats
  if (dense_layers > 0 || model.experts == 0) {
    last_layer = whole_layer(setting, LayerKind::dense);
    parts.stage += dense_layers * last_layer;
  }
  if (model.experts > 0) {
    last_layer = whole_layer(setting, LayerKind::moe);
    parts.stage += moe_layers * last_layer;
  }
  parts.stage = 1 / static_cast<double>(setting.run.pipeline) * parts.stage;
  parts.stage += weight_traffic(setting, held.layer() * held.layers);
  parts.head = head.both() + weight_traffic(setting, held.table);
  parts.head += further_heads * (last_layer + kFurtherHead * head.both());
  parts.embedding = embedding.both();
  return parts;
}

double seconds(const StepSetting& setting, const PassCost& cost) {
  if (setting.software.is_graph) return cost.device_s();
  const double host_s = cost.launches * setting.device.rates.launch_s + cost.latency_s;
  return cost::rounded_max(cost.device_s(), host_s, cost::kHostSharpness);
}

StepTerms layer_terms(const StepSetting& setting, const MicroBatch& parts) {
  const PassCost stage = setting.run.micro_batches() * parts.stage;
  return {.matmul_s = stage.matmul_s,
          .attention_s = stage.attention_s,
          .vector_s = stage.vector_s,
          .tensor_s = stage.tensor_s,
          .expert_s = stage.expert_s,
          .copy_s = stage.copy_s,
          .host_s = stage.launches * setting.device.rates.launch_s,
          .head_s = setting.run.micro_batches() * parts.head.device_s()};
}

}  // namespace

StepSeconds step_seconds(const TimedRun& run, const Chip& device, const Software& software) {
  const StepSetting setting{.run = run, .device = device, .software = software, .rank = rank_shape(run)};
  const HeldElements held = held_elements(run);
  const MicroBatch parts = micro_batch(setting, held);
  const PipelineSeconds pipeline = pipeline_s(setting, {.layers_s = seconds(setting, parts.stage),
                                                        .embedding_s = seconds(setting, parts.embedding),
                                                        .head_s = seconds(setting, parts.head)});
  const double micro_batches = run.micro_batches();
  const double shown_s = micro_batches * sharded_s(setting, held, pipeline.seconds / micro_batches);
  const StepEnd end = step_end(setting, held, (pipeline.seconds + shown_s) / micro_batches);
  StepSeconds step{.passes_s = pipeline.seconds - pipeline.fill_s + shown_s,
                   .fill_s = pipeline.fill_s,
                   .end_s = end.optimizer_s + end.exchange_s + software.step_s,
                   .terms = layer_terms(setting, parts)};
  step.seconds = step.passes_s + step.fill_s + step.end_s;
  step.terms.sharded_s = shown_s;
  step.terms.exchange_s = end.exchange_s;
  step.terms.optimizer_s = end.optimizer_s;
  step.terms.bubble_share = pipeline.bubble_share;
  return step;
}

}  // namespace tidemark::step_time
