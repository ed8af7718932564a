#pragma once
// Which part of the training step each half-step of a schedule's compute clock belongs to, and the most device bytes
// alive in each.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/graph.h"
#include "core/schedule.h"
#include "planner/budget/holdings.h"

namespace tidemark::plan {

class StepPhases {
 public:
  /// Both must outlive it. O(tasks + residencies).
  StepPhases(const Graph& graph, const Schedule& schedule);

  /// The phase of the compute task that runs there: ops that are recomputed count to the backward pass, reductions
  /// of gradients and updates to the optimizer. Past the last task: between steps.
  [[nodiscard]] budget::Phase phase_at(std::int32_t clock) const;
  /// `backward, micro-batch 14, layer 41`; outside layers the block: `forward, micro-batch 2, head`.
  [[nodiscard]] std::string name_of(std::int32_t clock) const;
  /// The most bytes alive on the device at one half-step of a phase; between steps, what is there when the step begins
  /// or is over. Nothing: the schedule has no such phase.
  [[nodiscard]] std::optional<Bytes> most_bytes(budget::Phase phase) const {
    return most_[static_cast<std::size_t>(phase)];
  }

 private:
  /// Of the compute task that runs at a half-step, or nullptr.
  [[nodiscard]] const Task* task_at(std::int32_t clock) const;
  [[nodiscard]] budget::Phase phase_of(const Task& task) const;
  void measure();

  const Graph& graph_;
  const Schedule& schedule_;
  std::vector<std::int32_t> compute_;  ///< tasks of the compute lane, in order
  std::array<std::optional<Bytes>, budget::kPhaseCount> most_;
};

}  // namespace tidemark::plan
