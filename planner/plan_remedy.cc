#include "planner/plan_remedy.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "planner/built_plan.h"
#include "planner/plan_moves.h"
#include "planner/storage_names.h"

namespace tidemark::plan {
namespace {

Bytes highest_peak(const PlanOutcome& outcome) {
  Bytes peak = 0;
  for (const RankPlan& rank : outcome.ranks) peak = std::max(peak, rank.figures.peak_bytes);
  return peak;
}

double percent_more(std::int64_t before_ns, std::int64_t after_ns) {
  return 100.0 * static_cast<double>(after_ns - before_ns) / static_cast<double>(std::max<std::int64_t>(1, before_ns));
}

std::string milliseconds(std::int64_t ns) {
  return fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
}

/// The smallest device budget that every rank is known to meet with these edits; 0: none is known of some rank.
Bytes smallest_budget(const PlanOutcome& outcome) {
  Bytes smallest = 0;
  for (const RankPlan& rank : outcome.ranks) {
    const RankFigures& f = rank.figures;
    const Bytes here = f.fits ? f.peak_bytes : f.smallest_budget_bytes;
    if (here == 0) return 0;
    smallest = std::max(smallest, here);
  }
  return smallest;
}

class RemedySearch {
 public:
  RemedySearch(const RemedyQuestion& question, PlanOutcome planned)
      : question_(question), planned_(std::move(planned)), limited_(question.request) {
    limited_.policy = &question.search;
    limited_.budget_bytes = question.limits.device_bytes;
    limited_.host_budget_bytes = question.limits.host_bytes;
    limited_.is_brief = true;
    limited_.progress = {};
    for (const RankPlan& rank : planned_.ranks)
      if (exceeds(rank.figures, question.limits)) exceeding_.insert(rank.graph.rank);
    // What no allocator of ours owns is more than there is: a job of another size would need it, too.
    is_beyond_any_change_ = std::ranges::any_of(planned_.ranks, [&](const RankPlan& rank) {
      return rank.figures.reserve_bytes >= question.limits.device_bytes;
    });
  }

  Result<PlanRemedy> run() {
    if (is_beyond_any_change_) return none(std::move(planned_));
    PlanOutcome searched;
    if (!was_searched()) {
      Result<PlanOutcome> planned = plan_exceeding();
      if (!planned) return planned.error();
      if (planned.value().fits()) return by_plan(std::move(planned).value());
      searched = std::move(planned).value();
    }
    if (question_.changes_job && !limited_.step) {
      Result<std::optional<PlanRemedy>> changed = by_job_change();
      if (!changed) return changed.error();
      if (changed.value()) return *std::move(changed).value();
    }
    if (was_searched()) return none(std::move(planned_));
    if (Status status = plan_others(searched); !status) return status.error();
    return none(std::move(searched));
  }

 private:
  /// The plans in hand are what the search would come to again.
  [[nodiscard]] bool was_searched() const {
    const PlanRequest& request = question_.request;
    const Budgets budgets = budgets_of(request);
    return request.policy == limited_.policy && request.is_brief && budgets.total == question_.limits.device_bytes &&
           budgets.host == question_.limits.host_bytes;
  }

  /// Where one of the hardest ranks does not fit, the others are not planned.
  Result<PlanOutcome> plan_exceeding() const {
    PlanRequest request = limited_;
    if (request.step) return plan_step(request);
    request.ranks.assign(exceeding_.begin(), exceeding_.end());
    request.trial.emplace(Trial{.first = hardest_ranks()});
    return plan_step(request);
  }

  /// The ranks that exceed and were left out: a budget that does has to do for them, whatever they may cost. Without a
  /// byte of budget none is looked for but what needs about the least.
  Status plan_others(PlanOutcome& searched) const {
    if (searched.is_whole) return {};
    PlanRequest request = limited_;
    std::set<std::int32_t> others = exceeding_;
    for (const RankPlan& rank : searched.ranks) others.erase(rank.graph.rank);
    searched.is_whole = true;
    if (others.empty()) return {};
    request.ranks.assign(others.begin(), others.end());
    request.budget_bytes = 0;
    Result<PlanOutcome> planned = plan_step(request);
    if (!planned) return planned.error();
    std::ranges::move(planned.value().ranks, std::back_inserter(searched.ranks));
    std::ranges::sort(searched.ranks, {}, [](const RankPlan& rank) { return rank.graph.rank; });
    return {};
  }

  /// Those that say soonest that a job does not fit: that are known not to, and then with the highest peaks, as many as
  /// two cores plan at once.
  [[nodiscard]] std::vector<std::int32_t> hardest_ranks() const {
    std::vector<const RankPlan*> ranks;
    for (const RankPlan& rank : planned_.ranks) ranks.push_back(&rank);
    std::ranges::stable_sort(ranks, std::greater<>(), [&](const RankPlan* rank) {
      return std::pair(least_known(*rank) > question_.limits.device_bytes, rank->figures.peak_bytes);
    });
    ranks.resize(std::min<std::size_t>(2, ranks.size()));
    std::vector<std::int32_t> hardest;
    for (const RankPlan* rank : ranks) hardest.push_back(rank->graph.rank);
    return hardest;
  }

  [[nodiscard]] std::vector<const RankPlan*> plans_of(const PlanOutcome& outcome) const {
    std::vector<const RankPlan*> plans;
    for (const RankPlan& rank : outcome.ranks)
      if (exceeding_.contains(rank.graph.rank)) plans.push_back(&rank);
    return plans;
  }

  Result<PlanRemedy> by_plan(PlanOutcome searched) {
    PlanRemedy found{.remedy = {.clears = true}, .request = limited_, .outcome = {}};
    found.request.ranks = question_.request.ranks;
    found.remedy.edits = edits_between(limited_, plans_of(planned_), plans_of(searched));
    found.remedy.reason = cost_reason(searched);
    const std::int64_t before_ns = planned_.step.step_ns;
    const bool is_whole =
        limited_.step || planned_.ranks.size() == static_cast<std::size_t>(limited_.job.parallel.pipeline);
    found.outcome = std::move(planned_);
    if (!is_whole) found.outcome.step = searched.step;
    for (RankPlan& rank : searched.ranks) {
      const auto place =
          std::ranges::find(found.outcome.ranks, rank.graph.rank, [](const RankPlan& r) { return r.graph.rank; });
      *place = std::move(rank);
    }
    if (is_whole)
      if (Status status = simulate_plan(found.request, found.outcome); !status) return status.error();
    found.remedy.peak_bytes = told(highest_peak(found.outcome));
    found.remedy.step_percent = percent_more(before_ns, found.outcome.step.step_ns);
    return found;
  }

  [[nodiscard]] std::string cost_reason(const PlanOutcome& searched) const {
    std::vector<RankFigures> figures;
    for (const RankPlan& rank : searched.ranks) figures.push_back(rank.figures);
    const bool is_named = figures.size() > 1 || figures.front().rank > 0;
    return fmt::format("policy {}{}: {}", question_.search.name, is_named ? " on pp" + ranges_text(exceeding_) : "",
                       cost_text(figures));
  }

  struct Tried {
    JobChange change;
    PlanRequest request;
    PlanOutcome outcome;
  };

  Result<std::optional<PlanRemedy>> by_job_change() {
    const std::vector<JobChange> changes = job_changes(limited_.job);
    std::optional<Tried> best;
    for (const JobChange& change : changes) {
      if (Status status = try_change(change, best); !status) return status.error();
    }
    if (!best && changes.size() > 1)
      if (Status status = try_change(all_of(changes), best); !status) return status.error();
    if (!best) return std::optional<PlanRemedy>();
    PlanRemedy found{.remedy = {.clears = true,
                                .edits = {{.text = best->change.text,
                                           .saved_bytes = highest_peak(planned_) - highest_peak(best->outcome),
                                           .where = {.text = std::string(best->change.key)}}},
                                .peak_bytes = told(highest_peak(best->outcome)),
                                .step_percent = percent_more(planned_.step.step_ns, best->outcome.step.step_ns),
                                .reason = fmt::format("no plan of the job as it is was found that fits; of {} changes "
                                                      "of it the one with the shortest step (modelled), policy {}",
                                                      tried_.size(), question_.search.name)},
                     .request = std::move(best->request),
                     .outcome = std::move(best->outcome)};
    add_moves(found);
    return std::optional(std::move(found));
  }

  /// The plan that goes with a changed job, where the job was planned by another policy.
  void add_moves(PlanRemedy& found) const {
    if (question_.request.policy == &question_.search || found.outcome.ranks.size() != planned_.ranks.size()) return;
    std::vector<const RankPlan*> before, after;
    for (const RankPlan& rank : planned_.ranks) before.push_back(&rank);
    for (const RankPlan& rank : found.outcome.ranks) after.push_back(&rank);
    for (budget::Edit& edit : edits_between(found.request, before, after)) {
      edit.saved_bytes = 0;  // what the other size of the job saves is in the same rows
      found.remedy.edits.push_back(std::move(edit));
    }
  }

  Status try_change(const JobChange& change, std::optional<Tried>& best) {
    PlanRequest request = limited_;
    request.trial.emplace(Trial{.first = hardest_ranks()});
    if (best) request.trial->useless_step_ns = best->outcome.step.step_ns;
    change.apply(request.job);
    if (!graph_build::find_problems(request.job).empty()) return {};
    tried_.push_back(change.text);
    Result<PlanOutcome> outcome = plan_step(request);
    if (!outcome && outcome.error().code == Error::Code::internal) return outcome.error();
    if (!outcome || !outcome.value().fits()) return {};
    if (best && best->outcome.step.step_ns <= outcome.value().step.step_ns) return {};
    request.trial.reset();
    best = Tried{.change = change, .request = std::move(request), .outcome = std::move(outcome).value()};
    return {};
  }

  /// The last of each key, as changes of a key go further and further.
  static JobChange all_of(const std::vector<JobChange>& changes) {
    std::vector<JobChange> last;
    for (const JobChange& change : changes) {
      std::erase_if(last, [&](const JobChange& other) { return other.key == change.key; });
      last.push_back(change);
    }
    JobChange all{.key = last.front().key, .text = {}, .apply = {}};
    for (const JobChange& change : last) all.text += (all.text.empty() ? "" : ", ") + change.text;
    all.apply = [last](graph_build::JobSpec& job) {
      for (const JobChange& change : last) change.apply(job);
    };
    return all;
  }

  Result<PlanRemedy> none(PlanOutcome searched) {
    PlanRemedy found{.remedy = {.clears = false}, .request = limited_, .outcome = {}};
    const Bytes smallest = smallest_budget(searched);
    found.remedy.peak_bytes = told(smallest > 0 ? smallest : highest_peak(searched));
    std::string looked_at = is_beyond_any_change_ ? "nothing, since the reserve alone is more than there is"
                                                  : fmt::format("policy {}", question_.search.name);
    for (const std::string& text : tried_) looked_at += "; " + text;
    found.remedy.reason =
        smallest > 0 ? fmt::format("smallest budget known to do: {}", format_bytes_up(told(smallest)))
                     : fmt::format("no budget is known to do; the lowest peak found is {} with {} of host memory",
                                   format_bytes_up(found.remedy.peak_bytes), format_bytes_up(host_of(searched)));
    for (const RankPlan& rank : searched.ranks) {
      const Bytes floor = least_known(rank);
      if (rank.figures.fits || (floor <= question_.limits.device_bytes && !rank.figures.misfit_is_proven)) continue;
      found.remedy.is_proven = true;
      found.remedy.reason +=
          fmt::format("; proven: no plan of rank {} needs less than {}", rank.figures.rank, format_bytes(told(floor)));
      break;
    }
    if (!found.remedy.is_proven && smallest > 0)
      found.remedy.reason += "; a longer search (tidemark plan) may find less";
    found.remedy.reason += "; looked at: " + looked_at;
    found.outcome = std::move(searched);
    return found;
  }

  /// A size with reserves, as the reader counts.
  [[nodiscard]] Bytes told(Bytes bytes) const { return bytes - question_.left_out_bytes; }

  /// Of a rank, reserves included: proven.
  static Bytes least_known(const RankPlan& rank) { return proven_least_bytes(rank) + rank.figures.reserve_bytes; }

  static Bytes host_of(const PlanOutcome& outcome) {
    Bytes host = 0;
    for (const RankPlan& rank : outcome.ranks) host = std::max(host, rank.figures.host_bytes);
    return host;
  }

  const RemedyQuestion& question_;
  PlanOutcome planned_;
  PlanRequest limited_;               ///< the question's, by the searching policy within the limits
  std::set<std::int32_t> exceeding_;  ///< ranks
  bool is_beyond_any_change_ = false;
  std::vector<std::string> tried_;  ///< changes of the job
};

}  // namespace

bool exceeds(const RankFigures& figures, const MemoryLimits& limits) {
  return figures.peak_bytes > limits.device_bytes || figures.host_bytes > limits.host_bytes;
}

Result<PlanRemedy> find_remedy(const RemedyQuestion& question, PlanOutcome planned) {
  return RemedySearch(question, std::move(planned)).run();
}

std::string cost_text(const std::vector<RankFigures>& ranks) {
  const auto gap = [](const RankFigures& rank) { return rank.added_ns - rank.lower_bound_ns; };
  const RankFigures& most = *std::ranges::max_element(ranks, {}, &RankFigures::added_ns);
  const RankFigures& widest = *std::ranges::max_element(ranks, {}, gap);
  if (gap(widest) <= 0) return "the cheapest (proven by rank); times are modelled";
  std::string text =
      fmt::format("cheapest found by a short search, adds {} to a rank at most", milliseconds(most.added_ns));
  if (widest.lower_bound_ns > 0 && &widest == &most)
    text += fmt::format(", no plan adds less than {} there (proven)", milliseconds(widest.lower_bound_ns));
  else if (widest.lower_bound_ns > 0)
    text += fmt::format("; on rank {} it adds {}, no plan adds less than {} there (proven)", widest.rank,
                        milliseconds(widest.added_ns), milliseconds(widest.lower_bound_ns));
  return text + "; times are modelled";
}

std::vector<JobChange> job_changes(const graph_build::JobSpec& job) {
  std::vector<JobChange> changes;
  const auto consider = [&](std::string_view key, std::string value, std::function<void(graph_build::JobSpec&)> apply) {
    graph_build::JobSpec changed = job;
    apply(changed);
    if (changed == job || !graph_build::find_problems(changed).empty()) return;
    changes.push_back({.key = key, .text = fmt::format("{}: {}", key, value), .apply = std::move(apply)});
  };
  for (std::int64_t size = job.parallel.micro_batch; size % 2 == 0;) {
    size /= 2;
    consider("parallel.micro_batch", std::to_string(size),
             [size](graph_build::JobSpec& j) { j.parallel.micro_batch = size; });
  }
  if (job.parallel.tensor > 1)
    consider("parallel.sequence_parallel", "true",
             [](graph_build::JobSpec& j) { j.parallel.sequence_parallel = true; });
  consider("parallel.distributed_optimizer", "true",
           [](graph_build::JobSpec& j) { j.parallel.distributed_optimizer = true; });
  consider("parallel.overlap_forward_backward", "false",
           [](graph_build::JobSpec& j) { j.parallel.overlap_forward_backward = false; });
  return changes;
}

}  // namespace tidemark::plan
