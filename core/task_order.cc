#include "core/task_order.h"

#include <algorithm>
#include <iterator>

namespace tidemark {
namespace {

void join(LaneClock& clock, const LaneClock& other) {
  for (std::size_t l = 0; l < kLaneCount; ++l) clock[l] = std::max(clock[l], other[l]);
}

}  // namespace

TaskOrder::TaskOrder(const Schedule& schedule) {
  const std::size_t count = schedule.tasks.size();
  at_start_.resize(count);
  position_.resize(count);
  lane_.resize(count);
  std::array<LaneClock, kLaneCount> lane_clock{};  // what has completed when the next task of the lane starts
  for (std::size_t t = 0; t < count; ++t) {
    const auto l = static_cast<std::size_t>(schedule.tasks[t].lane);
    LaneClock clock = lane_clock[l];
    for (const TaskId wait : schedule.waits_of(id_of<TaskId>(t))) {
      join(clock, at_start_[row(wait)]);
      std::int32_t& completed = clock[lane_[row(wait)]];
      completed = std::max(completed, position_[row(wait)] + 1);
    }
    at_start_[t] = clock;
    position_[t] = lane_clock[l][l];
    lane_[t] = static_cast<std::uint8_t>(l);
    ++clock[l];
    lane_clock[l] = clock;
    on_lane_[l].push_back(id_of<TaskId>(t));
  }
}

LaneClock TaskOrder::behind(std::span<const Lane> lanes, TaskId task) const {
  LaneClock known{};
  for (const Lane lane : lanes) {
    const std::vector<TaskId>& tasks = on_lane_[static_cast<std::size_t>(lane)];
    const auto end = std::lower_bound(tasks.begin(), tasks.end(), task);
    if (end == tasks.begin()) continue;
    const TaskId last = *std::prev(end);
    join(known, at_start(last));
    std::int32_t& completed = known[static_cast<std::size_t>(lane)];
    completed = std::max(completed, position(last) + 1);
  }
  return known;
}

}  // namespace tidemark
