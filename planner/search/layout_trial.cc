#include "planner/search/layout_trial.h"

#include <algorithm>
#include <limits>
#include <set>

#include "planner/graph_build/device_shapes.h"
#include "planner/graph_build/layer_placement.h"
#include "planner/graph_build/pipeline_schedule.h"
#include "planner/graph_build/static_memory.h"

namespace tidemark::search {
namespace {

std::int64_t layers_of(const graph_build::ParallelSpec& parallel, std::int32_t rank) {
  std::int64_t layers = 0;
  for (const auto& chunk : parallel.slots[static_cast<std::size_t>(rank)])
    layers += std::ranges::count_if(
        chunk, [](const graph_build::Slot& slot) { return slot.kind != graph_build::Slot::Kind::noop; });
  return layers;
}

/// What is left for static memory and activations, and what state may be offloaded to.
struct Budgets {
  Bytes device = 0, host = 0;
};

Budgets budgets_of(const plan::PlanRequest& plan, const graph_build::JobSpec& job) {
  return {
      .device = plan.budget_bytes.value_or(plan.machine.visible_bytes) -
                graph_build::reserve_memory(plan.machine, job.parallel).total(),
      .host = plan.policy->offloads_state ? plan.host_budget_bytes.value_or(plan.machine.host_bytes_per_device) : 0};
}

graph_build::PipelineShape shape_of(const graph_build::ParallelSpec& p) {
  return {.ranks = p.pipeline,
          .chunks = p.virtual_pipeline,
          .micro_batches = static_cast<std::int32_t>(p.micro_batches()),
          .overlap = p.overlap_forward_backward};
}

}  // namespace

StaticFit static_fit(const plan::PlanRequest& plan, const graph_build::JobSpec& job) {
  const auto [device, host] = budgets_of(plan, job);
  StaticFit fit{.possible = true};
  for (std::int32_t rank = 0; rank < job.parallel.pipeline; ++rank) {
    const graph_build::StaticMemory memory = graph_build::static_memory(job, rank);
    if (memory.least_device_bytes(host) > device) return {};
    fit.offloaded = std::max(fit.offloaded, memory.total() - device);
  }
  return fit;
}

std::vector<std::int32_t> worst_ranks(const graph_build::JobSpec& job) {
  const graph_build::ParallelSpec& p = job.parallel;
  const graph_build::PipelineShape shape = shape_of(p);
  std::int64_t most_flight = -1;
  Bytes most_static = -1;
  std::set<std::int32_t> ranks = {p.pipeline - 1};
  std::int32_t by_flight = 0, by_static = 0;
  for (std::int32_t rank = 0; rank < p.pipeline; ++rank) {
    const std::int64_t flight = graph_build::in_flight_passes(shape, rank) * layers_of(p, rank);
    const Bytes bytes = graph_build::static_memory(job, rank).total();
    if (flight > most_flight) by_flight = rank;
    if (bytes > most_static) by_static = rank;
    most_flight = std::max(most_flight, flight);
    most_static = std::max(most_static, bytes);
  }
  ranks.insert({by_flight, by_static});
  return {ranks.begin(), ranks.end()};
}

Bytes spare_bytes(const plan::PlanRequest& plan, const graph_build::JobSpec& job) {
  const graph_build::ParallelSpec& p = job.parallel;
  const Budgets budgets = budgets_of(plan, job);
  const graph_build::PipelineShape shape = shape_of(p);
  const graph_build::DeviceShapes shapes = graph_build::device_shapes(job, plan.machine);
  const Bytes input = shapes.local_tokens * shapes.hidden * graph_build::kActivationBytes;
  const std::vector<std::int32_t> layers = graph_build::stage_layers(p);
  Bytes spare = std::numeric_limits<Bytes>::max();
  for (std::int32_t rank = 0; rank < p.pipeline; ++rank) {
    std::int64_t held = 0;
    for (std::size_t stage = static_cast<std::size_t>(rank); stage < layers.size();
         stage += static_cast<std::size_t>(p.pipeline))
      held += layers[stage];
    const Bytes inputs = graph_build::in_flight_passes(shape, rank) * held / p.virtual_pipeline * input;
    spare = std::min(spare,
                     budgets.device - graph_build::static_memory(job, rank).least_device_bytes(budgets.host) - inputs);
  }
  return spare;
}

Result<std::int64_t> keep_all_ns(plan::PlanRequest request) {
  request.trial = plan::Trial{.first = {}, .useless_step_ns = 0};  // so that nothing is planned
  const Result<plan::PlanOutcome> outcome = plan::plan_step(request);
  if (!outcome) return outcome.error();
  return outcome.value().step.keep_all_step_ns;
}

}  // namespace tidemark::search
