#include "integrations/formats/captured_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "integrations/formats/text_table.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kMostPoints = 24;

/// A bound is rounded down and a gap up: within it means within it.
double rounded_down(double percent) {
  return std::floor(percent * 1e4) / 1e4;
}
double rounded_up(double percent) {
  return std::ceil(percent * 1e4) / 1e4;
}

/// What the step comes to in the units of its file.
struct CostFigures {
  std::int64_t keep_all = 0, added = 0, bound = 0;
  [[nodiscard]] double percent(std::int64_t cost) const {
    return keep_all == 0 ? 0 : 100.0 * static_cast<double>(cost) / static_cast<double>(keep_all);
  }
  [[nodiscard]] std::string_view status(bool fits) const {
    constexpr double kNear = 1;
    if (!fits) return "infeasible";
    if (added <= bound) return "optimal";
    return percent(added - bound) <= kNear ? "within" : "best found";
  }
};

CostFigures costs_of(const plan::PlanOutcome& outcome) {
  const plan::RankFigures& f = outcome.ranks.front().figures;
  return {.keep_all = outcome.step.keep_all_step_ns, .added = f.added_ns, .bound = f.lower_bound_ns};
}

std::string misfit_line(const plan::RankFigures& figures, bool stopped) {
  if (!figures.misfit_is_proven && stopped) return "no plan within the time limit: none that fits was found by then";
  if (!figures.misfit_is_proven) return "infeasible as far as is known: no schedule that fits was found";
  const Bytes budget = figures.budget_bytes - figures.reserve_bytes;
  if (figures.least_live_bytes <= budget) return "infeasible: proven, every schedule was looked at";
  return fmt::format("infeasible: proven, op {} binds: no schedule has less than {} live there, {} are there to use",
                     figures.least_live_op, format_bytes(figures.least_live_bytes),
                     format_bytes(std::max<Bytes>(0, budget)));
}

std::string status_line(const CostFigures& costs, const plan::PlanOutcome& outcome) {
  const plan::RankFigures& figures = outcome.ranks.front().figures;
  const std::string_view status = costs.status(figures.fits);
  if (status == "optimal") return "optimal: no schedule that fits adds less";
  const double gap = rounded_up(costs.percent(costs.added - costs.bound));
  if (status == "within") return fmt::format("within {:.4f} % of the step's cost of the least possible", gap);
  if (status == "best found")
    return fmt::format("best found: the least possible is at most {:.4f} % of the step's cost below", gap);
  return misfit_line(figures, outcome.stopped);
}

/// Most device bytes alive while a run is under way, what is lost between addresses not counted, and the first such
/// run.
struct LivePeak {
  Bytes bytes = 0;
  std::int32_t position = 0;
};

LivePeak live_peak(const plan::RankPlan& plan) {
  const Schedule& schedule = plan.program.schedule;
  std::vector<Bytes> change(static_cast<std::size_t>(schedule.compute_tasks) + 1);
  for (const Residency& r : schedule.residencies) {
    if (r.space != MemorySpace::device) continue;
    change[static_cast<std::size_t>((r.acquire + 1) / 2)] += r.bytes;
    change[static_cast<std::size_t>((r.release + 1) / 2)] -= r.bytes;
  }
  Bytes live = 0;
  LivePeak peak;
  for (std::size_t p = 0; p < change.size(); ++p)
    if ((live += change[p]) > peak.bytes) peak = {.bytes = live, .position = static_cast<std::int32_t>(p)};
  return peak;
}

/// Storages in device memory then, ascending.
std::vector<std::int32_t> live_at(const plan::RankPlan& plan, std::int32_t position) {
  std::vector<std::int32_t> live;
  for (const Residency& r : plan.program.schedule.residencies)
    if (r.space == MemorySpace::device && (r.acquire + 1) / 2 <= position && position < (r.release + 1) / 2)
      live.push_back(static_cast<std::int32_t>(r.storage));
  std::ranges::sort(live);
  return live;
}

std::string frontier_text(const plan::RankPlan& plan, const CostFigures& costs) {
  constexpr double kWidth = 40;
  const auto& frontier = plan.frontier;
  std::int64_t most = 1;
  for (const auto& point : frontier) most = std::max(most, point.added_cost);
  const std::size_t count = frontier.size(), shown = std::min(count, kMostPoints);
  TextTable table({"peak", "added", "on keep-all", ""}, {3});
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& point = frontier[count <= kMostPoints ? i : i * (count - 1) / (kMostPoints - 1)];
    const double share = static_cast<double>(point.added_cost) / static_cast<double>(most);
    table.add({format_bytes(point.peak_bytes), cost_text(plan.graph.given_costs, point.added_cost),
               fmt::format("+{:.4f} %", costs.percent(point.added_cost)),
               std::string(static_cast<std::size_t>(std::lround(kWidth * share)), '#')});
  }
  const std::string selection =
      count <= kMostPoints
          ? fmt::format("{} schedule{} found", count, count == 1 ? "" : "s")
          : fmt::format("{} of {} schedules found, from the tightest to keeping all; --format json lists every one",
                        shown, count);
  return fmt::format("\nWhat memory buys ({}; bytes live, before addresses; bars: added cost)\n{}", selection,
                     table.text());
}

std::string unit_line(const GivenCosts& costs) {
  if (costs.unit == GivenCosts::Unit::ns && costs.quantum == 1) return "";
  constexpr std::array<std::string_view, 3> kWords = {"ns", "J", "units of the file"};
  return fmt::format("Costs count {}; above, one quantum of {:.6g} is played as one nanosecond.\n",
                     kWords[static_cast<std::size_t>(costs.unit)], costs.quantum);
}

class RunReader {
 public:
  explicit RunReader(const plan::RankPlan& plan)
      : schedule_(plan.program.schedule), residency_(plan.graph.storages.size()) {
    std::ranges::fill(residency_, kNone<ResidencyId>);
  }

  RunList read() {
    for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
      const Task& task = schedule_.tasks[t];
      const bool computes = task.lane == Lane::compute;
      if (computes) list_.order.push_back(static_cast<std::int32_t>(task.op_template));
      position_.push_back(static_cast<std::int32_t>(list_.order.size()) - 1);
      if (task.kind == TaskKind::swap_out) copied_out_.insert(task.storage);
      for (const Schedule::Touch& touch : schedule_.touches_of(id_of<TaskId>(t))) look_at(task, touch);
    }
    std::ranges::sort(list_.swaps, {}, [](const RunList::Swap& s) { return std::tuple(s.storage, s.after); });
    return std::move(list_);
  }

 private:
  void look_at(const Task& task, const Schedule::Touch& touch) {
    const Residency& residency = schedule_.residencies[row(touch.residency)];
    if (residency.space != MemorySpace::device) return;
    ResidencyId& known = residency_[row(residency.storage)];
    if (known != touch.residency && task.kind == TaskKind::swap_in) arrive(residency.storage, known, touch.residency);
    known = touch.residency;
    const auto found = arriving_.find(touch.residency);
    if (found == arriving_.end() || task.kind == TaskKind::swap_in) return;
    found->second.before = position_.back();
    list_.swaps.push_back(found->second);
    arriving_.erase(found);
  }

  /// It left behind the last run that needed it: what is issued behind that is its copy out.
  void arrive(StorageId storage, ResidencyId left, ResidencyId arrived) {
    RunList::Swap swap{.storage = static_cast<std::int32_t>(storage), .copied_out = copied_out_.erase(storage) > 0};
    if (left != kNone<ResidencyId>)
      swap.after = std::max(0, position_[row(schedule_.residencies[row(left)].last_task)]);
    arriving_.emplace(arrived, swap);
  }

  const Schedule& schedule_;
  std::vector<ResidencyId> residency_;  ///< per storage: the last in device memory
  std::vector<std::int32_t> position_;  ///< per task: of the run that is it or was issued last
  std::set<StorageId> copied_out_;
  std::map<ResidencyId, RunList::Swap> arriving_;
  RunList list_;
};

Json order_json(const RunList& runs) {
  Json swaps = Json::array();
  for (const RunList::Swap& s : runs.swaps)
    swaps.push_back({{"storage", s.storage}, {"after", s.after}, {"before", s.before}, {"copied_out", s.copied_out}});
  return {{"order", runs.order}, {"swaps", std::move(swaps)}};
}

}  // namespace

RunList run_list_of(const plan::RankPlan& plan) {
  return RunReader(plan).read();
}

std::string order_text(const RunList& runs) {
  std::string text;
  for (const std::int32_t v : runs.order) text += fmt::format("{}\n", v);
  return text;
}

std::string cost_text(const GivenCosts& costs, std::int64_t quanta) {
  const double units = costs.to_units(quanta);
  switch (costs.unit) {
    case GivenCosts::Unit::joule:
      return fmt::format("{:.6g} J", units);
    case GivenCosts::Unit::ns:
      return fmt::format("{:.6g} ms", units / 1e6);
    case GivenCosts::Unit::one:
      break;
  }
  return fmt::format("{:.6g}", units);
}

std::string captured_text(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  const plan::RankPlan& plan = outcome.ranks.front();
  const GivenCosts& unit = plan.graph.given_costs;
  const CostFigures costs = costs_of(outcome);
  const RunList runs = run_list_of(plan);
  std::string text = fmt::format("\nCaptured step\n  status      {}\n", status_line(costs, outcome));
  text += fmt::format("  cost        {}; added {} (+{:.4f} %)\n", cost_text(unit, costs.keep_all),
                      cost_text(unit, costs.added), costs.percent(costs.added));
  if (plan.figures.fits)
    text += fmt::format("  bound       no schedule that fits adds less than {:.4f} %\n",
                        rounded_down(costs.percent(costs.bound)));
  const std::string& at = plan.figures.least_live_op;
  text += fmt::format("  bytes live  {} at most; keeping all {}; no schedule below {}{}\n",
                      format_bytes(live_peak(plan).bytes), format_bytes(plan.liveness.peak_bytes),
                      format_bytes(plan::proven_least_bytes(plan)), at.empty() ? "" : ", for op " + at);
  text += fmt::format("  recomputed  {} runs; {} swaps, for which ops wait {} (simulated)\n",
                      runs.order.size() - plan.graph.ops.size(), runs.swaps.size(),
                      cost_text(unit, plan.figures.exposed_copy_ns));
  text += unit_line(unit);
  if (request.step->frontier) text += frontier_text(plan, costs);
  return text;
}

Json captured_json(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  constexpr std::array<std::string_view, 3> kUnits = {"ns", "joule", "one"};
  const plan::RankPlan& plan = outcome.ranks.front();
  const GivenCosts& unit = plan.graph.given_costs;
  const CostFigures costs = costs_of(outcome);
  const RunList runs = run_list_of(plan);
  const LivePeak peak = live_peak(plan);
  Json json = {{"status", costs.status(plan.figures.fits)},
               {"cost_unit", kUnits[static_cast<std::size_t>(unit.unit)]},
               {"cost_quantum", unit.quantum},
               {"total_cost", unit.to_units(costs.keep_all + costs.added)},
               {"added_cost", unit.to_units(costs.added)},
               {"added_cost_percent", costs.percent(costs.added)},
               {"lower_bound_percent", rounded_down(costs.percent(costs.bound))},
               {"waited_cost", unit.to_units(plan.figures.exposed_copy_ns)},
               {"keep_all_peak_bytes", plan.liveness.peak_bytes},
               {"live_peak_bytes", peak.bytes},
               {"live_peak_position", peak.position},
               {"live_peak_storages", live_at(plan, peak.position)},
               {"lower_bound_bytes", plan::proven_least_bytes(plan)},
               {"lower_bound_op", plan.figures.least_live_op},
               {"proven", !plan.figures.fits ? plan.figures.misfit_is_proven : costs.status(true) == "optimal"},
               {"recomputed", runs.order.size() - plan.graph.ops.size()},
               {"swapped", runs.swaps.size()}};
  json.update(order_json(runs));
  if (outcome.stopped) json["stopped"] = true;
  if (!request.step->framework.empty()) json["framework"] = request.step->framework;
  if (!request.step->frontier) return json;
  Json rows = Json::array();
  for (const auto& point : plan.frontier)
    rows.push_back({{"peak_bytes", point.peak_bytes}, {"added_cost", unit.to_units(point.added_cost)}});
  json["frontier"] = std::move(rows);
  return json;
}

}  // namespace tidemark::formats
