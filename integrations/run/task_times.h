#pragma once
// What a rank's tasks take where routing is not as planned: from the machine and the ops' work, as the plan's own
// times. Modelled.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/machine.h"
#include "core/result.h"
#include "planner/cost/op_prices.h"
#include "planner/planner.h"

namespace tidemark::run {

/// Loads of one device in one step, by its rank's sites.
struct SiteLoads {
  /// Of this device: what is stored and copied follows them.
  std::function<SiteLoad(std::int32_t rank, SiteId)> own;
  /// Rows of the fullest device of the expert group, for which the others wait: ops follow them. Empty: as `own`.
  std::function<double(std::int32_t rank, SiteId)> fullest;

  [[nodiscard]] double time_load(std::int32_t rank, SiteId site) const {
    return fullest ? fullest(rank, site) : own(rank, site).received;
  }
};

class TaskTimes {
 public:
  /// Rank and machine must outlive it. The rank's estimates may have the cost of issuing copies in them.
  TaskTimes(const plan::RankPlan& rank, const Machine& machine);

  /// An op or a recompute under the loads (empty functions: as planned): all its rows, or one of `chunks` equal chunks
  /// of them. At the planned load and for all rows exactly the rank's estimate.
  [[nodiscard]] std::int64_t work_ns(TaskId task, const SiteLoads& loads, std::int32_t chunks) const;

  /// Of every task under the loads; copies are of what their storages hold.
  [[nodiscard]] std::vector<std::int64_t> under(const SiteLoads& loads) const;

 private:
  [[nodiscard]] OpTemplateId op_of(TaskId task) const;
  [[nodiscard]] double planned_load(TaskId task) const;
  [[nodiscard]] double modelled_ns(TaskId task, double load, std::int32_t chunks) const;
  [[nodiscard]] std::int64_t copy_ns(TaskId task, const SiteLoads& loads) const;

  const plan::RankPlan& rank_;
  const Machine& machine_;
  const cost::OpPrices prices_;
  double scale_ = 1;  ///< of compute times, PlanRequest::time_scale
};

/// The step of these ranks under the loads, where whatever exceeds its planned place finds room. Errors (internal): the
/// programs deadlock. `matched`: receives wait for their messages; otherwise they complete at once.
[[nodiscard]] Result<std::int64_t> modelled_step_ns(std::span<const plan::RankPlan> ranks, const Machine& machine,
                                                    const SiteLoads& loads, bool matched);

}  // namespace tidemark::run
