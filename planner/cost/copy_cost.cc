#include "planner/cost/copy_cost.h"

#include <cmath>

#include "planner/cost/nanoseconds.h"

namespace tidemark::cost {
namespace {

/// Nanoseconds of `work` at `per_second`. No work takes no time whatever the rate.
double time_ns(double work, double per_second) {
  return work <= 0 ? 0 : work / per_second * kNsPerSecond;
}

CopyCost copy_cost(Bytes bytes, const Link& link, const Machine& machine) {
  const auto size = static_cast<double>(bytes);
  return {.link_ns = std::llround(link.latency_ns + time_ns(size, link.bytes_per_s)),
          .compute_ns = std::llround(machine.copy_launch_ns + time_ns(size, machine.chip.sheet.memory_bytes_per_s))};
}

}  // namespace

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
