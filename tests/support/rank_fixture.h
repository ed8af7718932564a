#pragma once
// A graph with everything a decision needs beside it, kept at stable addresses.

#include <memory>
#include <utility>
#include <vector>

#include "planner/cost/op_prices.h"
#include "planner/decide/sites/problem.h"
#include "planner/graph_build/liveness.h"
#include "planner/simulate/simulator.h"
#include "tests/support/plain_chip.h"

namespace tidemark::testing {

/// A machine on which small graphs have measurable copies: 1 byte per ns each way, 10 ns launches.
[[nodiscard]] inline Machine byte_per_ns_machine() {
  return {.name = "tiny",
          .visible_bytes = kGiB,
          .alignment_bytes = 1,
          .chip = plain_chip(1e12, 1e12, 1e9),
          .copy_launch_ns = 10,
          .d2h = {.bytes_per_s = 1e9},
          .h2d = {.bytes_per_s = 1e9},
          .host_bytes_per_device = kGiB,
          .host_bytes_per_node = 8 * kGiB};
}

struct RankFixture {
  Graph graph;
  Machine machine;
  Liveness liveness;
  std::vector<std::int64_t> op_ns;
  simulate::Timeline nominal;
  decide::sites::DecisionProblem problem;

  /// Graphs of a single rank without messages.
  [[nodiscard]] static std::unique_ptr<RankFixture> of(Graph graph, Machine machine = byte_per_ns_machine()) {
    auto f = std::make_unique<RankFixture>();
    f->graph = std::move(graph);
    f->machine = std::move(machine);
    f->liveness = graph_build::analyse_liveness(f->graph);
    f->op_ns = cost::op_durations(f->graph, f->machine);
    const simulate::RankWork work = simulate::work_of(f->graph, f->op_ns);
    Result<simulate::StepTiming> timing = simulate::simulate_step({&work, 1});
    if (!timing) return nullptr;
    f->nominal = timing.value().ranks.front();
    Result<decide::sites::DecisionProblem> problem =
        decide::sites::build_problem(f->graph, f->liveness, f->machine, f->nominal, f->op_ns,
                                     {.offload = {}, .run_time = decide::sites::RunTime::hidden, .weights = {}});
    if (!problem) return nullptr;
    f->problem = std::move(problem).value();
    return f;
  }
};

}  // namespace tidemark::testing
