#include "planner/decide/sites/state_offload.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "planner/cost/copy_cost.h"
#include "planner/schedule/scheduler.h"

namespace tidemark::decide::sites {
namespace {

/// Storages that the same ops touch first and last: they come and go together.
struct Group {
  std::vector<StorageId> storages;
  Bytes bytes = 0;
  std::int64_t in_ns = 0, out_ns = 0;
  OpId needed = kNone<OpId>, done = kNone<OpId>;
  std::int32_t needed_at = 0, done_at = 0;  ///< compute ops before them
  std::int64_t late_ns = 0;   ///< a copy in that starts here is just in time, as are all behind it, if nothing delays
  std::int32_t prefetch = 0;  ///< compute op: the copy in waits for the one before it
  std::optional<std::int32_t> released;  ///< compute op that waits for the copy out; nothing: none does
  std::int64_t out_end_ns = 0;
};

std::vector<Group> form_groups(const OffloadInput& in, std::span<const StorageId> storages) {
  std::vector<Group> groups;
  const auto clock_of = [&](OpId op) {
    return static_cast<std::int32_t>(std::ranges::lower_bound(in.compute_ops, op) - in.compute_ops.begin());
  };
  for (const StorageId storage : storages) {
    const auto touches = in.liveness.touches_of(storage);
    if (groups.empty() || groups.back().needed != touches.front() || groups.back().done != touches.back())
      groups.push_back({.needed = touches.front(),
                        .done = touches.back(),
                        .needed_at = clock_of(touches.front()),
                        .done_at = clock_of(touches.back())});
    Group& group = groups.back();
    group.storages.push_back(storage);
    group.bytes += in.graph.storages[row(storage)].bytes;
    group.in_ns += cost::copy_in_cost(in.graph, storage, in.machine).link_ns;
    group.out_ns += cost::copy_out_cost(in.graph, storage, in.machine).link_ns;
  }
  std::int64_t latest = std::numeric_limits<std::int64_t>::max();
  for (auto group = groups.rbegin(); group != groups.rend(); ++group)
    group->late_ns = latest = std::min(latest, in.nominal.start_ns[row(group->needed)]) - group->in_ns;
  return groups;
}

/// Places the groups one after the other: on the clock, where bytes are taken and free, and on the nominal timeline,
/// shifted by what the step has waited so far.
class Placement {
 public:
  Placement(const OffloadInput& in, std::vector<Group> groups, Bytes budget)
      : in_(in),
        groups_(std::move(groups)),
        budget_(budget),
        used_(in.keep_all_bytes.begin(), in.keep_all_bytes.end()) {
    Bytes bytes = 0;
    for (const Group& group : groups_) bytes += group.bytes;
    for (Bytes& used : used_) used -= bytes;
  }

  void run() {
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      make_room(k);
      take(k);
      leave(k);
    }
  }
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  /// What the step waits for copies in, and for the last copy out behind everything else.
  [[nodiscard]] std::int64_t exposed_ns() const {
    return delay_ + std::max<std::int64_t>(0, d2h_free_ - (in_.nominal.finish_ns + delay_));
  }

 private:
  [[nodiscard]] std::int32_t ops() const { return static_cast<std::int32_t>(in_.compute_ops.size()); }
  [[nodiscard]] std::int64_t start_of(std::int32_t compute) const {
    return in_.nominal.start_ns[row(in_.compute_ops[static_cast<std::size_t>(compute)])];
  }
  [[nodiscard]] std::int64_t end_of(std::int32_t compute) const {
    return in_.nominal.end_ns[row(in_.compute_ops[static_cast<std::size_t>(compute)])];
  }
  /// The first compute op from `from` on that nominally starts at or behind a time.
  [[nodiscard]] std::int32_t first_at(std::int64_t ns, std::int32_t from) const {
    while (from < ops() && start_of(from) < ns) ++from;
    return from;
  }
  /// Half-steps in which a group is on the device.
  [[nodiscard]] std::size_t begin_of(const Group& group) const {
    return static_cast<std::size_t>(std::max(0, 2 * group.prefetch - 1));
  }
  [[nodiscard]] std::size_t end_of(const Group& group) const {
    return group.released ? static_cast<std::size_t>(2 * *group.released) : used_.size();
  }
  void add(std::size_t begin, std::size_t end, Bytes bytes) {
    for (std::size_t t = begin; t < std::min(end, used_.size()); ++t) used_[t] += bytes;
  }
  [[nodiscard]] bool has_room(const Group& group) const {
    for (std::size_t t = static_cast<std::size_t>(std::max(0, 2 * group.needed_at - 1));
         t < std::min(used_.size(), static_cast<std::size_t>(2 * group.done_at + 2)); ++t)
      if (used_[t] + group.bytes > budget_) return false;
    return true;
  }

  /// Where the ops that touch a group find no room for it, an op before them waits until the oldest has left.
  void make_room(std::size_t k) {
    const Group& group = groups_[k];
    for (; !has_room(group) && oldest_ < k; ++oldest_) {
      Group& old = groups_[oldest_];
      const std::int32_t waits = group.needed_at - 1;
      if (waits <= old.done_at) return;  // no op between the two
      if (old.released && *old.released <= waits) continue;
      add(static_cast<std::size_t>(2 * waits), end_of(old), -old.bytes);
      old.released = waits;
      delay_ = std::max(delay_, old.out_end_ns - start_of(waits));
    }
  }

  /// As late as the link allows, later where there is no room before.
  void take(std::size_t k) {
    Group& group = groups_[k];
    const std::int32_t latest = std::min(group.needed_at, ops() - 1);
    std::int32_t prefetch = std::clamp(first_at(group.late_ns + 1, 0) - 1, 0, latest);
    for (std::int32_t i = latest; i > prefetch; --i)
      if (const auto t = static_cast<std::size_t>(std::max(0, 2 * i - 3));
          used_[t] + group.bytes > budget_ || used_[t + 1] + group.bytes > budget_)
        prefetch = i;
    group.prefetch = prefetch;
    const std::int64_t waits_until = prefetch > 0 ? end_of(prefetch - 1) + delay_ : 0;
    h2d_free_ = std::max(h2d_free_, waits_until) + group.in_ns;
    delay_ = std::max(delay_, h2d_free_ - in_.nominal.start_ns[row(group.needed)]);
  }

  void leave(std::size_t k) {
    Group& group = groups_[k];
    d2h_free_ = std::max(d2h_free_, in_.nominal.end_ns[row(group.done)] + delay_) + group.out_ns;
    group.out_end_ns = d2h_free_;
    const bool on_compute =
        group.done_at < ops() && in_.compute_ops[static_cast<std::size_t>(group.done_at)] == group.done;
    const std::int32_t released = first_at(d2h_free_ - delay_, group.done_at + (on_compute ? 1 : 0));
    if (released < ops()) group.released = released;
    add(begin_of(group), end_of(group), group.bytes);
  }

  const OffloadInput& in_;
  std::vector<Group> groups_;
  Bytes budget_;
  std::vector<Bytes> used_;  ///< per half-step
  std::size_t oldest_ = 0;   ///< group: the first that may still be on the device
  std::int64_t delay_ = 0;   ///< of the nominal timeline, so far
  std::int64_t h2d_free_ = 0, d2h_free_ = 0;
};

Plan plan_of(const OffloadInput& in, const std::vector<Group>& groups) {
  Plan plan;
  for (const Group& group : groups)
    for (const StorageId storage : group.storages) {
      const OpId prefetch = in.compute_ops[static_cast<std::size_t>(group.prefetch)];
      plan.swap_in_order.push_back(static_cast<std::int32_t>(plan.swaps.size()));
      plan.swaps.push_back({.storage = storage,
                            .ready = {},
                            .released = {},
                            .prefetch = PlanPoint::ahead_of(std::min(prefetch, group.needed)),
                            .needed = PlanPoint::ahead_of(group.needed),
                            .copies_out = false});
    }
  for (const Group& group : groups)
    for (const StorageId storage : group.storages) {
      Plan::Swap out{.storage = storage, .ready = {.op = group.done}, .released = {}, .prefetch = {}, .needed = {}};
      if (group.released) out.released = PlanPoint::ahead_of(in.compute_ops[static_cast<std::size_t>(*group.released)]);
      plan.swaps.push_back(out);
    }
  std::ranges::stable_sort(plan.swaps, {}, &Plan::Swap::ready);
  std::ranges::stable_sort(plan.swap_in_order, {},
                           [&](std::int32_t i) { return plan.swaps[static_cast<std::size_t>(i)].prefetch; });
  return plan;
}

std::int64_t duration_ns(const OffloadInput& in, const Task& task) {
  switch (task.kind) {
    case TaskKind::op:
      return in.op_ns[row(task.op)];
    case TaskKind::recompute:
      return in.template_ns[row(task.op_template)];
    case TaskKind::swap_out:
      return cost::copy_out_cost(in.graph, task.storage, in.machine).link_ns;
    case TaskKind::swap_in:
      return cost::copy_in_cost(in.graph, task.storage, in.machine).link_ns;
  }
  return 0;
}

}  // namespace

std::vector<StorageId> offloadable_state(const Graph& graph, const Liveness& liveness,
                                         const simulate::Timeline& nominal) {
  std::vector<StorageId> found;
  for (std::size_t s = 0; s < graph.storages.size(); ++s) {
    const auto storage = id_of<StorageId>(s);
    const StorageTemplate& of = graph.template_of(storage);
    const auto touches = liveness.touches_of(storage);
    if (!of.persists() || !of.swappable || touches.empty()) continue;
    if (nominal.end_ns[row(touches.back())] - nominal.start_ns[row(touches.front())] < nominal.finish_ns / 2)
      found.push_back(storage);
  }
  std::ranges::stable_sort(
      found, {}, [&](StorageId s) { return std::pair(liveness.touches_of(s).front(), liveness.touches_of(s).back()); });
  return found;
}

StateOffload offload_state(const OffloadInput& input, const OffloadChoice& choice) {
  StateOffload offload;
  if (choice.storages.empty() || input.compute_ops.empty()) return offload;
  Placement placement(input, form_groups(input, choice.storages), choice.device_budget);
  placement.run();
  offload.plan = plan_of(input, placement.groups());
  offload.exposed_ns = placement.exposed_ns();
  for (const StorageId storage : choice.storages) {
    offload.bytes += input.graph.storages[row(storage)].bytes;
    offload.overhead_ns += cost::copy_in_cost(input.graph, storage, input.machine).compute_ns +
                           cost::copy_out_cost(input.graph, storage, input.machine).compute_ns;
  }
  return offload;
}

std::int64_t finish_alone_ns(const OffloadInput& input, const Schedule& schedule) {
  std::vector<std::int64_t> durations;
  durations.reserve(schedule.tasks.size());
  for (const Task& task : schedule.tasks) durations.push_back(duration_ns(input, task));
  durations = schedule::charged_durations(input.graph, schedule, input.machine, std::move(durations));
  std::vector<std::int64_t> end_ns(schedule.tasks.size());
  std::array<std::int64_t, kLaneCount> lane_free{};
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    const Task& task = schedule.tasks[t];
    std::int64_t& free = lane_free[static_cast<std::size_t>(task.lane)];
    for (const TaskId wait : schedule.waits_of(id_of<TaskId>(t))) free = std::max(free, end_ns[row(wait)]);
    free += durations[t];
    if (task.lane == Lane::receive) free = std::max(free, input.nominal.end_ns[row(task.op)]);
    end_ns[t] = free;
  }
  return *std::ranges::max_element(lane_free);
}

}  // namespace tidemark::decide::sites
