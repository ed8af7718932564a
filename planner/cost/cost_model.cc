#include "planner/cost/cost_model.h"

#include <algorithm>
#include <cmath>

#include "planner/cost/attention_time.h"
#include "planner/cost/collective_time.h"
#include "planner/cost/matmul_time.h"
#include "planner/cost/memory_time.h"
#include "planner/cost/rounded_max.h"

namespace tidemark::cost {
namespace {

constexpr double kNsPerSecond = 1e9;

/// Nanoseconds of `work` at `per_second`. No work takes no time whatever the rate.
double time_ns(double work, double per_second) {
  return work <= 0 ? 0 : work / per_second * kNsPerSecond;
}

double product_s(const OpCost& cost, const Chip& chip, double scale) {
  const ProductShape& shape = cost.product;
  const bool is_supported = chip.sheet.peak(shape.precision) > 0;
  return matmul_s({.rows = shape.has_inner_tokens ? shape.rows : shape.rows * scale,
                   .columns = shape.columns,
                   .inner = shape.has_inner_tokens ? shape.inner * scale : shape.inner,
                   .count = shape.count,
                   .precision = is_supported ? shape.precision : Precision::bf16,
                   .is_grouped = cost.kind == WorkKind::grouped_matmul},
                  chip);
}

double attention_s(const AttentionShape& shape, const Chip& chip, double scale) {
  const AttentionPasses passes = attention_passes({.tokens = shape.tokens * scale,
                                                   .length = shape.length,
                                                   .heads = shape.heads,
                                                   .qk_dim = shape.qk_dim,
                                                   .v_dim = shape.v_dim},
                                                  chip);
  return shape.is_backward ? passes.backward_s : passes.forward_s;
}

/// What the kernels take. Element-wise work is bound by memory: its few FLOPs run beside it.
double device_s(const OpCost& cost, const Chip& chip, double scale) {
  switch (cost.kind) {
    case WorkKind::matmul:
    case WorkKind::grouped_matmul: {
      // What is added to is as large however many rows there are.
      const double kept = cost.product.has_inner_tokens ? 1 : scale;
      return product_s(cost, chip, scale) + memory_s(cost.memory_bytes * kept, chip);
    }
    case WorkKind::attention:
      return attention_s(cost.attention, chip, scale) + memory_s(cost.memory_bytes * scale, chip);
    case WorkKind::vector:
      return memory_s(cost.memory_bytes * scale, chip);
    case WorkKind::none:
    case WorkKind::transfer:
    case WorkKind::given:
      break;
  }
  return 0;
}

double compute_ns(const OpCost& cost, const Chip& chip, double scale) {
  if (cost.kind == WorkKind::none) return 0;
  return kNsPerSecond * rounded_max(device_s(cost, chip, scale), chip.rates.launch_s, kHostSharpness);
}

/// Over links between devices.
double transfer_ns(const OpCost& cost, const Chip& chip, double scale) {
  const GroupSpan span{.ranks = cost.group.ranks, .per_node = cost.group.per_node};
  return kNsPerSecond * sent_s(cost.link_bytes * scale, cost.group.pattern, span, {}, chip);
}

/// Unrounded time of an op, so that a scale is applied before rounding.
double unrounded_ns(const OpTemplate& op, const Machine& machine, double load, double share = 1) {
  if (op.phase == OpPhase::receive) return 0;
  if (op.cost.kind == WorkKind::given) return op.cost.given * share;
  const double scale = (op.routed ? load : 1.0) * share;
  if (op.lane == Lane::compute) return compute_ns(op.cost, machine.chip, scale);
  return transfer_ns(op.cost, machine.chip, scale);
}

CopyCost copy_cost(Bytes bytes, const Link& link, const Machine& machine) {
  const auto size = static_cast<double>(bytes);
  return {.link_ns = std::llround(link.latency_ns + time_ns(size, link.bytes_per_s)),
          .compute_ns = std::llround(machine.copy_launch_ns + time_ns(size, machine.chip.sheet.memory_bytes_per_s))};
}

}  // namespace

std::int64_t op_ns(const OpTemplate& op, const Machine& machine, double load) {
  return std::llround(unrounded_ns(op, machine, load));
}

double chunk_ns(const OpTemplate& op, const Machine& machine, double load, std::int32_t chunks) {
  return unrounded_ns(op, machine, load, 1.0 / chunks);
}

std::vector<std::int64_t> op_durations(const Graph& graph, const Machine& machine, double time_scale) {
  // Almost every site of a template has the load of the one before it, so the last time of each template is kept.
  struct Known {
    double load = -1;
    std::int64_t ns = 0;
  };
  std::vector<Known> known(graph.op_templates.size());
  std::vector<std::int64_t> durations;
  durations.reserve(graph.ops.size());
  for (const Op& op : graph.ops) {
    const OpTemplate& op_template = graph.op_templates[row(op.op_template)];
    const double load = op.site == kNone<SiteId> ? 1.0 : static_cast<double>(graph.sites[row(op.site)].fullest_load);
    Known& last = known[row(op.op_template)];
    if (last.load != load) {
      const double scale = op_template.lane == Lane::compute ? time_scale : 1.0;
      last = {.load = load, .ns = std::llround(scale * unrounded_ns(op_template, machine, load))};
    }
    durations.push_back(last.ns);
  }
  return durations;
}

CopyCost copy_out_cost(Bytes bytes, const Machine& machine) {
  return copy_cost(bytes, machine.d2h, machine);
}
CopyCost copy_in_cost(Bytes bytes, const Machine& machine) {
  return copy_cost(bytes, machine.h2d, machine);
}
CopyCost copy_out_cost(const Graph& graph, StorageId storage, const Machine& machine) {
  const auto& given = graph.template_of(storage).given_copies;
  if (given) return {.link_ns = given->out.link, .compute_ns = given->out.compute};
  return copy_out_cost(graph.storages[row(storage)].bytes, machine);
}
CopyCost copy_in_cost(const Graph& graph, StorageId storage, const Machine& machine) {
  const auto& given = graph.template_of(storage).given_copies;
  if (given) return {.link_ns = given->in.link, .compute_ns = given->in.compute};
  return copy_in_cost(graph.storages[row(storage)].bytes, machine);
}

}  // namespace tidemark::cost
