#include "planner/time_split.h"

#include <algorithm>
#include <array>

namespace tidemark::plan {
namespace {

std::int64_t busy(const simulate::Timeline& timeline, Lane lane) {
  return timeline.busy_ns[static_cast<std::size_t>(lane)];
}

/// What is left of the step once everything named is taken off.
std::int64_t rest_of(const TimeSplit& s) {
  return s.step_ns - s.compute_ns - s.recompute_ns - s.copy_overhead_ns - s.exposed_communication_ns -
         s.exposed_copy_ns;
}

}  // namespace

TimeSplit split_time(const RankPlan& rank, std::int64_t step_ns) {
  TimeSplit s{.step_ns = step_ns};
  const auto& tasks = rank.program.schedule.tasks;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (tasks[t].lane != Lane::compute) continue;
    (tasks[t].kind == TaskKind::recompute ? s.recompute_ns : s.compute_ns) += rank.task_ns[t];
  }
  const simulate::Timeline& timeline = rank.timeline;
  s.copy_overhead_ns = busy(timeline, Lane::compute) - s.compute_ns - s.recompute_ns;
  s.exposed_communication_ns = timeline.intra_wait_ns + timeline.inter_wait_ns;
  s.exposed_copy_ns = timeline.copy_wait_ns;
  s.bubble_ns = rest_of(s);
  s.communication_ns = busy(timeline, Lane::intra_comm) + busy(timeline, Lane::inter_comm);
  s.copy_ns = std::max(busy(timeline, Lane::d2h), busy(timeline, Lane::h2d));
  return s;
}

TimeSplit mean_split(std::span<const TimeSplit> ranks) {
  constexpr std::array kLines = {&TimeSplit::step_ns,          &TimeSplit::compute_ns,
                                 &TimeSplit::recompute_ns,     &TimeSplit::copy_overhead_ns,
                                 &TimeSplit::exposed_copy_ns,  &TimeSplit::exposed_communication_ns,
                                 &TimeSplit::communication_ns, &TimeSplit::copy_ns};
  TimeSplit mean;
  for (const auto line : kLines) {
    for (const TimeSplit& rank : ranks) mean.*line += rank.*line;
    mean.*line /= static_cast<std::int64_t>(ranks.size());
  }
  mean.bubble_ns = rest_of(mean);
  return mean;
}

}  // namespace tidemark::plan
