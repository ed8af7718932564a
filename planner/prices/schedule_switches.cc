#include "planner/prices/schedule_switches.h"

#include <fmt/format.h>

#include <functional>

#include "planner/graph_build/v_schedule.h"
#include "planner/graph_build/v_zero_bubble.h"
#include "planner/graph_build/zero_bubble.h"
#include "planner/prices/schedule_parts.h"

namespace tidemark::prices {
namespace {

using graph_build::JobSpec;
using graph_build::PassKind;
using graph_build::SplitPass;
using graph_build::SplitSchedule;
using graph_build::StagePlacement;

constexpr std::string_view kConstant = "pass times of the job's chunks, dW by the ops that make weight gradients";

/// Every whole backward as dX with dW right behind it, so that the stage before waits for dX alone.
SplitSchedule with_split_backward(const SplitSchedule& whole) {
  SplitSchedule split = whole;
  for (std::vector<SplitPass>& passes : split.passes) {
    std::vector<SplitPass> parts;
    for (SplitPass pass : passes) {
      const bool is_whole = pass.kind == PassKind::backward;
      if (is_whole) pass.kind = PassKind::input_grad;
      parts.push_back(pass);
      pass.kind = PassKind::weight_grad;
      if (is_whole) parts.push_back(pass);
    }
    passes = std::move(parts);
  }
  return split;
}

struct ScheduleLine {
  std::string_view name;
  std::string on;
  std::int32_t chunks = 1;
  std::function<Result<SplitSchedule>(std::int32_t ranks, std::int32_t micro_batches,
                                      const graph_build::SplitTimeTable& times)>
      make;
  PublishedPrice published;
};

std::vector<ScheduleLine> schedule_lines() {
  constexpr std::string_view kZeroBubble = "arXiv 2401.10241, equal times", kV = "arXiv 2405.15362";
  const auto h1 = [](std::int32_t p, std::int32_t m, const auto&) { return graph_build::zero_bubble_h1(p, m); };
  const auto h2 = [](std::int32_t p, std::int32_t m, const auto&) { return graph_build::zero_bubble_h2(p, m); };
  const auto half = [](std::int32_t p, std::int32_t m, const auto&) {
    return graph_build::v_schedule(graph_build::VMemory::half, p, m);
  };
  const auto third = [](std::int32_t p, std::int32_t m, const auto&) {
    return graph_build::v_schedule(graph_build::VMemory::third, p, m);
  };
  return {
      {"zero bubble ZB-H1", "1 chunk, dW put off", 1, h1, {"a third of the bubble of 1F1B", kZeroBubble}},
      {"zero bubble ZB-H2", "1 chunk, dW put off further", 1, h2, {"no bubble, twice the activations", kZeroBubble}},
      {"zero bubble V (ZBV)",
       "2 chunks as a V",
       2,
       graph_build::v_zero_bubble,
       {"no bubble at the activations of 1F1B, equal times", kV}},
      {"V-Half", "2 chunks as a V", 2, half, {"half the activations of 1F1B", kV}},
      {"V-Min", "2 chunks as a V", 2, third, {"a third of the activations of 1F1B", kV}}};
}

/// Passes come one after the other, as the schedules to compare with have them.
JobSpec without_overlap(JobSpec job) {
  job.parallel.overlap_forward_backward = false;
  return job;
}

class ScheduleComparison {
 public:
  explicit ScheduleComparison(const KeptStep& step)
      : machine_(step.request().machine),
        own_job_(without_overlap(step.request().job)),
        parts_(step),
        times_(step.request().machine, step.request().load, step.request().time_scale) {}

  Status start() {
    const graph_build::ParallelSpec& p = own_job_.parallel;
    Result<StagedJob> own = staged(own_job_, machine_, StagePlacement::looped, parts_, times_);
    if (!own) return own.error();
    own_ = std::move(own).value();
    Result<SplitSchedule> whole = graph_build::whole_backward_schedule(
        {.ranks = p.pipeline, .chunks = p.virtual_pipeline, .micro_batches = micro_batches()});
    if (!whole) return whole.error();
    whole_ = std::move(whole).value();
    Result<SwitchSide> side = played(whole_, own_);
    if (!side) return side.error();
    off_ = std::move(side).value();
    off_.setting = p.virtual_pipeline > 1 ? fmt::format("1F1B, {} chunks", p.virtual_pipeline) : "1F1B";
    return {};
  }

  Result<SwitchPrice> split() const {
    SwitchPrice price = line("dX apart from dW");
    Result<SwitchSide> on = played(with_split_backward(whole_), own_);
    if (!on) return on.error();
    price.off = off_;
    price.on = std::move(on).value();
    price.on->setting = "dX sent before dW";
    return price;
  }

  Result<SwitchPrice> of(const ScheduleLine& schedule) {
    SwitchPrice price = line(schedule.name);
    price.published = schedule.published;
    const auto placement = schedule.chunks == 1 ? StagePlacement::looped : StagePlacement::zigzag;
    const JobSpec job = parts_.balanced(own_job_, schedule.chunks, placement);
    // A batch need not be a multiple of the ranks as with interleaved chunks; the job's own holds all other rules of
    // it.
    for (const graph_build::SpecProblem& problem : graph_build::find_problems(job)) {
      if (problem.key == "parallel.global_batch") continue;
      price.why_not = problem.key + ": " + problem.message;
      return price;
    }
    const Result<StagedJob> on = staged(job, machine_, placement, parts_, times_);
    if (!on) return on.error();
    const Result<SplitSchedule> made = schedule.make(job.parallel.pipeline, micro_batches(), on.value().times);
    if (!made) return made.error();
    Result<SwitchSide> side = played(made.value(), on.value());
    if (!side) return side.error();
    price.off = off_;
    price.on = std::move(side).value();
    price.on->setting = schedule.on;
    return price;
  }

  static SwitchPrice line(std::string_view name) {
    return {.name = name, .basis = Basis::passes, .constant = kConstant};
  }

 private:
  [[nodiscard]] std::int32_t micro_batches() const {
    return static_cast<std::int32_t>(own_job_.parallel.micro_batches());
  }

  const Machine& machine_;
  JobSpec own_job_;
  ScheduleParts parts_;
  simulate::PassTimeTable times_;
  StagedJob own_;
  SplitSchedule whole_;
  SwitchSide off_;
};

}  // namespace

Result<std::vector<SwitchPrice>> schedule_prices(const KeptStep& step) {
  std::vector<SwitchPrice> prices;
  if (step.request().job.parallel.pipeline == 1) {
    prices.push_back(ScheduleComparison::line("dX apart from dW"));
    for (const ScheduleLine& schedule : schedule_lines()) prices.push_back(ScheduleComparison::line(schedule.name));
    for (SwitchPrice& price : prices) price.why_not = "one rank has no pipeline";
    return prices;
  }
  ScheduleComparison comparison(step);
  if (const Status status = comparison.start(); !status) return status.error();
  Result<SwitchPrice> split = comparison.split();
  if (!split) return split.error();
  prices.push_back(std::move(split).value());
  for (const ScheduleLine& schedule : schedule_lines()) {
    Result<SwitchPrice> price = comparison.of(schedule);
    if (!price) return price.error();
    prices.push_back(std::move(price).value());
  }
  return prices;
}

}  // namespace tidemark::prices
