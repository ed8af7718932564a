#include "planner/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tidemark::cost {
namespace {

constexpr double kNsPerSecond = 1e9;

/// Nanoseconds of `work` at `per_second`. No work takes no time whatever the rate.
double time_ns(double work, double per_second) {
  return work <= 0 ? 0 : work / per_second * kNsPerSecond;
}

double flops_per_s(WorkKind kind, const Machine& machine) {
  switch (kind) {
    case WorkKind::matmul:
      return machine.peak_flops_per_s * machine.matmul_efficiency;
    case WorkKind::grouped_matmul:
      return machine.peak_flops_per_s * machine.grouped_matmul_efficiency;
    case WorkKind::attention:
      return machine.peak_flops_per_s * machine.attention_efficiency;
    case WorkKind::none:
    case WorkKind::vector:  // element-wise work is bound by memory; its few FLOPs run beside it
    case WorkKind::transfer:
    case WorkKind::given:
      break;
  }
  return std::numeric_limits<double>::infinity();
}

double compute_ns(const OpCost& cost, const Machine& machine, double scale) {
  if (cost.kind == WorkKind::none) return 0;
  const double flop_ns = time_ns(cost.flops * scale, flops_per_s(cost.kind, machine));
  const double memory_ns = time_ns(cost.memory_bytes * scale, machine.memory_bytes_per_s * machine.vector_efficiency);
  return machine.launch_ns + std::max(flop_ns, memory_ns);
}

double transfer_ns(double bytes, const Link& link) {
  return link.latency_ns + time_ns(bytes, link.bytes_per_s);
}

const Link& link_of(Lane lane, const Machine& machine) {
  switch (lane) {
    case Lane::d2h:
      return machine.d2h;
    case Lane::h2d:
      return machine.h2d;
    case Lane::intra_comm:
      return machine.intra_node;
    case Lane::compute:
    case Lane::inter_comm:
    case Lane::send:
    case Lane::receive:
      break;
  }
  return machine.inter_node;
}

/// Unrounded time of an op, so that a scale is applied before rounding.
double unrounded_ns(const OpTemplate& op, const Machine& machine, double load, double share = 1) {
  if (op.phase == OpPhase::receive) return 0;
  if (op.cost.kind == WorkKind::given) return op.cost.given * share;
  const double scale = (op.routed ? load : 1.0) * share;
  if (op.lane == Lane::compute) return compute_ns(op.cost, machine, scale);
  return transfer_ns(op.cost.link_bytes * scale, link_of(op.lane, machine));
}

CopyCost copy_cost(Bytes bytes, const Link& link, const Machine& machine) {
  const auto size = static_cast<double>(bytes);
  return {.link_ns = std::llround(transfer_ns(size, link)),
          .compute_ns = std::llround(machine.copy_launch_ns + time_ns(size, machine.memory_bytes_per_s))};
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
