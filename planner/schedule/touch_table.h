#pragma once
// Who touches what, looked up by residency.

#include <cstdint>
#include <span>
#include <vector>

#include "core/schedule.h"

namespace tidemark::schedule {

/// Tasks that touch each residency, in issue order.
class TouchTable {
 public:
  struct Entry {
    TaskId task = kNone<TaskId>;
    AccessKind kind = AccessKind::read;
  };

  explicit TouchTable(const Schedule& schedule) : first_(schedule.residencies.size() + 1, 0) {
    for (const Schedule::Touch& touch : schedule.touches) ++first_[row(touch.residency) + 1];
    for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    entries_.resize(schedule.touches.size());
    std::vector<std::int32_t> cursor(first_.begin(), first_.end() - 1);
    for (std::size_t t = 0; t < schedule.tasks.size(); ++t)
      for (const Schedule::Touch& touch : schedule.touches_of(id_of<TaskId>(t)))
        entries_[static_cast<std::size_t>(cursor[row(touch.residency)]++)] = {id_of<TaskId>(t), touch.kind};
  }
  [[nodiscard]] std::span<const Entry> of(ResidencyId residency) const {
    const auto begin = static_cast<std::size_t>(first_[row(residency)]);
    return {entries_.data() + begin, static_cast<std::size_t>(first_[row(residency) + 1]) - begin};
  }

 private:
  std::vector<std::int32_t> first_;
  std::vector<Entry> entries_;
};

}  // namespace tidemark::schedule
