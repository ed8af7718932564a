#include "planner/planned_load.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "planner/graph_build/liveness.h"
#include "planner/graph_build/step_graph.h"

namespace tidemark::plan {
namespace {

/// Where nothing says how dear memory is. On the reference job prices come to 0.988 to 0.994.
constexpr double kUsualQuantile = 0.99;
constexpr double kMostQuantile = 0.999;
/// A plan shifts the quantile a little against keep-all; asking for this much more load at first mostly saves a second
/// round. It doubles, so that a rank whose quantile moves with its plan is caught up with.
constexpr double kMargin = 0.01;
constexpr int kRounds = 6;
/// Planning again takes as long as all before it: a load is changed where that promises less by a ten-thousandth.
constexpr double kWorthShare = 10000;
/// Loads as near as this part of the way from one that does not fit to the mean are next to each other.
constexpr double kNearShare = 0.3;

}  // namespace

Status PlannedLoad::start(std::size_t rank) {
  const graph_build::ExpertLoadSpec& spec = request_.job.expert_load;
  load_ = request_.load.value_or(spec.mean);
  if (is_given()) return {};
  Result<Graph> graph =
      graph_build::build_step_graph(request_.job, request_.machine, static_cast<std::int32_t>(rank), spec.mean);
  if (!graph) return graph.error();
  const graph_build::PeakLoads peaks(graph.value(), graph_build::analyse_liveness(graph.value()), spec, most_load_);
  load_ = std::min(most_load_, kMargin + peaks.load_at(quantile(), devices_));
  return {};
}

bool PlannedLoad::is_given() const {
  return request_.load || request_.job.expert_load.coefficient_of_variation <= 0 || devices_ < 2;
}

bool PlannedLoad::is_tentative() const {
  const graph_build::ExpertLoadSpec& spec = request_.job.expert_load;
  return !is_given() && spec.quantile == 0 && (load_ > spec.mean || kept_);
}

double PlannedLoad::quantile() const {
  const double quantile = request_.job.expert_load.quantile;
  return quantile > 0 ? quantile : kUsualQuantile;
}

bool PlannedLoad::settles(RankPlan& plan, std::int64_t step_ns) {
  if (is_given()) return true;
  ++rounds_;
  return plan.figures.fits ? settles_at_fit(plan, step_ns) : settles_at_misfit(plan);
}

graph_build::PeakLoads PlannedLoad::peaks_of(const RankPlan& plan) const {
  return {plan.graph, plan.program.schedule, request_.job.expert_load, most_load_};
}

void PlannedLoad::fill_figures(const graph_build::PeakLoads& peaks, const LoadPrices& prices,
                               RankFigures& figures) const {
  figures.load_quantile = peaks.share_within(load_, devices_);
  figures.load_held_ns = std::llround(prices.held_ns * std::max(0.0, load_ - request_.job.expert_load.mean));
  figures.load_short_ns = std::llround(prices.short_ns * peaks.mean_excess(load_, devices_));
}

std::optional<double> PlannedLoad::better_load(const graph_build::PeakLoads& peaks, const LoadPrices& prices,
                                               std::int64_t step_ns) const {
  const graph_build::ExpertLoadSpec& spec = request_.job.expert_load;
  if (spec.quantile > 0 || prices.held_ns <= 0 || prices.short_ns <= 0) {
    const double wanted = peaks.load_at(quantile(), devices_);
    if (wanted <= load_) return std::nullopt;
    return std::min(most_load_, wanted + std::ldexp(kMargin, rounds_ - 1));
  }
  const double quantile = std::min(best_quantile(prices, devices_), kMostQuantile);
  const double wanted = quantile > 0 ? std::max(spec.mean, peaks.load_at(quantile, devices_)) : spec.mean;
  const auto expected_ns = [&](double load) {
    return prices.held_ns * load + prices.short_ns * peaks.mean_excess(load, devices_);
  };
  if ((expected_ns(load_) - expected_ns(wanted)) * kWorthShare < static_cast<double>(step_ns)) return std::nullopt;
  return wanted;
}

bool PlannedLoad::settles_at_fit(RankPlan& plan, std::int64_t step_ns) {
  const graph_build::PeakLoads peaks = peaks_of(plan);
  const LoadPrices prices = load_prices(plan, peaks.bytes_per_load(load_));
  fill_figures(peaks, prices, plan.figures);
  const std::optional<double> better = better_load(peaks, prices, step_ns);
  if (!better) return true;
  if (misfit_ && *better >= *misfit_) {
    kept_ = std::move(plan);
    return settles_between(plan);
  }
  if (rounds_ < kRounds) {
    kept_ = std::move(plan);
    load_ = *better;
    return false;
  }
  if (request_.job.expert_load.quantile == 0) return true;
  RankFigures& f = plan.figures;
  f.fits = false;
  f.worst_load_f = 0;
  f.reason = "the load quantile of this rank was not reached in " + std::to_string(kRounds) +
             " rounds; give --imbalance a number";
  return true;
}

bool PlannedLoad::settles_at_misfit(RankPlan& plan) {
  const graph_build::ExpertLoadSpec& spec = request_.job.expert_load;
  if (spec.quantile > 0) return true;
  misfit_ = load_;
  near_ = std::max(near_, kNearShare * (load_ - spec.mean));
  if (kept_) return settles_between(plan);
  if (load_ <= spec.mean) return true;
  load_ = spec.mean;
  return false;
}

bool PlannedLoad::settles_between(RankPlan& plan) {
  const double fits = kept_->figures.load, apart = *misfit_ - fits;
  if (rounds_ < kRounds && apart > near_) {
    load_ = fits + apart / 2;
    return false;
  }
  plan = *std::move(kept_);
  kept_.reset();
  load_ = fits;
  return true;
}

}  // namespace tidemark::plan
