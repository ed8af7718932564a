#include "planner/search/layout_search.h"

#include <tbb/global_control.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "planner/cost/copy_cost.h"
#include "planner/graph_build/layer_placement.h"
#include "planner/search/layout_ranking.h"
#include "planner/search/layout_trial.h"
#include "planner/search/placement_search.h"
#include "planner/simulate/pass_times.h"
#include "planner/threads/parallel.h"
#include "planner/time_split.h"

namespace tidemark::search {
namespace {

constexpr std::size_t kBatch = 8;         ///< layouts planned side by side: the same for every thread count
constexpr std::size_t kSharpened = 2048;  ///< layouts whose passes are played side by side
constexpr std::int32_t kFewRanks = 4;     ///< up to here all ranks are planned at once
/// A layout that is looked at is one of dozens, so its placement is searched with less work than a job's own.
constexpr PlacementEffort kPlacementEffort{.bounding_rounds = 48, .work = 1'000'000, .branches = 20'000, .kept = 1};

plan::PlanRequest request_for(const plan::PlanRequest& plan, const SearchLayout& layout) {
  plan::PlanRequest request = plan;
  request.job = with_layout(plan.job, layout);
  request.threads = 0;
  request.progress = nullptr;
  request.ranks.clear();
  if (!request.load) request.load = request.job.expert_load.mean;
  return request;
}

/// Plans the worst ranks, and where they fit the others.
Result<LayoutFigures> plan_layout(const plan::PlanRequest& plan, const SearchLayout& layout) {
  plan::PlanRequest request = request_for(plan, layout);
  if (request.job.parallel.pipeline > kFewRanks) request.trial = plan::Trial{.first = worst_ranks(request.job)};
  const Result<plan::PlanOutcome> outcome = plan::plan_step(request);
  if (!outcome) return outcome.error();
  return layout_figures(outcome.value());
}

class LayoutSearcher {
 public:
  explicit LayoutSearcher(const LayoutSearchRequest& request)
      : request_(request),
        ranking_(request.top),
        times_(request.plan.machine, request.plan.load.value_or(request.plan.job.expert_load.mean),
               request.plan.time_scale) {}

  Result<LayoutSearchResult> run() {
    layouts_ = request_.space.layouts;
    if (Status status = enqueue(); !status) return status.error();
    if (request_.space.has_given) {
      if (Status status = guess(0); !status) return status.error();
      if (Status status = plan({0}); !status) return status.error();
      given_ns_ = figures_.at(0).step_ns;
    }
    while (true) {
      if (ready_.empty())
        if (Status status = sharpen(); !status) return status.error();
      const Result<std::vector<std::size_t>> batch = take_batch();
      if (!batch) return batch.error();
      if (batch.value().empty() && (ready_.empty() && waiting_.empty())) break;
      if (taken_in_order_ >= request_.most_planned && batch.value().empty()) break;
      if (Status status = look_at_with_placements(batch.value()); !status) return status.error();
    }
    if (Status status = plan_the_rest(); !status) return status.error();
    return finish();
  }

 private:
  [[nodiscard]] graph_build::JobSpec job_of(std::size_t id) const {
    return with_layout(request_.plan.job, layouts_[id]);
  }

  /// Guesses for all layouts whose static memory some plan may fit.
  Status enqueue() {
    const std::vector<SearchLayout>& layouts = request_.space.layouts;
    static_ = static_fits();
    bounds_.assign(layouts.size(), 0);
    std::vector<std::int64_t> estimates(layouts.size(), 0);
    Status status = threads::parallel_try_each(layouts.size(), [&](std::size_t id) -> Status {
      if (!static_[layouts[id].group].possible) return {};
      const graph_build::JobSpec job = job_of(id);
      const Result<simulate::LayerTimes> times = times_.layers_of(job);
      if (!times) return times.error();
      const simulate::StepGuess guess = simulate::guess_by_layers(times.value(), job);
      bounds_[id] = guess.bound_ns;
      estimates[id] = guess.estimate_ns + offload_ns(id);
      return {};
    });
    if (!status) return status;
    // The job's own layout is planned whatever its bounds say.
    for (std::size_t id = request_.space.has_given ? 1 : 0; id < layouts.size(); ++id) {
      if (static_[layouts[id].group].possible)
        waiting_.insert({.step_ns = estimates[id], .id = id});
      else
        ++result_.over_static;
    }
    return {};
  }

  Status guess(std::size_t id) {
    const graph_build::JobSpec job = job_of(id);
    const Result<simulate::StageTimes> times = times_.times_of(job);
    if (!times) return times.error();
    const Result<simulate::StepGuess> guess = simulate::guess_by_passes(times.value(), job.parallel);
    if (!guess) return guess.error();
    bounds_[id] = guess.value().bound_ns;
    return {};
  }

  [[nodiscard]] std::vector<StaticFit> static_fits() const {
    std::vector<std::size_t> first(request_.space.groups, 0);
    for (std::size_t id = request_.space.layouts.size(); id-- > 0;) first[request_.space.layouts[id].group] = id;
    std::vector<StaticFit> fits(first.size());
    threads::parallel_for_each(0, first.size(),
                               [&](std::size_t g) { fits[g] = static_fit(request_.plan, job_of(first[g])); });
    return fits;
  }

  /// Estimate of the time that state adds which has to be offloaded: one transfer of it, since copies in run beside
  /// copies out. Bounds count nothing of it, since compute may hide all of it.
  [[nodiscard]] std::int64_t offload_ns(std::size_t id) const {
    const Bytes bytes = static_[layouts_[id].group].offloaded;
    return bytes > 0 ? cost::copy_out_cost(bytes, request_.plan.machine).link_ns : 0;
  }

  /// Plays the passes of the next layouts in line that are not bounded away.
  Status sharpen() {
    std::vector<std::size_t> ids;
    while (ids.size() < kSharpened && !waiting_.empty()) {
      const std::size_t id = waiting_.begin()->id;
      waiting_.erase(waiting_.begin());
      const Result<bool> is_over = passes_over(id);
      if (!is_over) return is_over.error();
      if (!is_over.value()) ids.push_back(id);
    }
    std::vector<simulate::StepGuess> guesses(ids.size());
    Status status = threads::parallel_try_each(ids.size(), [&](std::size_t i) -> Status {
      const graph_build::JobSpec job = job_of(ids[i]);
      const Result<simulate::StageTimes> times = times_.times_of(job);
      if (!times) return times.error();
      const Result<simulate::StepGuess> guess = simulate::guess_by_passes(times.value(), job.parallel);
      if (!guess) return guess.error();
      guesses[i] = guess.value();
      return {};
    });
    if (!status) return status;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      bounds_[ids[i]] = std::max(bounds_[ids[i]], guesses[i].bound_ns);
      ready_.insert({.step_ns = guesses[i].estimate_ns + offload_ns(ids[i]), .id = ids[i]});
    }
    return {};
  }

  /// Slower than all that will be shown, which is counted. Layouts that were looked at are planned as far as the answer
  /// depends on them.
  Result<bool> passes_over(std::size_t id) {
    if (!request_.prune) return false;
    while (bounds_[id] > ranking_.least_last_ns() && bounds_[id] <= ranking_.most_last_ns())
      if (Status status = plan(ranking_.take(ranking_.least_last_ns(), kBatch)); !status) return status.error();
    const bool is_over = bounds_[id] > ranking_.most_last_ns();
    if (is_over) ++result_.bounded_away;
    return is_over;
  }

  Result<std::vector<std::size_t>> take_batch() {
    std::vector<std::size_t> batch;
    while (batch.size() < kBatch && !ready_.empty() && taken_in_order_ < request_.most_planned) {
      const std::size_t id = ready_.begin()->id;
      ready_.erase(ready_.begin());
      const Result<bool> is_over = passes_over(id);
      if (!is_over) return is_over.error();
      if (is_over.value()) continue;
      batch.push_back(id);
      ++taken_in_order_;
    }
    return batch;
  }

  /// Simulates a batch with everything kept, which says what a plan takes at least.
  Status look_at(const std::vector<std::size_t>& batch) {
    std::vector<std::int64_t> kept(batch.size());
    Status status = threads::parallel_try_each(batch.size(), [&](std::size_t i) -> Status {
      const Result<std::int64_t> step_ns = keep_all_ns(request_for(request_.plan, layouts_[batch[i]]));
      if (!step_ns) return step_ns.error();
      kept[i] = step_ns.value();
      return {};
    });
    if (!status) return status;
    for (std::size_t i = 0; i < batch.size(); ++i) ranking_.expect({.step_ns = kept[i], .id = batch[i]});
    return {};
  }

  /// Looks at layouts, and at others with the same degrees and a better placement, where there is one.
  Status look_at_with_placements(const std::vector<std::size_t>& batch) {
    if (Status status = look_at(batch); !status || !request_.place) return status;
    std::vector<std::size_t> unplaced;
    for (const std::size_t id : batch)
      if (layouts_[id].parallel.pipeline > 1 && is_searchable(job_of(id)) &&
          placed_.insert(degrees_text(layouts_[id])).second)
        unplaced.push_back(id);
    std::vector<std::optional<SearchLayout>> found(unplaced.size());
    Status status = threads::parallel_try_each(unplaced.size(), [&](std::size_t i) -> Status {
      Result<std::optional<SearchLayout>> better = place_better(unplaced[i]);
      if (!better) return better.error();
      found[i] = std::move(better).value();
      return {};
    });
    if (!status) return status;
    std::vector<std::size_t> added;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i]) continue;
      added.push_back(layouts_.size());
      layouts_.push_back(*found[i]);
      bounds_.push_back(0);
    }
    result_.placed += added.size();
    for (const std::size_t id : added)
      if (Status guessed = guess(id); !guessed) return guessed;
    return look_at(added);
  }

  /// The best placement of a layout's degrees, where none that the space has for them is as fast.
  Result<std::optional<SearchLayout>> place_better(std::size_t id) {
    Result<PlacementSearchResult> placed = search_placements(job_of(id), times_, kPlacementEffort);
    if (!placed) return placed.error();
    SearchLayout layout = layouts_[id];
    layout.spread = Spread::found;
    layout.placement = std::move(placed.value().best.front().placement);
    layout.parallel.head_stage = with_layout(request_.plan.job, layout).parallel.head_stage;
    return is_in_space(layout) ? std::optional<SearchLayout>() : std::optional<SearchLayout>(std::move(layout));
  }

  /// The same layers and main head where some other spread puts them.
  [[nodiscard]] bool is_in_space(const SearchLayout& layout) const {
    for (const Spread spread : {Spread::given, Spread::tail, Spread::back, Spread::front}) {
      if (spread == Spread::given && !request_.space.has_given) continue;
      SearchLayout other = layout;
      other.spread = spread;
      if (spread == Spread::given) other.parallel = layouts_.front().parallel;
      if (spread == Spread::given && degrees_text(other) != degrees_text(layout)) continue;
      const graph_build::ParallelSpec parallel = with_layout(request_.plan.job, other).parallel;
      if (parallel.slots.empty() || graph_build::stage_layers(parallel) != layout.placement.layers) continue;
      if (spread != Spread::given || parallel.main_head_stage() == layout.parallel.main_head_stage()) return true;
    }
    return false;
  }

  /// Of what was looked at, all that may be shown or ahead of the job's own, those first that are one or the other
  /// whatever the rest come to. The others are bounded away.
  Status plan_the_rest() {
    while (true) {
      std::int64_t shown_ns = LayoutRanking::kNoStep;
      if (request_.prune) shown_ns = std::max(ranking_.least_last_ns(), given_ns_);
      const std::vector<std::size_t> batch = ranking_.take(shown_ns, kBatch);
      if (batch.empty()) break;
      if (Status status = plan(batch); !status) return status;
    }
    result_.bounded_away += ranking_.expected().size();
    return {};
  }

  Status plan(const std::vector<std::size_t>& batch) {
    std::vector<LayoutFigures> figures(batch.size());
    Status status = threads::parallel_try_each(batch.size(), [&](std::size_t i) -> Status {
      const SearchLayout& layout = layouts_[batch[i]];
      const auto known = request_.known.find(layout_text(layout));
      if (known != request_.known.end()) {
        figures[i] = known->second;
        return {};
      }
      Result<LayoutFigures> planned = plan_layout(request_.plan, layout);
      if (!planned) return planned.error();
      figures[i] = std::move(planned).value();
      return {};
    });
    if (!status) return status;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (request_.finished) request_.finished(layouts_[batch[i]], figures[i]);
      ++result_.planned;
      if (!figures[i].fits) ++result_.misfit;
      if (figures[i].fits) ranking_.add({.step_ns = figures[i].step_ns, .id = batch[i]});
      figures_[batch[i]] = std::move(figures[i]);
    }
    if (request_.progress)
      request_.progress(static_cast<int>(result_.planned), static_cast<int>(request_.most_planned) + 1);
    return {};
  }

  [[nodiscard]] RankedLayout ranked(std::size_t id) const {
    return {.id = id, .layout = layouts_[id], .bound_ns = bounds_[id], .figures = figures_.at(id)};
  }

  Result<LayoutSearchResult> finish() {
    for (const LayoutStep& planned : ranking_.planned()) {
      if (result_.best.size() < request_.top) result_.best.push_back(ranked(planned.id));
    }
    for (const std::set<LayoutStep>* left : {&ready_, &waiting_})
      for (const LayoutStep& entry : *left)
        ++(bounds_[entry.id] < ranking_.most_last_ns() ? result_.below : result_.bounded_away);
    if (!request_.space.has_given) return std::move(result_);
    result_.given = ranked(0);
    const LayoutFigures& given = result_.given->figures;
    if (!given.fits) return std::move(result_);
    const auto at = ranking_.planned().find({.step_ns = given.step_ns, .id = 0});
    result_.given_rank = static_cast<std::size_t>(std::distance(ranking_.planned().begin(), at)) + 1;
    for (const std::set<LayoutStep>* left : {&ready_, &waiting_})
      for (const LayoutStep& entry : *left)
        if (bounds_[entry.id] < given.step_ns) ++result_.faster_than_given;
    return std::move(result_);
  }

  const LayoutSearchRequest& request_;
  LayoutRanking ranking_;  ///< of those that were planned and fit, and of those that were looked at
  simulate::PassTimeTable times_;
  std::vector<SearchLayout> layouts_;     ///< of the space, and behind them those with a placement found
  std::set<std::string> placed_;          ///< degrees for which a placement was searched
  std::vector<StaticFit> static_;         ///< by group
  std::vector<std::int64_t> bounds_;      ///< by id; the sharpest known
  std::set<LayoutStep> waiting_, ready_;  ///< guessed by layers, and by passes
  std::map<std::size_t, LayoutFigures> figures_;
  std::int64_t given_ns_ = 0;  ///< step of the job's own layout; 0: it does not fit, or is none
  std::size_t taken_in_order_ = 0;
  LayoutSearchResult result_;
};

}  // namespace

Result<LayoutSearchResult> search_layouts(const LayoutSearchRequest& request) {
  std::optional<tbb::global_control> limit;
  if (request.plan.threads > 0)
    limit.emplace(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(request.plan.threads));
  return LayoutSearcher(request).run();
}

LayoutFigures layout_figures(const plan::PlanOutcome& outcome) {
  LayoutFigures f{.fits = outcome.fits()};
  for (const plan::RankPlan& rank : outcome.ranks) {
    f.peak_bytes = std::max(f.peak_bytes, rank.figures.peak_bytes);
    if (!rank.figures.fits && f.reason.empty())
      f.reason = "rank " + std::to_string(rank.figures.rank) + ": " + rank.figures.reason;
  }
  if (!f.fits) return f;
  std::vector<plan::TimeSplit> splits;
  std::int64_t busiest = 0;
  for (const plan::RankPlan& rank : outcome.ranks) {
    splits.push_back(plan::split_time(rank, outcome.step.step_ns));
    busiest = std::max(busiest, splits.back().compute_ns);
  }
  const plan::TimeSplit mean = plan::mean_split(splits);
  f.step_ns = outcome.step.step_ns;
  f.compute_ns = mean.compute_ns;
  f.memory_ns = mean.recompute_ns + mean.copy_overhead_ns + mean.exposed_copy_ns;
  f.communication_ns = mean.exposed_communication_ns;
  f.imbalance_ns = std::min(busiest - mean.compute_ns, mean.bubble_ns);
  f.bubble_ns = mean.bubble_ns - f.imbalance_ns;
  return f;
}

std::string binding_of(const LayoutFigures& figures) {
  const std::array<std::pair<std::int64_t, const char*>, 4> parts = {
      std::pair(figures.bubble_ns, "bubble"), std::pair(figures.communication_ns, "communication"),
      std::pair(figures.imbalance_ns, "imbalance"), std::pair(figures.memory_ns, "memory")};
  return std::ranges::max_element(parts, {}, &std::pair<std::int64_t, const char*>::first)->second;
}

}  // namespace tidemark::search
