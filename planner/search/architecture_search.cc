#include "planner/search/architecture_search.h"

#include <tbb/global_control.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "planner/graph_build/layer_placement.h"
#include "planner/search/layout_trial.h"
#include "planner/simulate/layer_sums.h"
#include "planner/threads/parallel.h"

namespace tidemark::search {
namespace {

constexpr PlacementEffort kEvenStages{.bounding_rounds = 0, .work = 0, .branches = 0, .kept = 1};

template <class T>
std::vector<T> or_own(const std::vector<T>& list, T own) {
  return list.empty() ? std::vector<T>{own} : list;
}

/// Layouts of one architecture, on even stages; `refused` counts the others.
std::vector<graph_build::ParallelSpec> layouts_of(const ArchitectureSearchRequest& request,
                                                  const graph_build::JobSpec& base,
                                                  std::map<std::string, std::int64_t>& refused) {
  const graph_build::ParallelSpec& own = request.plan.job.parallel;
  std::vector<graph_build::ParallelSpec> list;
  graph_build::JobSpec job = base;
  graph_build::ParallelSpec& p = job.parallel;
  for (const std::int32_t tensor : or_own(request.layouts.tensor, own.tensor))
    for (const std::int32_t context : or_own(request.layouts.context, own.context))
      for (const std::int32_t pipeline : or_own(request.layouts.pipeline, own.pipeline))
        for (const std::int32_t chunks : or_own(request.layouts.virtual_pipeline, own.virtual_pipeline))
          for (const std::int32_t expert : or_own(request.layouts.expert, own.expert))
            for (const std::int64_t size : or_own(request.layouts.micro_batch, own.micro_batch)) {
              const std::int64_t stage = std::int64_t{tensor} * context * pipeline;
              if (request.devices % stage != 0) {
                ++refused["devices"];
                continue;
              }
              p.tensor = tensor;
              p.context = context;
              p.pipeline = pipeline;
              p.virtual_pipeline = chunks;
              p.expert = expert;
              p.micro_batch = size;
              p.data = static_cast<std::int32_t>(request.devices / stage);
              p.sequence_parallel = tensor > 1 && own.sequence_parallel;
              p.tensor_extends_expert = own.tensor_extends_expert && tensor > 1;
              p.hierarchical_expert_communication = own.hierarchical_expert_communication && expert > 1;
              p.overlap_forward_backward = own.overlap_forward_backward && pipeline > 1;
              p.expert_exchange_parts = p.exchanges_rows() ? own.expert_exchange_parts : 1;
              p.head_stage = -1;
              p.auto_placement = false;
              graph_build::fill_stages_evenly(job.model, p);
              const std::vector<graph_build::SpecProblem> problems = graph_build::find_problems(job);
              if (problems.empty())
                list.push_back(p);
              else
                ++refused[problems.front().key];
            }
  return list;
}

void take_layout(ArchitectureFigures& figures, const PricedLayout& priced) {
  figures.fits = true;
  figures.layout = priced.layout;
  figures.step_ns = priced.step_ns;
  figures.spare_bytes = priced.spare_bytes;
}

/// The search for one architecture's layout.
class LayoutPicker {
 public:
  LayoutPicker(const ArchitectureSearchRequest& request, std::size_t id)
      : request_(request),
        job_(request.plan.job),
        table_(request.plan.machine, request.plan.load.value_or(request.plan.job.expert_load.mean),
               request.plan.time_scale),
        sums_(table_) {
    job_.model = request.space.architectures[id].model;
    figures_.id = id;
  }

  Result<ArchitectureFigures> run() {
    if (Status status = bound(); !status) return status.error();
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const auto& [bound_ns, parallel] : layouts_) {
      least = std::min(least, bound_ns);
      if (request_.prune && bound_ns >= best_ns_) {
        ++figures_.bounded_away;
        continue;
      }
      if (Status status = look_at(parallel); !status) return status.error();
    }
    figures_.bound_ns = layouts_.empty() ? 0 : least;
    std::ranges::stable_sort(fitting_, {}, &PricedLayout::step_ns);
    if (!fitting_.empty()) {
      take_layout(figures_, fitting_.front());
      figures_.slower.assign(fitting_.begin() + 1, fitting_.end());
    }
    return std::move(figures_);
  }

 private:
  /// Some rank computes as long as the mean of all, in every micro-batch.
  Status bound() {
    for (graph_build::ParallelSpec& parallel : layouts_of(request_, job_, figures_.refused)) {
      job_.parallel = parallel;
      const Result<std::int64_t> compute = sums_.compute_ns(job_);
      if (!compute) return compute.error();
      layouts_.emplace_back(compute.value() * parallel.micro_batches() / parallel.pipeline, std::move(parallel));
    }
    std::ranges::stable_sort(layouts_, {}, [](const auto& entry) { return entry.first; });
    return {};
  }

  Status look_at(const graph_build::ParallelSpec& parallel) {
    job_.parallel = parallel;
    const Result<PlacementSearchResult> placed = search_placements(job_, sums_, kEvenStages);
    if (!placed) return placed.error();
    const PlacedStep& best = placed.value().best.front();
    place(job_.model, best.placement, job_.parallel);
    ++figures_.looked_at;
    const Bytes spare = spare_bytes(request_.plan, job_);
    if (spare < 0) {
      ++figures_.over_memory;
      return {};
    }
    best_ns_ = std::min(best_ns_, best.step_ns);
    SearchLayout layout{.parallel = job_.parallel, .spread = Spread::found, .placement = best.placement};
    layout.parallel.slots.clear();
    fitting_.push_back({.layout = std::move(layout), .step_ns = best.step_ns, .spare_bytes = spare});
    return {};
  }

  const ArchitectureSearchRequest& request_;
  graph_build::JobSpec job_;
  simulate::PassTimeTable table_;
  simulate::LayerSums sums_;
  std::vector<std::pair<std::int64_t, graph_build::ParallelSpec>> layouts_;
  std::vector<PricedLayout> fitting_;
  std::int64_t best_ns_ = std::numeric_limits<std::int64_t>::max();  ///< of fitting_
  ArchitectureFigures figures_;
};

class ArchitectureSearcher {
 public:
  explicit ArchitectureSearcher(const ArchitectureSearchRequest& request) : request_(request) {}

  Result<ArchitectureSearchResult> run() {
    const std::size_t count = request_.space.architectures.size();
    std::vector<ArchitectureFigures> all(count);
    std::atomic<int> done = 0;
    Status status = threads::parallel_try_each(count, [&](std::size_t id) -> Status {
      Result<ArchitectureFigures> figures = LayoutPicker(request_, id).run();
      if (!figures) return figures.error();
      all[id] = std::move(figures).value();
      if (request_.progress) request_.progress(++done, static_cast<int>(count));
      return {};
    });
    if (!status) return status.error();
    for (ArchitectureFigures& figures : all) take(std::move(figures));
    sort();
    if (Status planned = plan_pareto(); !planned) return planned.error();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_too_slow(std::int64_t step_ns) const {
    return request_.bounds.most_step_s && static_cast<double>(step_ns) * 1e-9 > *request_.bounds.most_step_s;
  }

  void take(ArchitectureFigures figures) {
    result_.looked_at += figures.looked_at;
    result_.bounded_away += figures.bounded_away;
    result_.over_memory += figures.over_memory;
    for (const auto& [key, count] : figures.refused) result_.refused[key] += count;
    if (!figures.fits)
      ++result_.misfit;
    else if (is_too_slow(figures.step_ns))
      ++result_.over_step;
    else
      result_.fitting.push_back(std::move(figures));
  }

  [[nodiscard]] double active(const ArchitectureFigures& figures) const {
    return request_.space.architectures[figures.id].parameters.active;
  }

  /// Fastest first, and the Pareto set of that order: more active parameters than all that is faster.
  void sort() {
    std::ranges::stable_sort(result_.fitting, [&](const ArchitectureFigures& a, const ArchitectureFigures& b) {
      return std::pair(a.step_ns, -active(a)) < std::pair(b.step_ns, -active(b));
    });
    result_.pareto.clear();
    result_.given.reset();
    double most = -1;
    for (std::size_t i = 0; i < result_.fitting.size(); ++i) {
      if (result_.fitting[i].id == request_.space.given) result_.given = i;
      if (active(result_.fitting[i]) <= most) continue;
      most = active(result_.fitting[i]);
      result_.pareto.push_back(i);
    }
  }

  /// Plans members that have no plan until all have one or enough are planned: a plan moves its architecture back, so
  /// others may join.
  Status plan_pareto() {
    std::size_t planned = 0;
    while (result_.given && !result_.fitting[*result_.given].planned) {
      if (Status status = plan(*result_.given); !status) return status;
      sort();
    }
    while (planned < request_.most_planned) {
      const auto next = std::ranges::find_if(result_.pareto,
                                             [&](std::size_t at) { return !result_.fitting[at].planned.has_value(); });
      if (next == result_.pareto.end()) break;
      if (Status status = plan(*next); !status) return status;
      ++planned;
      sort();
    }
    return {};
  }

  Status plan(std::size_t at) {
    ArchitectureFigures& figures = result_.fitting[at];
    plan::PlanRequest request = request_.plan;
    request.job.model = request_.space.architectures[figures.id].model;
    request.job = with_layout(request.job, figures.layout);
    request.threads = 0;
    request.progress = nullptr;
    request.ranks.clear();
    if (!request.load) request.load = request.job.expert_load.mean;
    Result<AutoPlacement> placed = place_automatically(request);
    if (!placed) return placed.error();
    figures.layout.placement = std::move(placed.value().placement);
    figures.layout.parallel.head_stage = request.job.parallel.head_stage;
    figures.spare_bytes = spare_bytes(request_.plan, request.job);
    const Result<plan::PlanOutcome> outcome = plan::plan_step(request);
    if (!outcome) return outcome.error();
    const LayoutFigures planned = layout_figures(outcome.value());
    if (planned.fits && !is_too_slow(planned.step_ns)) {
      figures.planned = planned;
      figures.step_ns = planned.step_ns;
      return {};
    }
    // The next layout may need less, or more.
    if (!figures.slower.empty() && !is_too_slow(figures.slower.front().step_ns)) {
      take_layout(figures, figures.slower.front());
      figures.slower.erase(figures.slower.begin());
      return {};
    }
    ++(planned.fits ? result_.over_step : result_.misfit);
    result_.fitting.erase(result_.fitting.begin() + static_cast<std::ptrdiff_t>(at));
    return {};
  }

  const ArchitectureSearchRequest& request_;
  ArchitectureSearchResult result_;
};

}  // namespace

Result<ArchitectureSearchResult> search_architectures(const ArchitectureSearchRequest& request) {
  std::optional<tbb::global_control> limit;
  if (request.plan.threads > 0)
    limit.emplace(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(request.plan.threads));
  return ArchitectureSearcher(request).run();
}

}  // namespace tidemark::search
