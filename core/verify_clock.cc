// The place of every residency on the compute clock, which packing and the dynamic region rely on: no touch may begin
// before its acquire half-step has passed, none may be under way once its release half-step has.

#include <fmt/format.h>

#include <vector>

#include "core/verify_parts.h"

namespace tidemark::verify {
namespace {

class ClockCheck {
 public:
  ClockCheck(const Graph* graph, const Schedule& schedule, const TaskOrder& order)
      : graph_(graph), schedule_(schedule), order_(order) {
    for (std::size_t t = 0; t < schedule.tasks.size(); ++t)
      if (schedule.tasks[t].lane == Lane::compute) compute_.push_back(id_of<TaskId>(t));
  }

  Found run() const {
    const auto end = static_cast<std::int32_t>(2 * compute_.size());
    for (std::size_t r = 0; r < schedule_.residencies.size(); ++r) {
      const Residency& stay = schedule_.residencies[r];
      // A rank that computes nothing has a clock of one half-step.
      if (stay.acquire < 0 || stay.release > end || (stay.acquire >= stay.release && end > 0)) {
        return broken(id_of<ResidencyId>(r), fmt::format("lasts from half-step {} to {}; the clock runs from 0 to {}",
                                                         stay.acquire, stay.release, end));
      }
    }
    for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
      const auto task = id_of<TaskId>(t);
      for (const Schedule::Touch& touch : schedule_.touches_of(task)) {
        const Residency& stay = schedule_.residencies[row(touch.residency)];
        if (stay.acquire > known_at_start(task)) {
          return broken(touch.residency,
                        fmt::format("is acquired at half-step {}, but {} may touch it from {}", stay.acquire,
                                    name_of(graph_, schedule_, task), known_at_start(task)));
        }
        if (!done_at(task, stay.release)) {
          return broken(touch.residency, fmt::format("is released at half-step {}, when {} may still be using it",
                                                     stay.release, name_of(graph_, schedule_, task)));
        }
      }
    }
    return {};
  }

 private:
  /// The latest half-step that has certainly passed when the task starts.
  [[nodiscard]] std::int32_t known_at_start(TaskId task) const {
    if (schedule_.tasks[row(task)].lane == Lane::compute) return 2 * order_.position(task);
    const std::int32_t completed = order_.at_start(task)[static_cast<std::size_t>(Lane::compute)];
    return completed == 0 ? 0 : 2 * completed - 1;
  }
  [[nodiscard]] bool done_at(TaskId task, std::int32_t half_step) const {
    const auto k = static_cast<std::size_t>(half_step / 2);
    if (k == compute_.size()) return true;  // the end of the step
    return order_.before(task, compute_[k]) || (half_step % 2 == 1 && task == compute_[k]);
  }
  [[nodiscard]] Violation broken(ResidencyId residency, const std::string& why) const {
    return {.rule = Violation::Rule::clock,
            .detail = fmt::format("residency {} of {} {}", row(residency),
                                  name_of(graph_, schedule_.residencies[row(residency)].storage), why)};
  }

  const Graph* graph_;
  const Schedule& schedule_;
  const TaskOrder& order_;
  std::vector<TaskId> compute_;  ///< the compute lane's tasks
};

}  // namespace

Found check_clock(const Graph* graph, const Schedule& schedule, const TaskOrder& order) {
  return ClockCheck(graph, schedule, order).run();
}

}  // namespace tidemark::verify
