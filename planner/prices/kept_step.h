#pragma once
// The step with everything kept, op by op, held so that it can be played again with one thing changed: other costs of
// ops, other sizes of storages, another machine. What runs in which order stays as it was built. Modelled.

#include <cstdint>
#include <functional>
#include <vector>

#include "core/bytes.h"
#include "core/graph.h"
#include "core/machine.h"
#include "core/result.h"
#include "planner/graph_build/job_spec.h"
#include "planner/prices/switch_price.h"
#include "planner/simulate/simulator.h"

namespace tidemark::prices {

/// A job and what its lines are played with.
struct PriceRequest {
  graph_build::JobSpec job;
  Machine machine;
  double load = 1;        ///< expert load f that every site holds memory for; its time: graph_build/site_loads.h
  double time_scale = 1;  ///< multiplies compute times
  int threads = 0;        ///< 0: all cores; does not change the result
};

/// A copy of one rank's graph for a change to write to.
struct ChangedRank {
  Graph graph;
  bool resizes = false;                  ///< bytes of storages changed
  std::vector<Bytes> transient_bytes;    ///< per op template, held while it runs; empty: none
  std::vector<std::int64_t> instead_ns;  ///< per op template, what it takes; -1: as priced; empty: all as priced
};
using Change = std::function<void(ChangedRank&)>;

class KeptStep {
 public:
  /// Ranks in parallel; the result does not depend on the thread count. REQUIRES: find_problems(request.job) is empty.
  /// Errors: those of build_step_graph and simulate_step.
  [[nodiscard]] static Result<KeptStep> build(const PriceRequest& request);

  /// As it was built.
  [[nodiscard]] const SwitchSide& side() const { return side_; }
  /// Played with every rank's graph changed. Errors: those of simulate_step.
  [[nodiscard]] Result<SwitchSide> changed(const Change& change) const;
  /// Played by the rates of another machine, whose memory is the same.
  [[nodiscard]] Result<SwitchSide> on_machine(const Machine& machine) const;

  [[nodiscard]] const PriceRequest& request() const { return request_; }
  [[nodiscard]] const std::vector<Graph>& graphs() const { return graphs_; }
  [[nodiscard]] const std::vector<std::vector<std::int64_t>>& op_ns() const { return op_ns_; }

 private:
  [[nodiscard]] Result<SwitchSide> played(const std::vector<simulate::RankWork>& work, Bytes peak_bytes) const;

  PriceRequest request_;
  Bytes reserve_bytes_ = 0;
  std::vector<Graph> graphs_;
  std::vector<std::vector<std::int64_t>> op_ns_;
  std::vector<simulate::RankWork> work_;
  std::vector<std::vector<Bytes>> live_bytes_;  ///< per rank and op
  Bytes peak_bytes_ = 0;
  SwitchSide side_;
};

/// Of every op template the first op: an example of its accesses. -1: it has none.
[[nodiscard]] std::vector<std::int32_t> first_ops(const Graph& graph);

}  // namespace tidemark::prices
