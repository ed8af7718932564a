#include "planner/step_phases.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemark::plan {
namespace {

using budget::Phase;

Phase phase_of(OpPhase phase) {
  switch (phase) {
    case OpPhase::forward:
      return Phase::forward;
    case OpPhase::gradient_reduction:
    case OpPhase::optimizer:
      return Phase::optimizer;
    case OpPhase::backward:
    case OpPhase::weight_gradient:
    case OpPhase::receive:
    case OpPhase::send:
      break;
  }
  return Phase::backward;
}

}  // namespace

StepPhases::StepPhases(const Graph& graph, const Schedule& schedule) : graph_(graph), schedule_(schedule) {
  compute_.reserve(static_cast<std::size_t>(schedule.compute_tasks));
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t)
    if (schedule.tasks[t].lane == Lane::compute) compute_.push_back(static_cast<std::int32_t>(t));
  measure();
}

const Task* StepPhases::task_at(std::int32_t clock) const {
  const auto at = static_cast<std::size_t>(clock / 2);
  return at < compute_.size() ? &schedule_.tasks[static_cast<std::size_t>(compute_[at])] : nullptr;
}

Phase StepPhases::phase_of(const Task& task) const {
  if (task.kind == TaskKind::recompute) return Phase::backward;  // though the op is of the forward pass
  return plan::phase_of(graph_.op_templates[row(task.op_template)].phase);
}

Phase StepPhases::phase_at(std::int32_t clock) const {
  const Task* task = task_at(clock);
  return task == nullptr ? Phase::between_steps : phase_of(*task);
}

std::string StepPhases::name_of(std::int32_t clock) const {
  const Task* task = task_at(clock);
  if (task == nullptr) return "end of step";
  const Site& site = graph_.sites[row(task->site)];
  std::string name(budget::word_of(phase_of(*task)));
  if (site.micro_batch >= 0) name += fmt::format(", micro-batch {}", site.micro_batch);
  if (site.layer >= 0) return name + fmt::format(", layer {}", site.layer);
  const std::string& block = graph_.block_of(task->site).name;
  return block.empty() ? name : name + ", " + block;
}

void StepPhases::measure() {
  std::vector<Bytes> change(2 * compute_.size() + 2, 0);
  Bytes before = 0, behind = 0;
  for (const Residency& residency : schedule_.residencies) {
    if (residency.space != MemorySpace::device || residency.acquire >= residency.release) continue;
    change[static_cast<std::size_t>(residency.acquire)] += residency.bytes;
    change[static_cast<std::size_t>(residency.release)] -= residency.bytes;
    if (residency.full_before) before += residency.bytes;
    if (residency.full_behind) behind += residency.bytes;
  }
  most_[static_cast<std::size_t>(Phase::between_steps)] = std::max(before, behind);
  Bytes held = 0;
  for (std::size_t clock = 0; clock < change.size(); ++clock) {
    held += change[clock];
    std::optional<Bytes>& most = most_[static_cast<std::size_t>(phase_at(static_cast<std::int32_t>(clock)))];
    most = std::max(most.value_or(0), held);
  }
}

}  // namespace tidemark::plan
