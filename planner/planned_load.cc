#include "planner/planned_load.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "planner/graph_build/liveness.h"
#include "planner/graph_build/step_graph.h"

namespace tidemark::plan {
namespace {

/// At first, and where nothing says how dear memory is. On the reference job prices come to 0.997 to 0.999.
constexpr double kMostQuantile = 0.999;
/// A plan shifts the quantile a little against keep-all; asking for this much more load at first mostly saves a second
/// round. It doubles, so that a rank whose quantile moves with its plan is caught up with.
constexpr double kMargin = 0.01;
constexpr double kBriefMargin = 0.03;  ///< planning again takes as long as all before
constexpr int kRounds = 6;
/// Planning again takes as long as all before it: a load is changed where that promises less by a ten-thousandth.
constexpr double kWorthShare = 10000;
/// Where plans have shown prices to be far off, what is promised is an optimistic guess.
constexpr double kDoubtShare = 1000;
/// Of the way from the mean to a load that was tried: loads as near to each other are not told apart.
constexpr double kNearShare = 0.1;

}  // namespace

bool is_load_asked_for(const PlanRequest& request) {
  const graph_build::ExpertLoadSpec& spec = request.job.expert_load;
  return request.load || request.step || spec.quantile > 0 || spec.coefficient_of_variation <= 0;
}

Status PlannedLoad::start(std::size_t rank) {
  const graph_build::ExpertLoadSpec& spec = request_.job.expert_load;
  load_ = fixed_.value_or(request_.load.value_or(spec.mean));
  if (is_given()) return {};
  Result<Graph> graph =
      graph_build::build_step_graph(request_.job, request_.machine, static_cast<std::int32_t>(rank), spec.mean);
  if (!graph) return graph.error();
  all_kept_ = std::make_shared<const graph_build::PeakLoads>(
      graph.value(), graph_build::analyse_liveness(graph.value()), spec, most_load_);
  load_ = std::min(most_load_, (request_.is_brief ? kBriefMargin : kMargin) + all_kept_->load_at(quantile(), devices_));
  return {};
}

void PlannedLoad::start_from(const Graph& graph, const Schedule& schedule) {
  const graph_build::ExpertLoadSpec& spec = request_.job.expert_load;
  const double wanted = graph_build::PeakLoads(graph, schedule, spec, most_load_).load_at(quantile(), devices_);
  if (wanted > load_) load_ = std::min(most_load_, wanted + (spec.quantile > 0 ? kMargin : 0));
}

bool PlannedLoad::is_given() const {
  return fixed_ || request_.load || request_.job.expert_load.coefficient_of_variation <= 0 || devices_ < 2;
}

bool PlannedLoad::is_tentative() const {
  const graph_build::ExpertLoadSpec& spec = request_.job.expert_load;
  return !is_given() && spec.quantile == 0 && (load_ > spec.mean || kept_);
}

double PlannedLoad::quantile() const {
  const double quantile = request_.job.expert_load.quantile;
  return quantile > 0 ? quantile : kMostQuantile;
}

bool PlannedLoad::settles(RankPlan& plan, std::int64_t step_ns) {
  if (is_given()) return true;
  ++rounds_;
  const graph_build::ExpertLoadSpec& spec = request_.job.expert_load;
  if (plan.figures.fits) {
    take(plan);
  } else if (spec.quantile > 0 || (!kept_ && load_ <= spec.mean)) {
    return true;
  } else {
    misfits_.push_back(load_);
  }
  std::optional<double> next = kept_ ? better_load(step_ns) : std::optional(spec.mean);
  if (next && rounds_ < kRounds) {
    load_ = *next;
    return false;
  }
  settle(plan);
  if (!next || spec.quantile == 0) return true;
  RankFigures& f = plan.figures;
  f.fits = false;
  f.worst_load_f = 0;
  f.reason = "the load quantile of this rank was not reached in " + std::to_string(kRounds) +
             " rounds; give --imbalance a number";
  return true;
}

PlannedLoad::Described PlannedLoad::described(RankPlan& plan) const {
  auto peaks = std::make_shared<const graph_build::PeakLoads>(plan.graph, plan.program.schedule,
                                                              request_.job.expert_load, most_load_);
  const bool is_priced = !request_.figures_only || !is_load_asked_for(request_);
  const LoadPrices prices = is_priced ? load_prices(plan, request_, peaks->bytes_per_load(load_)) : LoadPrices{};
  const auto chunks_ns = [peaks, short_ns = prices.short_ns, devices = devices_](double load) {
    return short_ns * peaks->mean_excess(load, devices);
  };
  RankFigures& f = plan.figures;
  f.load_quantile = peaks->share_within(load_, devices_);
  f.load_held_ns = std::llround(prices.held_ns * std::max(0.0, load_ - request_.job.expert_load.mean));
  f.load_short_ns = std::llround(chunks_ns(load_));
  return {.peaks = std::move(peaks), .prices = prices, .chunks_ns = chunks_ns};
}

void PlannedLoad::describe(RankPlan& plan) const {
  if (!is_given()) described(plan);
}

void PlannedLoad::take(RankPlan& plan) {
  auto [peaks, prices, chunks_ns] = described(plan);
  const RankFigures& f = plan.figures;
  const auto added_ns = static_cast<double>(f.added_ns);
  const double expected_ns = added_ns + chunks_ns(load_);
  curve_.add({.load = load_, .added_ns = added_ns, .chunks_ns = chunks_ns});
  if (kept_ && request_.job.expert_load.quantile == 0) {
    // Chunks without a price are no reason to hold less memory.
    const bool both_priced = prices.short_ns > 0 && kept_->prices.short_ns > 0;
    if (both_priced ? expected_ns >= kept_->expected_ns : load_ <= kept_->plan.figures.load) return;
  }
  kept_ = {.plan = std::move(plan), .peaks = std::move(peaks), .prices = prices, .expected_ns = expected_ns};
}

void PlannedLoad::settle(RankPlan& plan) {
  plan = std::move(kept_->plan);
  kept_.reset();
  RankFigures& f = plan.figures;
  load_ = f.load;
  // Two plans know better than the price of one.
  if (const auto mean_ns = curve_.added_ns(request_.job.expert_load.mean); mean_ns)
    f.load_held_ns = std::max<std::int64_t>(0, f.added_ns - std::llround(*mean_ns));
}

std::optional<double> PlannedLoad::better_load(std::int64_t step_ns) const {
  if (request_.job.expert_load.quantile > 0) {
    const double wanted = kept_->peaks->load_at(quantile(), devices_);
    if (wanted <= load_) return std::nullopt;
    return std::min(most_load_, wanted + std::ldexp(kMargin, rounds_ - 1));
  }
  const auto near = by_prices(static_cast<double>(step_ns));
  const auto far = by_plans(static_cast<double>(step_ns));
  if (far && (!near || far->gain_ns > near->gain_ns)) return far->load;
  return near ? std::optional(near->load) : std::nullopt;
}

double PlannedLoad::priced_load() const {
  if (!kept_->prices.are_known()) return kept_->peaks->load_at(kMostQuantile, devices_);
  const double mean = request_.job.expert_load.mean;
  const double quantile = std::min(best_quantile(kept_->prices, devices_), kMostQuantile);
  return quantile > 0 ? std::max(mean, kept_->peaks->load_at(quantile, devices_)) : mean;
}

std::optional<double> PlannedLoad::tried_before(double wanted) const {
  const double load = kept_->plan.figures.load;
  std::optional<double> tried = curve_.next_load(load, wanted);
  for (const double misfit : misfits_)
    if (misfit > load && misfit <= wanted) tried = std::min(misfit, tried.value_or(misfit));
  return tried;
}

std::optional<PlannedLoad::Candidate> PlannedLoad::by_prices(double step_ns) const {
  const double load = kept_->plan.figures.load, wanted = priced_load();
  const LoadPrices& prices = kept_->prices;
  const std::optional<double> tried = tried_before(wanted);
  Candidate candidate{.load = tried ? std::midpoint(load, *tried) : wanted};
  if (tried && std::abs(*tried - load) < kNearShare * std::abs(*tried - request_.job.expert_load.mean))
    return std::nullopt;
  if (prices.short_ns <= 0) return candidate.load > load ? std::optional(candidate) : std::nullopt;
  const graph_build::PeakLoads& peaks = *kept_->peaks;
  candidate.gain_ns =
      prices.short_ns * (peaks.mean_excess(load, devices_) - peaks.mean_excess(candidate.load, devices_)) -
      prices.held_ns * (candidate.load - load);
  if (candidate.gain_ns * (tried ? kDoubtShare : kWorthShare) < step_ns) return std::nullopt;
  return candidate;
}

std::optional<PlannedLoad::Candidate> PlannedLoad::by_plans(double step_ns) const {
  if (kept_->prices.short_ns <= 0) return std::nullopt;
  const RankFigures& f = kept_->plan.figures;
  const double mean = request_.job.expert_load.mean;
  const double bound_ns = static_cast<double>(f.lower_bound_ns) - kept_->prices.held_ns * (f.load - mean);
  // Plans that keep more sum more sites at their peak, and vary less: as with everything kept.
  const auto best = curve_.best({.load = mean, .added_ns = std::max(0.0, bound_ns), .chunks_ns = [this](double load) {
                                   return kept_->prices.short_ns * all_kept_->mean_excess(load, devices_);
                                 }});
  if (!best || best->gain_ns * kDoubtShare < step_ns) return std::nullopt;
  // The curve holds only plans that fit, so it may propose a load that was tried and did not.
  if (std::ranges::find(misfits_, best->load) != misfits_.end()) return std::nullopt;
  return best;
}

}  // namespace tidemark::plan
