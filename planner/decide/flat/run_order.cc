#include "planner/decide/flat/run_order.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "planner/schedule/scheduler.h"

namespace tidemark::decide::flat {
namespace {

constexpr SiteId kSite = static_cast<SiteId>(0);

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

class PlanWriter {
 public:
  PlanWriter(const Problem& problem, const RunOrder& order)
      : p_(problem), order_(order), last_touch_(problem.bytes.size(), -1) {}

  Plan write() {
    list_runs();
    list_drops();
    list_swaps();
    return std::move(plan_);
  }

 private:
  /// Positions of the order as points of program order.
  void list_runs() {
    std::int32_t next = 0;
    for (const std::int32_t v : order_.order) {
      if (v == next) {
        points_.push_back({.op = static_cast<OpId>(v)});
        ++next;
        continue;
      }
      const auto op = static_cast<OpId>(next);
      points_.push_back({.op = op, .run = static_cast<std::int32_t>(plan_.runs.size())});
      plan_.runs.push_back({.site = kSite, .recipe = p_.recipe_of[at(v)], .start = op, .need = op});
    }
  }

  /// What a run writes anew leaves behind its last touch before; a hold counts as a touch.
  void list_drops() {
    std::vector<std::int32_t> first(at(p_.op_count), -1);
    const std::vector<std::vector<std::int32_t>> held = held_by_op();
    for (std::size_t position = 0; position < order_.order.size(); ++position) {
      const auto p = static_cast<std::int32_t>(position);
      const std::int32_t v = order_.order[position];
      const bool again = first[at(v)] >= 0;
      if (!again) first[at(v)] = p;
      if (again)
        for (const std::int32_t s : p_.writes[v])
          plan_.drops.push_back({.storage = static_cast<StorageId>(s), .after = points_[at(last_touch_[at(s)])]});
      for (const std::int32_t s : p_.reads[v]) last_touch_[at(s)] = p;
      for (const std::int32_t s : p_.writes[v]) last_touch_[at(s)] = p;
      if (again) continue;
      for (const std::int32_t s : held[at(v)])
        if (last_touch_[at(s)] >= 0) last_touch_[at(s)] = p;
    }
    std::ranges::stable_sort(plan_.drops, {}, &Plan::Drop::after);
  }

  [[nodiscard]] std::vector<std::vector<std::int32_t>> held_by_op() const {
    std::vector<std::vector<std::int32_t>> held(at(p_.op_count));
    for (std::int32_t s = 0; s < p_.storage_count; ++s)
      if (p_.hold_until[at(s)] > 0) held[at(op_of(p_.hold_until[at(s)]))].push_back(s);
    return held;
  }

  void list_swaps() {
    std::vector<std::int32_t> by_ready(order_.swaps.size());
    std::iota(by_ready.begin(), by_ready.end(), 0);
    std::ranges::sort(by_ready, {}, [&](std::int32_t i) {
      const RunOrder::Swap& s = order_.swaps[at(i)];
      return std::tuple(s.after, s.gone, s.storage);
    });
    std::vector<std::uint8_t> copied(p_.bytes.size());
    for (const std::int32_t i : by_ready) {
      const RunOrder::Swap& s = order_.swaps[at(i)];
      plan_.swaps.push_back({.storage = static_cast<StorageId>(s.storage),
                             .ready = points_[at(s.after)],
                             .released = points_[at(s.gone)],
                             .prefetch = points_[at(s.back)],
                             .needed = points_[at(s.before)],
                             .copies_out = copied[at(s.storage)] == 0 || p_.changed[at(s.storage)] != 0});
      copied[at(s.storage)] = 1;
    }
    plan_.swap_in_order.resize(plan_.swaps.size());
    std::iota(plan_.swap_in_order.begin(), plan_.swap_in_order.end(), 0);
    std::ranges::sort(plan_.swap_in_order, {}, [&](std::int32_t i) {
      const Plan::Swap& s = plan_.swaps[at(i)];
      return std::tuple(s.prefetch, s.needed, s.storage);
    });
  }

  const Problem& p_;
  const RunOrder& order_;
  std::vector<PlanPoint> points_;
  std::vector<std::int32_t> last_touch_;
  Plan plan_;
};

/// Device bytes at the half-step of every compute task, and the most that host memory holds at once.
struct Held {
  std::vector<Bytes> device;
  Bytes host_peak = 0;
};

Held held_by(const Schedule& schedule) {
  std::vector<Bytes> device(at(schedule.compute_tasks) + 1), host(at(2 * schedule.compute_tasks) + 1);
  for (const Residency& r : schedule.residencies) {
    if (r.space == MemorySpace::host) {
      host[at(r.acquire)] += r.bytes;
      host[at(r.release)] -= r.bytes;
      continue;
    }
    device[at((r.acquire + 1) / 2)] += r.bytes;
    device[at((r.release + 1) / 2)] -= r.bytes;
  }
  std::partial_sum(device.begin(), device.end(), device.begin());
  device.pop_back();
  std::partial_sum(host.begin(), host.end(), host.begin());
  return {.device = std::move(device), .host_peak = std::ranges::max(host)};
}

}  // namespace

RunOrder keep_all_order(const Problem& problem) {
  RunOrder order;
  order.order.resize(at(problem.op_count));
  std::iota(order.order.begin(), order.order.end(), 0);
  return order;
}

Plan plan_of(const Problem& problem, const RunOrder& order) {
  return PlanWriter(problem, order).write();
}

RunOutcome carry_out(const Problem& problem, const RunOrder& order) {
  RunOutcome outcome;
  const Plan plan = plan_of(problem, order);
  const Graph& graph = *problem.graph;
  const Result<Schedule> schedule = schedule::build_schedule(
      {.graph = graph, .liveness = problem.liveness, .nominal = problem.nominal, .plan = plan});
  if (!schedule) {
    outcome.fault = schedule.error().message;
    return outcome;
  }
  Held held = held_by(schedule.value());
  outcome.profile = std::move(held.device);
  outcome.host_peak_bytes = held.host_peak;
  if (const auto peak = std::ranges::max_element(outcome.profile); peak != outcome.profile.end()) {
    outcome.peak_bytes = *peak;
    outcome.peak_position = static_cast<std::int32_t>(peak - outcome.profile.begin());
  }
  const std::vector<std::int64_t> alone = schedule::task_durations(graph, schedule.value(), *problem.machine);
  const std::vector<std::int64_t> charged =
      schedule::charged_durations(graph, schedule.value(), *problem.machine, alone);
  std::int64_t busy = 0;
  for (std::size_t t = 0; t < charged.size(); ++t)
    if (schedule.value().tasks[t].lane == Lane::compute) busy += charged[t];
  const std::vector<simulate::RankWork> work = {simulate::work_of(graph, schedule.value(), charged)};
  const Result<simulate::StepTiming> timing = simulate::simulate_step(work);
  if (!timing) {
    outcome.fault = timing.error().message;
    return outcome;
  }
  outcome.cost = timing.value().step_ns;
  outcome.waited = outcome.cost - busy;
  outcome.added_cost = outcome.cost - problem.total_cost();
  return outcome;
}

}  // namespace tidemark::decide::flat
