#include "planner/remat/decisions.h"

#include <algorithm>
#include <tuple>

namespace tidemark::remat {
namespace {

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

/// Positions of a schedule in terms of the list.
struct Stages {
  explicit Stages(const OpList& list, const OpSchedule& schedule) : touches(list.storages.size()) {
    std::int32_t next = 0;
    for (std::size_t p = 0; p < schedule.order.size(); ++p) {
      const std::int32_t v = schedule.order[p];
      first_run.push_back(v == next ? 1 : 0);
      stage.push_back(next);
      if (v == next) ++next;
      for (const auto* touched : {&list.ops[at(v)].reads, &list.ops[at(v)].writes})
        for (const std::int32_t s : *touched)
          if (touches[at(s)].empty() || touches[at(s)].back() != static_cast<std::int32_t>(p))
            touches[at(s)].push_back(static_cast<std::int32_t>(p));
    }
  }
  /// The last op of the list that has run when the run at a position is over.
  [[nodiscard]] std::int32_t done_after(std::int32_t position) const {
    return first_run[at(position)] != 0 ? stage[at(position)] : stage[at(position)] - 1;
  }
  std::vector<std::uint8_t> first_run;
  std::vector<std::int32_t> stage;                 ///< the op of the list that runs next, or now
  std::vector<std::vector<std::int32_t>> touches;  ///< per storage: positions
};

}  // namespace

std::vector<Decision> decisions_of(const OpList& list, const OpSchedule& schedule) {
  const Stages stages(list, schedule);
  std::vector<Decision> decisions;
  for (std::size_t p = 0; p < schedule.order.size(); ++p) {
    if (stages.first_run[p] != 0) continue;
    const std::int32_t v = schedule.order[p];
    for (const std::int32_t s : list.ops[at(v)].writes) {
      const auto& touches = stages.touches[at(s)];
      const auto here = std::ranges::lower_bound(touches, static_cast<std::int32_t>(p));
      if (here + 1 == touches.end() || schedule.order[at(*(here + 1))] == v) continue;  // nobody reads it
      decisions.push_back({.storage = s,
                           .after_op = stages.done_after(*(here - 1)),
                           .before_op = stages.stage[p],
                           .cost = list.ops[at(v)].cost});
    }
  }
  const std::vector<std::uint8_t> changed = changed_storages(list);
  std::int32_t previous = -1;
  for (const OpSchedule::Swap& swap : schedule.swaps) {
    const OpList::Storage& row = list.storages[at(swap.storage)];
    decisions.push_back({.storage = swap.storage,
                         .swap = true,
                         .after_op = stages.done_after(swap.after),
                         .before_op = stages.stage[at(swap.before)],
                         .cost = row.page_in_cost +
                                 (swap.storage == previous && changed[at(swap.storage)] == 0 ? 0 : row.page_out_cost)});
    previous = swap.storage;
  }
  std::ranges::sort(decisions, {},
                    [](const Decision& d) { return std::tuple(d.storage, d.after_op, d.before_op, d.swap); });
  return decisions;
}

}  // namespace tidemark::remat
