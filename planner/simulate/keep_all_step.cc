#include "planner/simulate/keep_all_step.h"

#include "planner/cost/op_prices.h"
#include "planner/graph_build/step_graph.h"

namespace tidemark::simulate {

Result<KeepAllStep> keep_all_step(const graph_build::JobSpec& job, const Machine& machine,
                                  const std::vector<double>& loads, double time_scale) {
  KeepAllStep step;
  std::vector<RankWork> work;
  for (std::size_t rank = 0; rank < loads.size(); ++rank) {
    Result<Graph> graph = graph_build::build_step_graph(job, machine, static_cast<std::int32_t>(rank), loads[rank]);
    if (!graph) return graph.error();
    step.op_ns.push_back(cost::op_durations(graph.value(), machine, time_scale));
    work.push_back(work_of(graph.value(), step.op_ns.back()));
    step.graphs.push_back(std::move(graph).value());
  }
  Result<StepTiming> timing = simulate_step(work);
  if (!timing) return timing.error();
  step.timing = std::move(timing).value();
  return step;
}

}  // namespace tidemark::simulate
