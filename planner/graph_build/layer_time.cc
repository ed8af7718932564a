#include "planner/graph_build/layer_time.h"

#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "planner/cost/op_prices.h"
#include "planner/graph_build/step_graph.h"
#include "planner/threads/parallel.h"

namespace tidemark::graph_build {
namespace {

/// Forward or backward of one of the model's `layers` decoder layers; MTP modules have higher numbers.
bool is_layer_work(const Graph& graph, const Op& op, std::size_t layers) {
  const OpTemplate& t = graph.op_templates[row(op.op_template)];
  const std::int32_t layer = graph.sites[row(op.site)].layer;
  if (t.lane != Lane::compute || layer < 0 || static_cast<std::size_t>(layer) >= layers) return false;
  return t.phase == OpPhase::forward || t.phase == OpPhase::backward || t.phase == OpPhase::weight_gradient;
}

}  // namespace

Result<double> mean_layer_ns(const JobSpec& job, const Machine& machine, double load) {
  const auto ranks = static_cast<std::size_t>(job.parallel.pipeline);
  std::vector<double> rank_ns(ranks, 0);
  std::vector<std::optional<Error>> errors(ranks);
  threads::parallel_for_each(0, ranks, [&](std::size_t rank) {
    const Result<Graph> graph = build_step_graph(job, machine, static_cast<std::int32_t>(rank), load);
    if (!graph) {
      errors[rank] = graph.error();
      return;
    }
    const std::vector<std::int64_t> durations = cost::op_durations(graph.value(), machine);
    for (std::size_t op = 0; op < durations.size(); ++op)
      if (is_layer_work(graph.value(), graph.value().ops[op], job.model.layers.size()))
        rank_ns[rank] += static_cast<double>(durations[op]);
  });
  for (const std::optional<Error>& error : errors)
    if (error) return *error;
  const double total_ns = std::accumulate(rank_ns.begin(), rank_ns.end(), 0.0);
  return total_ns / (static_cast<double>(job.model.layers.size()) * static_cast<double>(job.parallel.micro_batches()));
}

Result<double> layer_time_scale(const JobSpec& job, const Machine& machine, double load, double wanted_ns) {
  const Result<double> modelled = mean_layer_ns(job, machine, load);
  if (!modelled) return modelled.error();
  if (modelled.value() <= 0) return infeasible("the layers take no compute time, so no factor makes them take more");
  return wanted_ns / modelled.value();
}

}  // namespace tidemark::graph_build
