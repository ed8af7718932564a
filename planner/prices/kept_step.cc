#include "planner/prices/kept_step.h"

#include <algorithm>

#include "planner/cost/op_prices.h"
#include "planner/graph_build/liveness.h"
#include "planner/graph_build/static_memory.h"
#include "planner/graph_build/step_graph.h"
#include "planner/threads/parallel.h"

namespace tidemark::prices {
namespace {

Bytes most(const std::vector<Bytes>& bytes) {
  return bytes.empty() ? 0 : *std::ranges::max_element(bytes);
}

/// Of the bytes alive at every op and what the op holds beside them.
Bytes peak_with(const std::vector<Bytes>& live, const ChangedRank& rank) {
  Bytes peak = most(live);
  if (rank.transient_bytes.empty()) return peak;
  for (std::size_t op = 0; op < live.size(); ++op)
    peak = std::max(peak, live[op] + rank.transient_bytes[row(rank.graph.ops[op].op_template)]);
  return peak;
}

std::vector<std::int64_t> durations_of(const ChangedRank& rank, const PriceRequest& request) {
  std::vector<std::int64_t> ns = cost::op_durations(rank.graph, request.machine, request.time_scale);
  if (rank.instead_ns.empty()) return ns;
  for (std::size_t op = 0; op < ns.size(); ++op)
    if (const std::int64_t instead = rank.instead_ns[row(rank.graph.ops[op].op_template)]; instead >= 0)
      ns[op] = instead;
  return ns;
}

}  // namespace

std::vector<std::int32_t> first_ops(const Graph& graph) {
  std::vector<std::int32_t> first(graph.op_templates.size(), -1);
  for (std::size_t op = graph.ops.size(); op-- > 0;)
    first[row(graph.ops[op].op_template)] = static_cast<std::int32_t>(op);
  return first;
}

Result<KeptStep> KeptStep::build(const PriceRequest& request) {
  KeptStep step;
  step.request_ = request;
  step.reserve_bytes_ = graph_build::reserve_memory(request.machine, request.job.parallel).total();
  const auto ranks = static_cast<std::size_t>(request.job.parallel.pipeline);
  step.graphs_.resize(ranks);
  step.op_ns_.resize(ranks);
  step.work_.resize(ranks);
  step.live_bytes_.resize(ranks);
  const Status built = threads::parallel_try_each(ranks, [&](std::size_t rank) -> Status {
    Result<Graph> graph =
        graph_build::build_step_graph(request.job, request.machine, static_cast<std::int32_t>(rank), request.load);
    if (!graph) return graph.error();
    step.graphs_[rank] = std::move(graph).value();
    step.op_ns_[rank] = cost::op_durations(step.graphs_[rank], request.machine, request.time_scale);
    step.work_[rank] = simulate::work_of(step.graphs_[rank], step.op_ns_[rank]);
    step.live_bytes_[rank] = graph_build::analyse_liveness(step.graphs_[rank]).live_bytes;
    return {};
  });
  if (!built) return built.error();
  for (const std::vector<Bytes>& live : step.live_bytes_) step.peak_bytes_ = std::max(step.peak_bytes_, most(live));
  Result<SwitchSide> side = step.played(step.work_, step.peak_bytes_);
  if (!side) return side.error();
  step.side_ = std::move(side).value();
  return step;
}

Result<SwitchSide> KeptStep::played(const std::vector<simulate::RankWork>& work, Bytes peak_bytes) const {
  const Result<simulate::StepTiming> timing = simulate::simulate_step(work);
  if (!timing) return timing.error();
  SwitchSide side{.step_ns = timing.value().step_ns, .peak_bytes = reserve_bytes_ + peak_bytes};
  double waited_ns = 0;
  for (const simulate::Timeline& rank : timing.value().ranks)
    waited_ns += static_cast<double>(rank.receive_wait_ns + side.step_ns - rank.finish_ns);
  const double all_ns = static_cast<double>(side.step_ns) * static_cast<double>(timing.value().ranks.size());
  side.bubble_share = all_ns > 0 ? waited_ns / all_ns : 0;
  return side;
}

Result<SwitchSide> KeptStep::changed(const Change& change) const {
  std::vector<simulate::RankWork> work(graphs_.size());
  std::vector<Bytes> peaks(graphs_.size(), 0);
  threads::parallel_for_each(0, graphs_.size(), [&](std::size_t rank) {
    ChangedRank changed{.graph = graphs_[rank]};
    change(changed);
    work[rank] = work_[rank];
    work[rank].duration_ns = durations_of(changed, request_);
    peaks[rank] = changed.resizes ? peak_with(graph_build::analyse_liveness(changed.graph).live_bytes, changed)
                                  : peak_with(live_bytes_[rank], changed);
  });
  return played(work, most(peaks));
}

Result<SwitchSide> KeptStep::on_machine(const Machine& machine) const {
  std::vector<simulate::RankWork> work(work_);
  threads::parallel_for_each(0, graphs_.size(), [&](std::size_t rank) {
    work[rank].duration_ns = cost::op_durations(graphs_[rank], machine, request_.time_scale);
  });
  return played(work, peak_bytes_);
}

}  // namespace tidemark::prices
