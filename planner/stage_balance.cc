#include "planner/stage_balance.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tidemark::plan {
namespace {

/// Nanoseconds of each chunk's passes on the compute lane.
std::vector<double> chunk_times(const RankPlan& rank, std::size_t chunks) {
  std::vector<double> times(chunks, 0);
  const auto& tasks = rank.program.schedule.tasks;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (tasks[t].lane != Lane::compute || tasks[t].site == kNone<SiteId>) continue;
    if (tasks[t].kind != TaskKind::op && tasks[t].kind != TaskKind::recompute) continue;
    const Site& site = rank.graph.sites[row(tasks[t].site)];
    if (site.micro_batch >= 0) times[static_cast<std::size_t>(site.chunk)] += static_cast<double>(rank.task_ns[t]);
  }
  return times;
}

bool is_timed(const RankPlan& rank) {
  return !rank.task_ns.empty() && rank.task_ns.size() == rank.program.schedule.tasks.size();
}

struct Busiest {
  std::size_t index = 0;
  double percent = 0;  ///< above the mean
};

Busiest busiest_of(const std::vector<double>& times) {
  const auto most = std::ranges::max_element(times);
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  return {.index = static_cast<std::size_t>(most - times.begin()), .percent = mean > 0 ? 100 * (*most / mean - 1) : 0};
}

}  // namespace

std::optional<StageBalance> stage_balance(const PlanOutcome& outcome, const graph_build::ParallelSpec& parallel) {
  const auto ranks = static_cast<std::size_t>(parallel.pipeline);
  const auto chunks = static_cast<std::size_t>(parallel.virtual_pipeline);
  if (ranks < 2 || outcome.ranks.size() != ranks || !std::ranges::all_of(outcome.ranks, is_timed)) return std::nullopt;
  std::vector<double> by_rank, by_chunk;
  for (const RankPlan& rank : outcome.ranks) {
    const std::vector<double> times = chunk_times(rank, chunks);
    by_rank.push_back(std::accumulate(times.begin(), times.end(), 0.0));
    by_chunk.insert(by_chunk.end(), times.begin(), times.end());
  }
  const Busiest rank = busiest_of(by_rank), chunk = busiest_of(by_chunk);
  return StageBalance{.busiest_rank = outcome.ranks[rank.index].figures.rank,
                      .rank_percent = rank.percent,
                      .busiest_chunk_rank = outcome.ranks[chunk.index / chunks].figures.rank,
                      .busiest_chunk = static_cast<std::int32_t>(chunk.index % chunks),
                      .chunk_percent = chunk.percent};
}

}  // namespace tidemark::plan
