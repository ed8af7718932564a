#include "integrations/formats/step_plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "integrations/formats/shown.h"
#include "integrations/formats/text_table.h"
#include "planner/remat/decisions.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;
using remat::Decision;
using remat::PlanStatus;
using remat::StepPlan;
constexpr std::size_t kMostResidents = 8, kMostDecisions = 12, kMostPoints = 24;

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

std::string exact_text(Bytes bytes) {
  return bytes < kKiB ? fmt::format("{} B", bytes) : fmt::format("{} B ({})", bytes, format_bytes(bytes));
}

std::string cost_text(const OpList& list, std::int64_t cost) {
  const double units = list.to_units(cost);
  switch (list.cost_unit) {
    case OpList::CostUnit::joule:
      return fmt::format("{:.6g} J", units);
    case OpList::CostUnit::ns:
      return fmt::format("{:.6g} ms", units / 1e6);
    case OpList::CostUnit::one:
      break;
  }
  return fmt::format("{:.6g}", units);
}

/// A bound is rounded down: within it means within it.
double rounded_down(double percent) {
  return std::floor(percent * 1e4) / 1e4;
}
double rounded_up(double percent) {
  return std::ceil(percent * 1e4) / 1e4;
}

std::string_view word_of(PlanStatus status) {
  constexpr std::array<std::string_view, 4> kWords = {"optimal", "within", "best found", "infeasible"};
  return kWords[static_cast<std::size_t>(status)];
}

std::string op_name(const OpList& list, std::int32_t op) {
  return fmt::format("op {} {}", op, shown(list.ops[at(op)].name));
}
std::string storage_name(const OpList& list, std::int32_t storage) {
  const std::string& name = list.storages[at(storage)].name;
  return fmt::format("{} {}", storage, name.empty() ? "" : shown(name));
}

std::string status_text(const StepPlan& plan) {
  const double gap = rounded_up(plan.percent(plan.replay.added_cost - plan.lower_bound_cost));
  switch (plan.status) {
    case PlanStatus::optimal:
      return "optimal: no schedule that fits adds less";
    case PlanStatus::within:
      return fmt::format("within {:.4f} % of the step's cost of the least possible", gap);
    case PlanStatus::best_found:
      return fmt::format("best found: the least possible is at most {:.4f} % of the step's cost below", gap);
    case PlanStatus::infeasible:
      break;
  }
  return plan.proven ? "infeasible: no schedule has a peak that low"
                     : "infeasible as far as is known: no schedule was found";
}

/// What sets the peak: the op, and who is resident while it runs, largest first.
std::string residents_text(const OpList& list, const StepPlan& plan) {
  const std::int32_t position = plan.replay.peak_position;
  const std::int32_t op = plan.schedule.order[at(position)];
  std::vector<std::int32_t> rows = residents_at(list, plan.schedule, position);
  std::ranges::stable_sort(rows, std::greater<>(), [&](std::int32_t s) { return list.storages[at(s)].bytes; });
  std::string text = fmt::format("\nresident at the peak, while {} runs (position {} of {}):\n", op_name(list, op),
                                 position, plan.schedule.order.size());
  Bytes rest = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Bytes bytes = list.storages[at(rows[i])].bytes;
    if (i < kMostResidents)
      text += fmt::format("  {:>14}  storage {}\n", format_bytes(bytes), storage_name(list, rows[i]));
    else
      rest += bytes;
  }
  if (rows.size() > kMostResidents)
    text += fmt::format("  {:>14}  {} more storages\n", format_bytes(rest), rows.size() - kMostResidents);
  if (const Bytes transient = list.ops[at(op)].transient_bytes; transient > 0)
    text += fmt::format("  {:>14}  workspace of the op\n", format_bytes(transient));
  return text;
}

/// Decisions that free most, as bytes over ops.
std::string decisions_text(const OpList& list, std::vector<Decision> decisions) {
  if (decisions.empty()) return "";
  const auto area = [&](const Decision& d) {
    return static_cast<double>(list.storages[at(d.storage)].bytes) * static_cast<double>(d.before_op - d.after_op);
  };
  std::ranges::stable_sort(decisions, std::greater<>(), area);
  std::string text = "\nwhat frees most (bytes times ops):\n";
  for (std::size_t i = 0; i < std::min(decisions.size(), kMostDecisions); ++i) {
    const Decision& d = decisions[i];
    const bool beside = d.swap && list.link;  // what ops wait for it is not its own alone
    text += fmt::format("  {:>14}  for {:>14}  {} storage {}: {} after op {}, {} before op {}\n",
                        format_bytes(list.storages[at(d.storage)].bytes),
                        beside ? "what ops wait" : cost_text(list, d.cost), d.swap ? "page     " : "recompute",
                        storage_name(list, d.storage), beside ? "copied out" : "gone", d.after_op,
                        beside ? "needed" : "back", d.before_op);
  }
  if (decisions.size() > kMostDecisions)
    text += fmt::format("  and {} more (--format json lists all)\n", decisions.size() - kMostDecisions);
  return text;
}

struct Counts {
  std::size_t recomputed = 0, swapped = 0, ops = 0;
};
Counts counts_of(const OpList& list, const OpSchedule& schedule) {
  Counts counts{.recomputed = schedule.order.size() - list.ops.size(), .swapped = schedule.swaps.size()};
  std::vector<std::uint8_t> runs(list.ops.size());
  for (const std::int32_t v : schedule.order)
    if (runs[at(v)] < 2 && ++runs[at(v)] == 2) ++counts.ops;
  return counts;
}

std::string plan_text(const OpList& list, const StepPlan& plan) {
  std::string text = fmt::format("budget      {}\nstatus      {}\n", exact_text(plan.budget_bytes), status_text(plan));
  if (!plan.fits()) {
    text += fmt::format("keep all    {}\nleast       {} at {}\n", exact_text(plan.keep_all_peak_bytes),
                        exact_text(plan.lower_bound_bytes), op_name(list, plan.lower_bound_op));
    return text + fmt::format("smallest budget known to do: {}\n", exact_text(plan.smallest_known_peak));
  }
  const Counts counts = counts_of(list, plan.schedule);
  text += fmt::format("peak        {}; keeping all {}; no schedule below {}\n", exact_text(plan.replay.peak_bytes),
                      exact_text(plan.keep_all_peak_bytes), exact_text(plan.lower_bound_bytes));
  if (plan.addresses)
    text += fmt::format("addresses   {}; {} more than what is resident\n", exact_text(plan.addresses->height_bytes),
                        exact_text(plan.addresses->height_bytes - plan.replay.peak_bytes));
  text += fmt::format("added cost  {} (+{:.4f} %); no schedule that fits adds less than {:.4f} %\n",
                      cost_text(list, plan.replay.added_cost), plan.percent(plan.replay.added_cost),
                      rounded_down(plan.percent(plan.lower_bound_cost)));
  text += fmt::format("recomputed  {} runs of {} ops; {} pages\n", counts.recomputed, counts.ops, counts.swapped);
  if (list.link)
    text += fmt::format("pages       ops wait {} for them (simulated); {} of host memory\n",
                        cost_text(list, plan.replay.waited), exact_text(plan.replay.host_peak_bytes));
  return text + residents_text(list, plan) + decisions_text(list, remat::decisions_of(list, plan.schedule));
}

std::string frontier_text(const StepPlanReport& report) {
  constexpr double kWidth = 40;
  std::int64_t cost = 0, most = 1;
  for (const OpList::Op& op : report.list->ops) cost += op.cost;
  for (const remat::FrontierPoint& point : report.frontier) most = std::max(most, point.added_cost);
  const std::size_t count = report.frontier.size(), shown_count = std::min(count, kMostPoints);
  TextTable table({"peak", "added", "on keep-all", ""}, {3});
  for (std::size_t i = 0; i < shown_count; ++i) {
    const auto& point = report.frontier[count <= kMostPoints ? i : i * (count - 1) / (kMostPoints - 1)];
    const auto added = static_cast<double>(point.added_cost);
    table.add({format_bytes(point.peak_bytes), cost_text(*report.list, point.added_cost),
               fmt::format("+{:.4f} %", cost == 0 ? 0 : 100 * added / static_cast<double>(cost)),
               std::string(static_cast<std::size_t>(std::lround(kWidth * added / static_cast<double>(most))), '#')});
  }
  const std::string selection =
      count <= kMostPoints
          ? fmt::format("{} schedule{} found", count, count == 1 ? "" : "s")
          : fmt::format("{} of {} schedules found, from the tightest to keeping all; --format json lists every one",
                        shown_count, count);
  return fmt::format("\nWhat memory buys ({}; bars: added cost)\n{}", selection, table.text());
}

/// What is not resident and when: positions of the schedule.
Json pages_json(const OpSchedule& schedule) {
  Json rows = Json::array();
  for (const OpSchedule::Swap& swap : schedule.swaps)
    rows.push_back({{"storage", swap.storage},
                    {"after", swap.after},
                    {"gone", swap.gone},
                    {"back", swap.back},
                    {"before", swap.before}});
  return rows;
}

Json addresses_json(const remat::StepAddresses& addresses) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < addresses.residencies.size(); ++i) {
    const StepResidency& one = addresses.residencies[i];
    rows.push_back({{"storage", one.storage < 0 ? Json() : Json(one.storage)},
                    {"begin", one.begin},
                    {"end", one.end},
                    {"offset", addresses.offsets[i]},
                    {"bytes", one.bytes}});
  }
  return rows;
}

Json decisions_json(const OpList& list, const OpSchedule& schedule) {
  Json rows = Json::array();
  for (const Decision& d : remat::decisions_of(list, schedule))
    rows.push_back({{"storage", d.storage},
                    {"action", d.swap ? "swap" : "recompute"},
                    {"after_op", d.after_op},
                    {"before_op", d.before_op}});
  return rows;
}

void add_plan(Json& json, const OpList& list, const StepPlan& plan) {
  json["status"] = word_of(plan.status);
  json["budget_bytes"] = plan.budget_bytes;
  json["keep_all_peak_bytes"] = plan.keep_all_peak_bytes;
  json["lower_bound_bytes"] = plan.lower_bound_bytes;
  if (!plan.fits()) {
    json["proven"] = plan.proven;
    json["smallest_known_peak_bytes"] = plan.smallest_known_peak;
    return;
  }
  const Counts counts = counts_of(list, plan.schedule);
  json["peak_bytes"] = plan.replay.peak_bytes;
  json["peak_position"] = plan.replay.peak_position;
  json["total_cost"] = list.to_units(plan.replay.cost);
  json["added_cost"] = list.to_units(plan.replay.added_cost);
  json["added_cost_percent"] = plan.percent(plan.replay.added_cost);
  json["lower_bound_percent"] = rounded_down(plan.percent(plan.lower_bound_cost));
  json["recomputed"] = counts.recomputed;
  json["swapped"] = counts.swapped;
  if (list.link) {
    json["waited_cost"] = list.to_units(plan.replay.waited);
    json["host_peak_bytes"] = plan.replay.host_peak_bytes;
  }
  if (plan.addresses) {
    json["packed_bytes"] = plan.addresses->height_bytes;
    json["addresses"] = addresses_json(*plan.addresses);
  }
  json["decisions"] = decisions_json(list, plan.schedule);
  json["pages"] = pages_json(plan.schedule);
  json["schedule"] = plan.schedule.order;
}

}  // namespace

std::string step_plan_text(const StepPlanReport& report) {
  const OpList& list = *report.list;
  std::int64_t cost = 0;
  for (const OpList::Op& op : list.ops) cost += op.cost;
  std::string text = fmt::format("graph       {}: {} ops, {} storages, cost {}\n", report.file, list.ops.size(),
                                 list.storages.size(), cost_text(list, cost));
  if (report.plan != nullptr) text += plan_text(list, *report.plan);
  if (!report.frontier.empty()) text += frontier_text(report);
  return text;
}

std::string step_plan_json(const StepPlanReport& report) {
  Json json;
  if (report.plan != nullptr) add_plan(json, *report.list, *report.plan);
  if (!report.frontier.empty()) {
    Json rows = Json::array();
    for (const remat::FrontierPoint& point : report.frontier)
      rows.push_back({{"peak_bytes", point.peak_bytes}, {"added_cost", report.list->to_units(point.added_cost)}});
    json["frontier"] = std::move(rows);
  }
  json["seconds"] = report.seconds;
  return json.dump(2) + "\n";
}

std::string schedule_text(const OpSchedule& schedule) {
  std::string text;
  for (const std::int32_t v : schedule.order) text += fmt::format("{}\n", v);
  return text;
}

}  // namespace tidemark
