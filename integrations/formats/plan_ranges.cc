#include "integrations/formats/plan_ranges.h"

#include <fmt/format.h>

#include <concepts>
#include <limits>
#include <string_view>

#include "integrations/formats/field_ranges.h"
#include "integrations/formats/spec_fields.h"

namespace tidemark::formats {
namespace {

/// Walks the tables of spec_fields.h as the reader does.
class RangeVisitor {
 public:
  RangeVisitor(std::string place, std::string& wrong) : place_(std::move(place)), wrong_(wrong) {}

  template <std::integral T>
  void operator()(std::string_view name, const T& value) {
    if constexpr (std::signed_integral<T>) whole(name, value, whole_range_of(name));
  }
  void operator()(std::string_view /*name*/, const bool& /*value*/) {}
  void operator()(std::string_view /*name*/, const std::string& /*value*/) {}
  void operator()(std::string_view name, const double& value) {
    const RealRange range = real_range_of(name);
    if (!range.holds(value))
      report(name, fmt::format("{:.6g}", value), fmt::format("{}{:.6g}", range.open ? "above " : "", range.least),
             fmt::format("{:.6g}", range.most));
  }
  template <class T, class Words>
  void word(std::string_view /*name*/, const T& /*value*/, const Words& /*words*/) {}
  template <class T, class Words>
  void word_unless_default(std::string_view /*name*/, const T& /*value*/, const Words& /*words*/,
                           const T& /*standard*/) {}
  template <class T>
  void object(std::string_view name, const T& value) {
    RangeVisitor inner(fmt::format("{} of {}", name, place_), wrong_);
    walk(inner, value);
  }
  template <class T>
  void unless_default(std::string_view name, const T& value, const T& standard) {
    if (value != standard) (*this)(name, value);  // it is not written
  }
  template <class T>
  void later(std::string_view name, const T& value) {
    (*this)(name, value);
  }
  template <class T, class Words>
  void word_unless_default(std::string_view /*name*/, const T& /*value*/, const Words& /*words*/) {}
  template <class T>
  void object_unless_default(std::string_view name, const T& value) {
    object(name, value);
  }
  template <class T>
  void layers(std::string_view /*name*/, const T& /*value*/) {}
  template <class T>
  void tiles(std::string_view /*name*/, const T& /*value*/) {}
  template <class T>
  void terms(std::string_view /*name*/, const T& /*value*/) {}
  template <class T>
  void slots(std::string_view /*name*/, const T& /*value*/) {}

  void whole(std::string_view name, std::int64_t value, const WholeRange& range) {
    if (value < range.least || value > range.most)
      report(name, fmt::format("{}", value), fmt::format("{}", range.least), fmt::format("{}", range.most));
  }

 private:
  void report(std::string_view name, const std::string& value, const std::string& least, const std::string& most) {
    if (wrong_.empty())
      wrong_ = fmt::format("{} of {} comes to {}; a plan holds {} to {}", name, place_, value, least, most);
  }

  std::string place_;
  std::string& wrong_;
};

constexpr WholeRange kTaskNs{.most = kMostTaskNs}, kStepNs{.most = kMostStepNs}, kSize{.most = kMostPlanBytes};

void check_addresses(RangeVisitor& visitor, const Program& program) {
  for (const Arena& arena : program.layout.arenas) walk(visitor, arena);
  for (const Residency& stay : program.schedule.residencies) visitor.whole("bytes", stay.bytes, kSize);
  for (const Bytes offset : program.layout.offset_of) visitor.whole("offset", offset, kSize);
  visitor.whole("device_load_bytes", program.layout.device_load_bytes, kSize);
  for (const RoutedResidency& routed : program.routed) {
    constexpr WholeRange kFactor{.most = std::numeric_limits<std::int32_t>::max()};
    visitor.whole("fixed_bytes", routed.fixed_bytes, kSize);
    visitor.whole("rows", routed.rows, kFactor);
    visitor.whole("row_bytes", routed.row_bytes, kFactor);
  }
}

/// `all_ns`: of the ranks before; a step of all tasks one after the other must still be a time.
void check_times(RangeVisitor& visitor, const Program& program, std::int64_t& all_ns) {
  for (const std::int64_t ns : program.estimate_ns) {
    visitor.whole("the time of a task in ns", ns, kTaskNs);
    all_ns += ns >= 0 && ns <= kMostTaskNs && all_ns <= kMostStepNs ? ns : 0;
  }
  visitor.whole("the time of all tasks up to the last in ns", all_ns, kStepNs);
  for (const ReceiveEvent& receive : program.receives)
    visitor.whole("an arrival in ns", receive.arrival_estimate_ns, kStepNs);
}

}  // namespace

std::string number_out_of_range(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  std::string wrong;
  RangeVisitor head("the plan", wrong), job("the job", wrong), machine("the device", wrong), step("the step", wrong);
  if (request.budget_bytes) head.whole("budget_bytes", *request.budget_bytes, kSize);
  if (request.host_budget_bytes) head.whole("host_budget_bytes", *request.host_budget_bytes, kSize);
  if (request.load) head("load", *request.load);
  head("time_scale", request.time_scale);
  walk(job, request.job);
  walk(machine, request.machine);
  std::int64_t all_ns = 0;
  for (const plan::RankPlan& rank : outcome.ranks) {
    RangeVisitor visitor(fmt::format("rank {}", rank.figures.rank), wrong);
    walk(visitor, rank.figures);
    for (const plan::PlanAttempt& attempt : rank.attempts) walk(visitor, attempt);
    for (const Site& site : rank.graph.sites)
      for (const float load : {site.load, site.sent_load, site.fullest_load})
        visitor("load", static_cast<double>(load));
    check_addresses(visitor, rank.program);
    check_times(visitor, rank.program, all_ns);
  }
  walk(step, outcome.step);
  walk(step, outcome.parameters);
  return wrong;
}

}  // namespace tidemark::formats
